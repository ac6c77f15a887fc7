"""Packages whose names are imported on first use.

The names of such a package are listed once, in the stub file that type checkers read,
as `from module import Name as Name`:

    __getattr__, __dir__, __all__ = lazy_names(__name__)
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from importlib.abc import ResourceLoader

_IMPORT: Final = re.compile(r"^from (\S+) import (\([^)]*\)|.*)$", re.MULTILINE)
_NAME: Final = re.compile(r"\bas (\w+)")


def lazy_names(
    package: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from the
    `__init__.pyi` beside its `__init__.py`."""
    module = sys.modules[package]
    path = f"{module.__path__[0]}{os.sep}__init__.pyi"
    # The package may be in a zip file, as on a Spark cluster.
    loader = cast("ResourceLoader", module.__loader__)
    stub = loader.get_data(path).decode()
    modules = {
        name: module
        for module, names in _IMPORT.findall(stub)
        for name in _NAME.findall(names)
    }

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Imports make little garbage, and collections take an eighth of their time.
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            value = getattr(import_module(modules[name]), name)
        finally:
            if was_enabled:
                gc.enable()
        setattr(sys.modules[package], name, value)  # the next use finds it directly
        return value

    names = sorted(modules)
    return get, names.copy, names
