"""The server: a broker with its groups, topics and connections, in one process.

`__init__.pyi` lists the names that the test kit uses. Each is imported on first use.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
