"""Connection settings by Kafka's names, and their conversion to client options.

`__init__.pyi` lists the names. Each is imported on first use.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
