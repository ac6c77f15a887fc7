"""Compile a declared message at one version into a decoder and an encoder.

Each is the source of one Python function, generated from the declaration (schema.py)
and executed once, so that no declaration is read while a message is decoded or
encoded. Consecutive fields of fixed width become one `struct.Struct`.

The decoder does not check every read: `struct` and indexing raise when they run past
the end. A slice does not raise, but it moves the position past the end, and `decode` in
codec.py compares that position with the length once. Only the count of an array is
checked before it is used, because it determines how much is allocated: against the
bytes that its elements need at least, and against `left`, the number of elements and
unknown tagged fields that the message may still have. Few bytes can encode an element
of many: an empty string has one byte, and its place in a list eight.

The encoder omits a field that the version does not have, as Kafka does for fields that
its schemas call ignorable. A caller that must not lose the field checks the version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from coterie.wire.primitives import (
    SMALL_UVARINTS,
    STRING_BYTES_MAX,
    TAG_SECTION_EMPTY,
    Decoder,
    EncodedArray,
    encode_cut,
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
from coterie.wire.schema import Field, Struct, in_line, is_tagged

Encoder: TypeAlias = Callable[[Any, Callable[[bytes], None]], None]
"""A function of the value and of a function that appends one part of the encoded bytes.
"""

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
"""The `struct` format of each wire type of fixed width."""


class Source:
    """The source of one generated function: its lines, and the values they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {}
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

    def name(self, stem: str) -> str:
        """Return a new variable name."""
        self._names += 1
        return f"{stem}{self._names}"

    def constant(self, stem: str, value: object) -> str:
        """Return a new name that refers to `value` in the generated function."""
        name = self.name(stem)
        self.scope[name] = value
        return name

    def function(self, signature: str) -> Callable[..., Any]:
        """Execute the source with `signature` as its head; return the function."""
        if not self.lines:
            self.add("pass")
        text = f"def {signature}:\n" + "\n".join(self.lines)
        exec(text, self.scope)  # noqa: S102 (the source is ours, from declarations)
        compiled: Callable[..., Any] = self.scope[signature.partition("(")[0]]
        return compiled


def struct_of(formats: list[str]) -> struct.Struct:
    """Return the big-endian struct of consecutive fixed fields."""
    return struct.Struct(">" + "".join(formats))


def default_of(declared: Field) -> Any:
    """Return a field's default; a new object on each call when it is mutable."""
    if declared.default is None:
        return None
    if declared.kind == "array":
        return []
    if declared.kind == "struct":
        assert isinstance(declared.element, type)
        return declared.element()
    return declared.default


def element_struct(declared: Field) -> type[Struct]:
    """Return the class of a struct field, or of the elements of an array."""
    assert isinstance(declared.element, type)
    return declared.element


def _bytes_min(declared: Field, version: int, *, flexible: bool) -> int:
    """Return the number of bytes of a field's shortest encoding."""
    if declared.kind in FIXED:
        return struct.calcsize(">" + FIXED[declared.kind])
    if declared.kind == "struct":
        if version in declared.nullable:
            return 1
        return _struct_bytes_min(element_struct(declared), version, flexible=flexible)
    if flexible:
        return 1
    return 2 if declared.kind == "string" else 4


def _struct_bytes_min(cls: type[Struct], version: int, *, flexible: bool) -> int:
    fields = (
        _bytes_min(declared, version, flexible=flexible)
        for declared in cls.FIELDS.values()
        if in_line(declared, version, flexible=flexible)
    )
    return max(1, sum(fields) + flexible)


def compile_decoder(cls: type[Struct], version: int, *, flexible: bool) -> Decoder:
    """Compile the decoder of `cls` in one version."""
    emitter = _DecodeEmitter(version, flexible=flexible)
    target = emitter.struct(cls)
    return emitter.finish(target)


def _compile_tagged_decoder(declared: Field, version: int) -> Decoder:
    """Compile the decoder of a tagged field's content."""
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
            refuse_null=refuse_null,
            refuse_count=refuse_count,
            refuse_total=refuse_total,
            refuse_string=refuse_string,
            take_tag=take_tag,
        )
        self._run: list[tuple[str, str]] = []

    def finish(self, target: str) -> Decoder:
        self.flush()
        self.source.add(f"return {target}, at")
        return self.source.function("decode(data, at, left)")

    def flush(self) -> None:
        """Emit one `unpack` for the fixed fields since the last call."""
        if not self._run:
            return
        layout = struct_of([code for code, _ in self._run])
        unpack = self.source.constant("unpack", layout.unpack_from)
        targets = ", ".join(target for _, target in self._run)
        self.source.add(f"{targets}, = {unpack}(data, at)")
        self.source.add(f"at += {layout.size}")
        self._run.clear()

    def struct(self, cls: type[Struct]) -> str:
        """Emit the decoding of a struct; return the name of the variable with it."""
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
        """Emit the decoding of tagged fields; return the variable with unknown ones."""
        source = self.source
        unknown = source.name("tags")
        source.add(f"{unknown} = None")
        with source.block("if data[at] == 0:"):
            source.add("at += 1")
        with source.block("else:"):
            source.add("found, at = read_tags(data, at, left)")
            source.add("left -= len(found)")
            for name, declared in cls.FIELDS.items():
                if is_tagged(declared, self.version, flexible=True):
                    reader = source.constant(
                        "field", _compile_tagged_decoder(declared, self.version)
                    )
                    with source.block(f"if {declared.tag} in found:"):
                        source.add(
                            f"{holds[name]} = take_tag(data, found.pop({declared.tag}),"
                            f" {reader}, left)"
                        )
            with source.block("if found:"):
                source.add(
                    f"{unknown} = {{k: data[a:b] for k, (a, b) in found.items()}}"
                )
        return unknown

    def field(self, declared: Field, target: str, *, in_tag: bool = False) -> None:
        """Emit the decoding of one field into `target`. `in_tag`: it is a tagged
        field."""
        nullable = self.version in declared.nullable
        if declared.kind in FIXED:
            self._run.append((FIXED[declared.kind], target))
        elif declared.kind == "string":
            self._sized("h", target, "data[{start}:{end}].decode()", nullable)
        elif declared.kind in ("bytes", "records"):
            # Kafka reads null records in every version, whatever its schemas declare.
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
        """Emit the decoding of a length or count; negative for null."""
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
        # The common cases first: a length of one byte, and null. The last branch also
        # decodes a null whose varint is longer than necessary.
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
            if code == "h":
                with source.block(f"if {size} > {STRING_BYTES_MAX}:"):
                    source.add(f"refuse_string({size}, at)")
            self._taken(size, target, taken, nullable)

    def _taken(self, size: str, target: str, taken: str, nullable: bool) -> None:
        """Emit the decoding of null, or of `size` bytes."""
        self._null(size, target, nullable)
        with self.source.block("else:"):
            content = taken.format(start="at", end=f"at + {size}")
            self.source.add(f"{target} = {content}")
            self.source.add(f"at += {size}")

    def _array(self, declared: Field, target: str, nullable: bool) -> None:
        source = self.source
        size = self._length("i")
        self._null(size, target, nullable)
        needed = self._element_bytes_min(declared)
        with source.block(f"elif {size} * {needed} > len(data) - at:"):
            source.add(f"refuse_count({size}, {needed}, at)")
        with source.block("else:"):
            source.add(f"left -= {size}")
            with source.block("if left < 0:"):
                source.add(f"refuse_total({size}, left)")
            if isinstance(declared.element, str) and declared.element in FIXED:
                self._fixed_elements(declared.element, size, target)
            else:
                self._looped_elements(declared, size, target)

    def _element_bytes_min(self, declared: Field) -> int:
        version, flexible = self.version, self.flexible
        if isinstance(declared.element, str):
            one = declared._replace(kind=declared.element)
            return _bytes_min(one, version, flexible=flexible)
        return _struct_bytes_min(element_struct(declared), version, flexible=flexible)

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
        # KIP-893: an int8 marker precedes the struct, negative for null. In a tagged
        # field 0 is null, which brokers before Kafka 4.4 write in records of members.
        with source.block(f"if {marker} {'<=' if in_tag else '<'} 0:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            made = self.struct(element_struct(declared))
            source.add(f"{target} = {made}")


def compile_encoder(cls: type[Struct], version: int, *, flexible: bool) -> Encoder:
    """Compile the encoder of `cls` in one version."""
    emitter = _EncodeEmitter(version, flexible=flexible)
    emitter.struct(cls, "value")
    emitter.flush()
    return emitter.source.function("encode(value, out)")


def _compile_tagged_encoder(declared: Field, version: int) -> Callable[[Any], bytes]:
    """Compile the encoder of a tagged field's content."""
    emitter = _EncodeEmitter(version, flexible=True)
    emitter.field(declared, "value", in_tag=True)
    emitter.flush()
    encode = emitter.source.function("encode(value, out)")

    def content(value: Any) -> bytes:
        parts: list[bytes] = []
        encode(value, parts.append)
        return b"".join(parts)

    return content


class _EncodeEmitter:
    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source()
        self.source.scope.update(
            SMALL=SMALL_UVARINTS,
            EncodedArray=EncodedArray,
            cut=encode_cut,
            write_uvarint=write_uvarint,
            write_tags=write_tags,
            pack=struct.pack,
            EMPTY_TAGS=TAG_SECTION_EMPTY,
        )
        self._run: list[tuple[str, str]] = []

    def flush(self) -> None:
        """Emit one `pack` for the fixed fields since the last call."""
        if not self._run:
            return
        layout = struct_of([code for code, _ in self._run])
        pack = self.source.constant("pack", layout.pack)
        values = ", ".join(value for _, value in self._run)
        self.source.add(f"out({pack}({values}))")
        self._run.clear()

    def struct(self, cls: type[Struct], holder: str) -> None:
        """Emit the encoding of a struct's fields."""
        for name, declared in cls.FIELDS.items():
            if in_line(declared, self.version, flexible=self.flexible):
                self.field(declared, f"{holder}.{name}")
        if self.flexible:
            self._tags(cls, holder)

    def _tags(self, cls: type[Struct], holder: str) -> None:
        source = self.source
        known = [
            (name, declared)
            for name, declared in cls.FIELDS.items()
            if is_tagged(declared, self.version, flexible=True)
            and self.version in declared.versions
        ]
        tags = source.name("tags")
        if known:
            self.flush()
        source.add(f"{tags} = {holder}.unknown_tags")
        if known:
            source.add(f"{tags} = dict({tags}) if {tags} else {{}}")
        for name, declared in known:
            default = source.constant("default", default_of(declared))
            content = source.constant(
                "field", _compile_tagged_encoder(declared, self.version)
            )
            with source.block(f"if {holder}.{name} != {default}:"):
                source.add(f"{tags}[{declared.tag}] = {content}({holder}.{name})")
        if not self._run:
            source.add(f"out(write_tags({tags}) if {tags} else EMPTY_TAGS)")
            return
        # Tagged fields are rare: their empty section is one more byte of the struct of
        # the fixed fields before it.
        run = self._run.copy()
        with source.block(f"if {tags}:"):
            self.flush()
            source.add(f"out(write_tags({tags}))")
        self._run = [*run, ("B", "0")]
        with source.block("else:"):
            self.flush()

    def field(self, declared: Field, value: str, *, in_tag: bool = False) -> None:
        """Emit the encoding of one field. `in_tag`: it is a tagged field."""
        nullable = self.version in declared.nullable
        if declared.kind in FIXED:
            self._run.append((FIXED[declared.kind], value))
        elif declared.kind == "string":
            # The messages of errors contain names of the request, and can be too long.
            is_message = value.endswith(".error_message")
            content = f"cut({value})" if is_message else f"{value}.encode()"
            self._sized("h", content, value, nullable)
        elif declared.kind in ("bytes", "records"):
            nullable = nullable or declared.kind == "records"
            self._sized("i", value, value, nullable)
        elif declared.kind == "array":
            self._array(declared, value, nullable)
        else:
            self._struct_field(declared, value, nullable, in_tag=in_tag)

    def _length(self, code: str, size: str) -> None:
        if not self.flexible:
            self._run.append((code, size))
            self.flush()
            return
        self.flush()
        count = self.source.name("n")
        self.source.add(f"{count} = {size} + 1")
        self.source.add(
            f"out(SMALL[{count}] if {count} < 128 else write_uvarint({count}))"
        )

    @contextmanager
    def _unless_null(self, code: str, value: str, nullable: bool) -> Iterator[None]:
        """Emit the encoding of null, if allowed; the block is for other values."""
        if not nullable:
            yield
            return
        self.flush()
        null = b"\0" if self.flexible else struct.pack(">" + code, -1)
        with self.source.block(f"if {value} is None:"):
            self.source.add(f"out({null!r})")
        with self.source.block("else:"):
            yield

    def _sized(self, code: str, content: str, value: str, nullable: bool) -> None:
        with self._unless_null(code, value, nullable):
            body = self.source.name("body")
            self.source.add(f"{body} = {content}")
            self._length(code, f"len({body})")
            self.source.add(f"out({body})")

    def _array(self, declared: Field, value: str, nullable: bool) -> None:
        items = self.source.name("items")
        self.source.add(f"{items} = {value}")
        with self._unless_null("i", items, nullable):
            self._elements(declared, items)

    def _elements(self, declared: Field, held: str) -> None:
        source = self.source
        if isinstance(declared.element, str):
            self._length("i", f"len({held})")
            self._primitives(declared, held)
            return
        self.flush()
        with source.block(f"if type({held}) is EncodedArray:"):
            self._length("i", f"{held}.count")
            source.add(f"out({held}.body)")
        with source.block("else:"):
            self._length("i", f"len({held})")
            element = source.name("item")
            with source.block(f"for {element} in {held}:"):
                self.struct(element_struct(declared), element)
                self.flush()

    def _primitives(self, declared: Field, held: str) -> None:
        source = self.source
        assert isinstance(declared.element, str)
        if declared.element in FIXED and declared.element != "uuid":
            code = FIXED[declared.element]
            source.add(f"out(pack(f'>{{len({held})}}{code}', *{held}))")
            return
        element = source.name("item")
        with source.block(f"for {element} in {held}:"):
            plain = declared._replace(kind=declared.element, nullable=declared.tagged)
            self.field(plain, element)
            self.flush()

    def _struct_field(
        self, declared: Field, value: str, nullable: bool, *, in_tag: bool
    ) -> None:
        source = self.source
        held = source.name("held")
        source.add(f"{held} = {value}")
        if not nullable:
            self.struct(element_struct(declared), held)
            return
        self.flush()
        # KIP-893: an int8 marker, negative for null; in a tagged field 0 is null.
        with source.block(f"if {held} is None:"):
            source.add(r"out(b'\0')" if in_tag else r"out(b'\xff')")
        with source.block("else:"):
            source.add(r"out(b'\x01')")
            self.struct(element_struct(declared), held)
            self.flush()
