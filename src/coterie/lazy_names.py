"""Packages whose names are imported on first use.

The names of such a package are listed once, in the stub file that type checkers read,
as `from module import Name as Name`:

    __getattr__, __dir__, __all__ = lazy_names(__name__)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

_IMPORT: Final = re.compile(r"^from (\S+) import (\([^)]*\)|.*)$", re.MULTILINE)
_NAME: Final = re.compile(r"\bas (\w+)")


def lazy_names(
    package: str,
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package, from the
    `__init__.pyi` beside its `__init__.py`."""
    path = f"{sys.modules[package].__path__[0]}/__init__.pyi"
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 (pathlib takes 5 ms)
        stub = file.read()
    modules = {
        name: module
        for module, names in _IMPORT.findall(stub)
        for name in _NAME.findall(names)
    }

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds it directly
        return value

    names = sorted(modules)
    return get, names.copy, names
