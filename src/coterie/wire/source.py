"""The text of generated functions, without duplicates, and the names it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from coterie.wire.schema import Struct

HEAD: Final = """\
from __future__ import annotations

from struct import Struct as Layout, pack, unpack_from
from typing import Any, Final

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

new: Final = object.__new__
"""
"""The imports of generated source."""


class Source:
    """The source of generated functions: the constants and classes they refer to, and
    their own texts, each once."""

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}
        self.classes: dict[str, type[Struct]] = {}
        self._functions: dict[str, str] = {}

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
        """Add a function; return its name. Functions of the same lines are one."""
        text = f"{signature}:\n" + "\n".join(lines or ["    pass"])
        name = self._functions.get(text)
        if name is None:
            name = self._functions[text] = f"{stem}{len(self._functions)}"
        return name

    def text(self) -> str:
        """Return the text of all constants and functions."""
        constants = [
            f"{name}: Final = {value}" for name, value in self.constants.items()
        ]
        functions = [f"\n\ndef {name}{text}" for text, name in self._functions.items()]
        return "\n".join([*constants, *functions, ""])

    def execute(self, name: str) -> Any:
        """Execute the source; return the function with this name."""
        scope: dict[str, Any] = dict(self.classes)
        exec(HEAD + self.text(), scope)  # noqa: S102 (the source is ours)
        return scope[name]


class Lines:
    """The lines of one generated function."""

    def __init__(self) -> None:
        self._declarations: list[str] = []
        self._lines: list[str] = []
        self._depth = 1
        self._names = 0

    @property
    def all(self) -> list[str]:
        """The lines, after the declarations of variables."""
        return self._declarations + self._lines

    def add(self, line: str) -> None:
        """Append a line at the current indentation."""
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Indent the lines that are added inside, below the line `head`."""
        self.add(head)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, stem: str, type_name: str = "Any") -> str:
        """Declare a variable; return its name."""
        self._names += 1
        name = f"{stem}{self._names}"
        self._declarations.append(f"    {name}: {type_name}")
        return name
