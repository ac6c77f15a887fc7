"""What both halves of the compiler share: source under construction, and field facts.

decode_compiler.py and encode_compiler.py turn one declared class at one version into
the source of one function. The source is executed once; nothing of the declaration is
looked at again. Neighbouring fields of fixed width become one `struct.Struct`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from coterie.wire.schema import Field, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FIXED: Final[Mapping[str, str]] = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""The struct format of each kind of fixed width."""


class Source:
    """Lines of a function being written, and the names they may use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
        self._depth = 1
        self._names = 0

    def add(self, line: str) -> None:
        """Append a line at the present depth."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Everything added inside stands one deeper, under `head`."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, stem: str) -> str:
        """A name not used before in this function."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """A new name for a value that the compiled code needs."""
        name = self.name(stem)
        self.scope[name] = value
        return name

    def function(self, signature: str) -> Callable[..., Any]:
        """Compile what was added as the body of `signature`."""
        if not self.lines:
            self.add("pass")
        text = f"def {signature}:\n" + "\n".join(self.lines)
        exec(text, self.scope)  # noqa: S102 (the source is ours, from declarations)
        compiled: Callable[..., Any] = self.scope[signature.partition("(")[0]]
        return compiled


def struct_of(formats: list[str]) -> struct.Struct:
    """The big-endian struct of fixed fields in a row."""
    return struct.Struct(">" + "".join(formats))


def in_line(declared: Field, version: int, *, flexible: bool) -> bool:
    """Whether the field stands in its place among the others in this version."""
    return version in declared.versions and not is_tagged(
        declared, version, flexible=flexible
    )


def is_tagged(declared: Field, version: int, *, flexible: bool) -> bool:
    """Whether the field is a tagged one in this version."""
    return flexible and declared.tag is not None and version in declared.tagged


def default_of(declared: Field) -> Any:
    """The value of a field that is not there: fresh for each call when mutable."""
    if declared.default is None:
        return None
    if declared.kind == "array":
        return []
    if declared.kind == "struct":
        assert isinstance(declared.element, type)
        return declared.element()
    return declared.default


def element_struct(declared: Field) -> type[Struct]:
    """The struct class of a struct field or of an array of structs."""
    assert isinstance(declared.element, type)
    return declared.element
