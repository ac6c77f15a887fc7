"""A Prometheus exporter of consumer groups: polls, times of logs, metrics, scrapes.

`__init__.pyi` lists the names. Each is imported on first use.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
