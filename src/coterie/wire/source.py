"""The text of generated functions, and the names it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from coterie.wire.schema import Struct

HEAD: Final = """\
from struct import Struct as Layout, pack, unpack_from

from coterie.wire.primitives import (
    SMALL_UVARINTS,
    TAG_SECTION_EMPTY,
    EncodedArray,
    encode_cut,
    encode_tag,
    read_tags,
    read_uvarint,
    refuse_count,
    refuse_null,
    refuse_string,
    refuse_total,
    take_tag,
    write_tags,
    write_uvarint,
)

new = object.__new__
"""
"""The imports of generated source."""


class Source:
    """The source of generated functions, with the constants and classes they use."""

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}
        self.classes: dict[str, type[Struct]] = {}
        self._functions: list[str] = []

    def constant(self, name: str, expression: str) -> str:
        """Define a constant; return its name."""
        assert self.constants.setdefault(name, expression) == expression
        return name

    def cls(self, cls: type[Struct]) -> str:
        """Return the name that refers to `cls`."""
        name = cls.__name__
        assert self.classes.setdefault(name, cls) is cls, f"two classes named {name}"
        return name

    def function(self, stem: str, signature: str, lines: list[str]) -> str:
        """Add a function; return its name."""
        name = f"{stem}{len(self._functions)}"
        body = lines or ["    pass"]
        self._functions.append("\n".join([f"def {name}{signature}:", *body]))
        return name

    def execute(self, name: str) -> Any:
        """Execute the source; return the function with this name."""
        scope: dict[str, Any] = dict(self.classes)
        constants = [f"{each} = {value}" for each, value in self.constants.items()]
        text = "\n".join([HEAD, *constants, *self._functions, ""])
        exec(text, scope)  # noqa: S102 (the source is ours)
        return scope[name]


class Lines:
    """The lines of one generated function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1
        self._names = 0

    def add(self, line: str) -> None:
        """Append a line at the current indentation."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines that are added inside, below the line `head`."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, stem: str) -> str:
        """Return the name of a new variable."""
        self._names += 1
        return f"{stem}{self._names}"
