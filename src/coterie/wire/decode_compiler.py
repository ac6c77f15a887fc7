"""A declaration -> a specialised decoder: bytes and a position -> value and next.

How the compiled code stays safe without checking every read: `struct` and indexing
raise when they run past the end; a slice does not, but the position goes past the end
with it, so one comparison at the very end (codec.py) tells. Only a count is checked
before it is used, because it decides how much is allocated.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from coterie.errors import MalformedFrame
from coterie.wire.compiler import (
    FIXED,
    Source,
    element_struct,
    in_line,
    is_tagged,
    struct_of,
)
from coterie.wire.primitives import read_tags, read_uvarint
from coterie.wire.schema import Field, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    Decoder = Callable[[bytes, int], tuple[Any, int]]


def compile_decoder(cls: type[Struct], version: int, *, flexible: bool) -> Decoder:
    """The decoder of `cls` in one version: `(data, at) -> (value, next position)`."""
    emitter = _DecodeEmitter(version, flexible=flexible)
    target = emitter.struct(cls)
    return emitter.finish(target)


def _compile_field(declared: Field, version: int) -> Decoder:
    """The decoder of one tagged field's content."""
    emitter = _DecodeEmitter(version, flexible=True)
    target = emitter.source.name("value")
    emitter.field(declared, target, in_tag=True)
    return emitter.finish(target)


class _DecodeEmitter:
    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source()
        self.source.scope.update(
            new=object.__new__,
            read_uvarint=read_uvarint,
            read_tags=read_tags,
            unpack_from=struct.unpack_from,
            refuse_null=_refuse_null,
            refuse_count=_refuse_count,
            take_tag=_take_tag,
        )
        self._run: list[tuple[str, str]] = []

    def finish(self, target: str) -> Decoder:
        self.flush()
        self.source.add(f"return {target}, at")
        return self.source.function("decode(data, at)")

    def flush(self) -> None:
        """Emit the pending fixed fields as one unpacking."""
        if not self._run:
            return
        layout = struct_of([code for code, _ in self._run])
        unpack = self.source.constant("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in self._run)
        self.source.add(f"{targets}, = {unpack}(data, at)")
        self.source.add(f"at += {layout.size}")
        self._run.clear()

    def struct(self, cls: type[Struct]) -> str:
        """Emit a struct's fields and its making; the name that then holds it."""
        source = self.source
        holds: dict[str, str] = {}
        for name, declared in cls.FIELDS.items():
            holds[name] = source.name("value")
            if in_line(declared, self.version, flexible=self.flexible):
                self.field(declared, holds[name])
            else:
                self._absent(declared, holds[name])
        self.flush()
        tags = self._tags(cls, holds) if self.flexible else "None"
        target = source.name("made")
        source.add(f"{target} = new({source.constant('cls', cls)})")
        for name, held in holds.items():
            source.add(f"{target}.{name} = {held}")
        source.add(f"{target}.unknown_tags = {tags}")
        return target

    def _absent(self, declared: Field, target: str) -> None:
        if declared.default is None:
            self.source.add(f"{target} = None")
        elif declared.kind == "array":
            self.source.add(f"{target} = []")
        elif declared.kind == "struct":
            made = self.source.constant("cls", element_struct(declared))
            self.source.add(f"{target} = {made}()")
        else:
            self.source.add(f"{target} = {declared.default!r}")

    def _tags(self, cls: type[Struct], holds: dict[str, str]) -> str:
        """Emit the tag section; the name of the unknown ones."""
        source = self.source
        unknown = source.name("tags")
        source.add(f"{unknown} = None")
        with source.block("if data[at] == 0:"):
            source.add("at += 1")
        with source.block("else:"):
            source.add("found, at = read_tags(data, at)")
            for name, declared in cls.FIELDS.items():
                if is_tagged(declared, self.version, flexible=True):
                    reader = source.constant(
                        "field", _compile_field(declared, self.version)
                    )
                    with source.block(f"if {declared.tag} in found:"):
                        source.add(
                            f"{holds[name]} = take_tag(data, found.pop({declared.tag}),"
                            f" {reader})"
                        )
            with source.block("if found:"):
                source.add(
                    f"{unknown} = {{k: data[a:b] for k, (a, b) in found.items()}}"
                )
        return unknown

    def field(self, declared: Field, target: str, *, in_tag: bool = False) -> None:
        """Emit the reading of one field into `target`. `in_tag`: of a tagged one."""
        nullable = self.version in declared.nullable
        if declared.kind in FIXED:
            self._run.append((FIXED[declared.kind], target))
        elif declared.kind == "string":
            self._sized("h", target, "data[{start}:{end}].decode()", nullable)
        elif declared.kind in ("bytes", "records"):
            # A null set of records is legal everywhere; Kafka's schemas say so singly.
            nullable = nullable or declared.kind == "records"
            self._sized("i", target, "data[{start}:{end}]", nullable)
        elif declared.kind == "array":
            self._array(declared, target, nullable)
        elif not nullable:
            made = self.struct(element_struct(declared))
            self.source.add(f"{target} = {made}")
        else:
            self._nullable_struct(declared, target, in_tag=in_tag)

    def _length(self, code: str) -> str:
        """Emit the reading of a length or count; null is negative."""
        size = self.source.name("n")
        if not self.flexible:
            self._run.append((code, size))
            self.flush()
            return size
        self.flush()
        self.source.add(f"{size} = data[at]")
        with self.source.block(f"if {size} < 128:"):
            self.source.add("at += 1")
        with self.source.block("else:"):
            self.source.add(f"{size}, at = read_uvarint(data, at)")
        self.source.add(f"{size} -= 1")
        return size

    def _null(self, size: str, target: str, nullable: bool) -> None:
        with self.source.block(f"if {size} < 0:"):
            if not nullable:
                self.source.add("refuse_null(at)")
            elif self.flexible:
                self.source.add(f"{target} = None")
            else:
                self.source.add(f"{target} = None if {size} == -1 else refuse_null(at)")

    def _sized(self, code: str, target: str, taken: str, nullable: bool) -> None:
        if not self.flexible:
            self._taken(self._length(code), target, taken, nullable)
            return
        self.flush()
        source = self.source
        size = source.name("n")
        source.add(f"{size} = data[at]")
        # The common cases first: a length of one byte, and null. The varint of a null
        # may also be longer than it need be.
        with source.block(f"if 0 < {size} < 128:"):
            source.add(f"{target} = {taken.format(start='at + 1', end=f'at + {size}')}")
            source.add(f"at += {size}")
        if nullable:
            with source.block(f"elif {size} == 0:"):
                source.add(f"{target} = None")
                source.add("at += 1")
        with source.block("else:"):
            source.add(f"{size}, at = read_uvarint(data, at)")
            source.add(f"{size} -= 1")
            self._taken(size, target, taken, nullable)

    def _taken(self, size: str, target: str, taken: str, nullable: bool) -> None:
        """Emit the null, or the taking of `size` bytes."""
        self._null(size, target, nullable)
        with self.source.block("else:"):
            content = taken.format(start="at", end=f"at + {size}")
            self.source.add(f"{target} = {content}")
            self.source.add(f"at += {size}")

    def _array(self, declared: Field, target: str, nullable: bool) -> None:
        source = self.source
        size = self._length("i")
        self._null(size, target, nullable)
        with source.block(f"elif {size} > len(data) - at:"):
            source.add(f"refuse_count({size}, at)")
        with source.block("else:"):
            if isinstance(declared.element, str) and declared.element in FIXED:
                self._fixed_elements(declared.element, size, target)
            else:
                self._looped_elements(declared, size, target)

    def _fixed_elements(self, kind: str, size: str, target: str) -> None:
        if kind == "uuid":
            self.source.add(
                f"{target} = [data[i:i + 16] for i in range(at, at + 16 * {size}, 16)]"
            )
            self.source.add(f"at += 16 * {size}")
            return
        code = FIXED[kind]
        width = struct.calcsize(">" + code)
        self.source.add(f"{target} = list(unpack_from(f'>{{{size}}}{code}', data, at))")
        self.source.add(f"at += {width} * {size}")

    def _looped_elements(self, declared: Field, size: str, target: str) -> None:
        source = self.source
        source.add(f"{target} = []")
        with source.block(f"for _ in range({size}):"):
            if isinstance(declared.element, str):
                element = source.name("value")
                plain = declared._replace(kind=declared.element, element=None)
                self.field(plain._replace(nullable=plain.tagged), element)
                self.flush()
            else:
                element = self.struct(element_struct(declared))
            source.add(f"{target}.append({element})")

    def _nullable_struct(self, declared: Field, target: str, *, in_tag: bool) -> None:
        source = self.source
        marker = source.name("n")
        self._run.append(("b", marker))
        self.flush()
        # KIP-893: a marker before it, negative for null; in a tagged field 0 is null,
        # which Kafka's brokers before 4.4 write out in records of members.
        with source.block(f"if {marker} {'<=' if in_tag else '<'} 0:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            made = self.struct(element_struct(declared))
            source.add(f"{target} = {made}")


def _refuse_null(at: int) -> None:
    raise MalformedFrame(f"a null before byte {at}, where this version allows none")


def _refuse_count(count: int, at: int) -> None:
    raise MalformedFrame(f"an array of {count} elements at byte {at} runs past the end")


def _take_tag(data: bytes, span: tuple[int, int], reader: Decoder) -> Any:
    """Decode a tagged field that must fill its span."""
    start, end = span
    value, at = reader(data[start:end], 0)
    if at != end - start:
        raise MalformedFrame(f"a tagged field of {end - start} bytes reads as {at}")
    return value
