"""Files with the codecs of the messages of a module, written when a wheel is built.

setup.py writes `messages/records_codecs.py` beside a copy of `messages/records.py`, and
mypyc compiles it. `find_generated` looks a codec up there. Without compiled files, and
for messages that setup.py does not name, codec.py generates the same source on first
use. Requests have decoders only and responses have encoders only, as a server needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from coterie.wire.compiler import add_decoder, add_encoder
from coterie.wire.schema import Message
from coterie.wire.source import HEAD, Source

COMPILED: Final = not __file__.endswith(".py")
"""Whether this module, and so the core, is compiled."""


def module_source(messages: Sequence[type[Message]]) -> str:
    """Return the source of a module with the codecs of `messages`."""
    source = Source()
    tables: dict[str, list[str]] = {"DECODERS": [], "ENCODERS": []}
    for cls in messages:
        for version in range(cls.VERSIONS.low, cls.VERSIONS.high + 1):
            key, flexible = (cls.__name__, version), version in cls.FLEXIBLE
            if not cls.__name__.endswith("Response"):
                name = add_decoder(source, cls, version, flexible=flexible)
                tables["DECODERS"].append(f"    {key}: {name},")
            if not cls.__name__.endswith("Request"):
                name = add_encoder(source, cls, version, flexible=flexible)
                tables["ENCODERS"].append(f"    {key}: {name},")
    lines = [HEAD]
    lines += [
        f"from {each.__module__} import {name}" for name, each in source.classes.items()
    ]
    lines.append(source.text())
    for table, rows in tables.items():
        lines += [f"{table}: dict[tuple[str, int], Any] = {{", *rows, "}"]
    return "\n".join([*lines, ""])


def find_generated(
    table: str, cls: type[Message], version: int
) -> Callable[..., Any] | None:
    """Return a compiled codec from `table`, DECODERS or ENCODERS; None without one."""
    module = f"{cls.__module__}_codecs"
    if not COMPILED or find_spec(module) is None:
        return None
    codecs = getattr(import_module(module), table)
    found: Callable[..., Any] | None = codecs.get((cls.__name__, version))
    return found
