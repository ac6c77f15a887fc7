"""Kafka for tests: a real server in the process of the tests, with faults and a clock.

See docs/testing/ for the guide; `coterie.testing.plugin` has the fixtures for pytest.
Each name of `__init__.pyi` is imported on first use: pytest loads the plugin in every
run, and only runs that start a server pay for the import of one.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
