"""The admin client's families of calls, each imported on first use.

`__init__.pyi` lists the names.
"""

from coterie.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
