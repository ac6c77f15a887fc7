"""What tests need to know about the compiled core."""

from __future__ import annotations

import copyreg
import dataclasses
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.group import FIELDS, ConsumerGroup


def is_compiled(target: Any) -> bool:
    """Return whether mypyc compiled a module, or the module of a class; `target` is a
    module, a class or the dotted name of an attribute."""
    if isinstance(target, str):
        target = _module_of(target)
    elif isinstance(target, type):
        target = sys.modules[target.__module__]
    file = getattr(target, "__file__", None) if isinstance(target, ModuleType) else None
    is_ours = getattr(target, "__name__", "").startswith("coterie.")
    return is_ours and file is not None and not file.endswith(".py")


def _module_of(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        return _module_of(name.rpartition(".")[0])


def skip_if_compiled(target: Any) -> None:
    """Skip a test that replaces a name of compiled code, which has bound it already;
    `target` is the module or class, or an object."""
    if is_compiled(target) or is_compiled(type(target)):
        pytest.skip("replaces a name that compiled code has bound")


class Patches(pytest.MonkeyPatch):  # type: ignore[misc]
    """A MonkeyPatch that skips the test when it replaces a name of a compiled module:
    compiled code has bound its names already."""

    def setattr(self, target: Any, *args: Any, **options: Any) -> None:
        """Replace an attribute."""
        skip_if_compiled(target)
        super().setattr(target, *args, **options)


def make_states_copyable() -> None:
    """Let `copy.deepcopy` copy compiled classes, which tests do to prove that a handler
    does not change the state. The product copies none.

    A frozen dataclass has a `__setstate__` by mypyc that fails, and a class with a
    required argument is not created without it.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("coterie."):
            for each in list(vars(module).values()):
                parameters = getattr(each, "__dataclass_params__", None)
                if isinstance(each, type) and parameters and parameters.frozen:
                    copyreg.pickle(each, _reduce)
    copyreg.pickle(ConsumerGroup, _reduce_group)


def _reduce(value: Any) -> tuple[Any, ...]:
    fields = [each for each in dataclasses.fields(value) if each.init]
    return _rebuild, (
        type(value),
        {each.name: getattr(value, each.name) for each in fields},
    )


def _rebuild(cls: type, values: dict[str, Any]) -> Any:
    return cls(**values)


def _reduce_group(group: ConsumerGroup) -> tuple[Any, ...]:
    slots = {name: getattr(group, name) for name in FIELDS}
    return ConsumerGroup, (group.group_id,), (None, slots)
