"""A fuzz target, and the values of messages that its seeds are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from coterie.wire.schema import Field, Struct


@dataclass(frozen=True)
class Target:
    """A decoder, and valid inputs for it."""

    name: str
    run: Callable[[bytes], object]
    seeds: Sequence[bytes]


def full(cls: type[Struct]) -> Any:
    """Return a value in which each array has one element and all nested structs are
    present.
    """
    return cls(
        **{
            name: _full_field(declared)
            for name, declared in cls.FIELDS.items()
            if declared.kind in ("array", "struct", "string")
        }
    )


def _full_field(declared: Field) -> Any:
    if declared.kind == "string":
        return "ab"
    if isinstance(declared.element, str):
        element: Any = {"string": "t", "uuid": bytes(16)}.get(declared.element, 1)
    else:
        assert declared.element is not None
        element = full(declared.element)
    return [element] if declared.kind == "array" else element
