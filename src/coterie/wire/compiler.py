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

Decoder and encoder also exist as generators, which yield after `SLICE_ELEMENTS`
elements of arrays: a server with other clients decodes and encodes large messages in
slices. Values of tagged fields are not divided.

The encoder omits a field that the version does not have, as Kafka does for fields that
its schemas call ignorable. A caller that must not lose the field checks the version.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from coterie.wire.primitives import (
    STRING_BYTES_MAX,
    Decoder,
    Encoder,
    SlicedDecoder,
    SlicedEncoder,
)
from coterie.wire.schema import Field, Struct, in_line, is_tagged
from coterie.wire.source import Lines, Source

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


SLICE_ELEMENTS: Final = 128
"""The number of elements in a slice; a power of 2."""
_FIXED_SLICE_ELEMENTS: Final = 8_192
"""The same for arrays of numbers, which are decoded at once."""

DECODER: Final = "(data, at, left)"
ENCODER: Final = "(value, parts)"


def struct_of(formats: list[str]) -> struct.Struct:
    """Return the big-endian struct of consecutive fixed fields."""
    return struct.Struct(">" + "".join(formats))


def layout_name(stem: str, formats: list[str]) -> str:
    """Return the name of the constant with a method of a struct."""
    return f"{stem}_{''.join(formats).replace('?', 'o')}"


def element_struct(declared: Field) -> type[Struct]:
    """Return the class of a struct field, or of the elements of an array."""
    assert isinstance(declared.element, type)
    return declared.element


def add_slice_end(lines: Lines) -> None:
    """Emit the end of a slice after `SLICE_ELEMENTS` elements, in a loop over them."""
    lines.add("slices += 1")
    with lines.block(f"if not slices & {SLICE_ELEMENTS - 1}:"):
        lines.add("yield")


def add_empty_yield(lines: Lines) -> None:
    """Emit what makes a function without loops a generator, too."""
    with lines.block("if False:"):
        lines.add("yield")


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
    decoder: Decoder = _execute_decoder(cls, version, flexible, in_slices=False)
    return decoder


def compile_sliced_decoder(
    cls: type[Struct], version: int, *, flexible: bool
) -> SlicedDecoder:
    """Compile the decoder of `cls` in one version as a generator."""
    decoder: SlicedDecoder = _execute_decoder(cls, version, flexible, in_slices=True)
    return decoder


def _execute_decoder(
    cls: type[Struct], version: int, flexible: bool, *, in_slices: bool
) -> Any:
    source = Source()
    emitter = _DecodeEmitter(source, version, flexible=flexible, in_slices=in_slices)
    return source.execute(emitter.finish(emitter.struct(cls)))


def _add_tagged_decoder(source: Source, declared: Field, version: int) -> str:
    """Add the decoder of a tagged field's content."""
    emitter = _DecodeEmitter(source, version, flexible=True)
    target = emitter.lines.variable("value")
    emitter.field(declared, target, in_tag=True)
    return emitter.finish(target)


class _DecodeEmitter:
    def __init__(
        self,
        source: Source,
        version: int,
        *,
        flexible: bool,
        in_slices: bool = False,
    ) -> None:
        self.version = version
        self.flexible = flexible
        self.source = source
        self.lines = Lines()
        self.in_slices = in_slices
        if in_slices:
            self.lines.add("slices = 0")
        self._run: list[tuple[str, str]] = []

    def finish(self, target: str) -> str:
        self.flush()
        if self.in_slices:
            add_empty_yield(self.lines)
        self.lines.add(f"return {target}, at")
        return self.source.function("decode", DECODER, self.lines.lines)

    def flush(self) -> None:
        """Emit one `unpack` for the fixed fields since the last call."""
        if not self._run:
            return
        codes = [code for code, _ in self._run]
        layout = struct_of(codes)
        unpack = self.source.constant(
            layout_name("unpack", codes), f'Layout("{layout.format}").unpack_from'
        )
        targets = ", ".join(target for _, target in self._run)
        self.lines.add(f"{targets}, = {unpack}(data, at)")
        self.lines.add(f"at += {layout.size}")
        self._run.clear()

    def struct(self, cls: type[Struct]) -> str:
        """Emit the decoding of a struct; return the name of the variable with it."""
        lines = self.lines
        holds: dict[str, str] = {}
        for name, declared in cls.FIELDS.items():
            holds[name] = self.lines.variable("value")
            if in_line(declared, self.version, flexible=self.flexible):
                self.field(declared, holds[name])
            else:
                self._absent(declared, holds[name])
        self.flush()
        tags = self._tags(cls, holds) if self.flexible else "None"
        target = self.lines.variable("made")
        lines.add(f"{target} = new({self.source.cls(cls)})")
        for name, held in holds.items():
            lines.add(f"{target}.{name} = {held}")
        lines.add(f"{target}.unknown_tags = {tags}")
        return target

    def _absent(self, declared: Field, target: str) -> None:
        if declared.default is None:
            self.lines.add(f"{target} = None")
        elif declared.kind == "array":
            self.lines.add(f"{target} = []")
        elif declared.kind == "struct":
            made = self.source.cls(element_struct(declared))
            self.lines.add(f"{target} = {made}()")
        else:
            self.lines.add(f"{target} = {declared.default!r}")

    def _tags(self, cls: type[Struct], holds: dict[str, str]) -> str:
        """Emit the decoding of tagged fields; return the variable with unknown ones."""
        lines = self.lines
        unknown = self.lines.variable("tags")
        lines.add(f"{unknown} = None")
        with lines.block("if data[at] == 0:"):
            lines.add("at += 1")
        with lines.block("else:"):
            lines.add("found, at = read_tags(data, at, left)")
            lines.add("left -= len(found)")
            for name, declared in cls.FIELDS.items():
                if is_tagged(declared, self.version, flexible=True):
                    reader = _add_tagged_decoder(self.source, declared, self.version)
                    with lines.block(f"if {declared.tag} in found:"):
                        lines.add(
                            f"{holds[name]} = take_tag(data, found.pop({declared.tag}),"
                            f" {reader}, left)"
                        )
            with lines.block("if found:"):
                lines.add(
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
            self.lines.add(f"{target} = {made}")
        else:
            self._nullable_struct(declared, target, in_tag=in_tag)

    def _length(self, code: str) -> str:
        """Emit the decoding of a length or count; negative for null."""
        size = self.lines.variable("n")
        if not self.flexible:
            self._run.append((code, size))
            self.flush()
            return size
        self.flush()
        self.lines.add(f"{size} = data[at]")
        with self.lines.block(f"if {size} < 128:"):
            self.lines.add("at += 1")
        with self.lines.block("else:"):
            self.lines.add(f"{size}, at = read_uvarint(data, at)")
        self.lines.add(f"{size} -= 1")
        return size

    def _null(self, size: str, target: str, nullable: bool) -> None:
        with self.lines.block(f"if {size} < 0:"):
            if not nullable:
                self.lines.add("refuse_null(at)")
            elif self.flexible:
                self.lines.add(f"{target} = None")
            else:
                self.lines.add(f"{target} = None if {size} == -1 else refuse_null(at)")

    def _sized(self, code: str, target: str, taken: str, nullable: bool) -> None:
        if not self.flexible:
            self._taken(self._length(code), target, taken, nullable)
            return
        self.flush()
        lines = self.lines
        size = self.lines.variable("n")
        lines.add(f"{size} = data[at]")
        # The common cases first: a length of one byte, and null. The last branch also
        # decodes a null whose varint is longer than necessary.
        with lines.block(f"if 0 < {size} < 128:"):
            lines.add(f"{target} = {taken.format(start='at + 1', end=f'at + {size}')}")
            lines.add(f"at += {size}")
        if nullable:
            with lines.block(f"elif {size} == 0:"):
                lines.add(f"{target} = None")
                lines.add("at += 1")
        with lines.block("else:"):
            lines.add(f"{size}, at = read_uvarint(data, at)")
            lines.add(f"{size} -= 1")
            if code == "h":
                with lines.block(f"if {size} > {STRING_BYTES_MAX}:"):
                    lines.add(f"refuse_string({size}, at)")
            self._taken(size, target, taken, nullable)

    def _taken(self, size: str, target: str, taken: str, nullable: bool) -> None:
        """Emit the decoding of null, or of `size` bytes."""
        self._null(size, target, nullable)
        with self.lines.block("else:"):
            content = taken.format(start="at", end=f"at + {size}")
            self.lines.add(f"{target} = {content}")
            self.lines.add(f"at += {size}")

    def _array(self, declared: Field, target: str, nullable: bool) -> None:
        lines = self.lines
        size = self._length("i")
        self._null(size, target, nullable)
        needed = self._element_bytes_min(declared)
        with lines.block(f"elif {size} * {needed} > len(data) - at:"):
            lines.add(f"refuse_count({size}, {needed}, at)")
        with lines.block("else:"):
            lines.add(f"left -= {size}")
            with lines.block("if left < 0:"):
                lines.add(f"refuse_total({size}, left)")
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
        lines = self.lines
        code = FIXED[kind]
        width = struct.calcsize(">" + code)
        if self.in_slices:
            lines.add(f"{target} = []")
            rest = lines.variable("n")
            lines.add(f"{rest} = {size}")
            with lines.block(f"while {rest} > {_FIXED_SLICE_ELEMENTS}:"):
                part = self._fixed(kind, str(_FIXED_SLICE_ELEMENTS))
                lines.add(f"{target} += {part}")
                lines.add(f"at += {width * _FIXED_SLICE_ELEMENTS}")
                lines.add(f"{rest} -= {_FIXED_SLICE_ELEMENTS}")
                lines.add("yield")
            lines.add(f"{target} += {self._fixed(kind, rest)}")
            lines.add(f"at += {width} * {rest}")
            return
        lines.add(f"{target} = {self._fixed(kind, size)}")
        lines.add(f"at += {width} * {size}")

    def _fixed(self, kind: str, size: str) -> str:
        """Return the expression of a list of `size` elements of fixed width."""
        if kind == "uuid":
            return f"[data[i:i + 16] for i in range(at, at + 16 * {size}, 16)]"
        return f"list(unpack_from(f'>{{{size}}}{FIXED[kind]}', data, at))"

    def _looped_elements(self, declared: Field, size: str, target: str) -> None:
        lines = self.lines
        lines.add(f"{target} = []")
        with lines.block(f"for _ in range({size}):"):
            if isinstance(declared.element, str):
                element = self.lines.variable("value")
                plain = declared._replace(kind=declared.element, element=None)
                self.field(plain._replace(nullable=plain.tagged), element)
                self.flush()
            else:
                element = self.struct(element_struct(declared))
            lines.add(f"{target}.append({element})")
            if self.in_slices:
                add_slice_end(lines)

    def _nullable_struct(self, declared: Field, target: str, *, in_tag: bool) -> None:
        lines = self.lines
        marker = self.lines.variable("n")
        self._run.append(("b", marker))
        self.flush()
        # KIP-893: an int8 marker precedes the struct, negative for null. In a tagged
        # field 0 is null, which brokers before Kafka 4.4 write in records of members.
        with lines.block(f"if {marker} {'<=' if in_tag else '<'} 0:"):
            lines.add(f"{target} = None")
        with lines.block("else:"):
            made = self.struct(element_struct(declared))
            lines.add(f"{target} = {made}")


def compile_encoder(cls: type[Struct], version: int, *, flexible: bool) -> Encoder:
    """Compile the encoder of `cls` in one version."""
    encoder: Encoder = _execute_encoder(cls, version, flexible, in_slices=False)
    return encoder


def compile_sliced_encoder(
    cls: type[Struct], version: int, *, flexible: bool
) -> SlicedEncoder:
    """Compile the encoder of `cls` in one version as a generator."""
    encoder: SlicedEncoder = _execute_encoder(cls, version, flexible, in_slices=True)
    return encoder


def _execute_encoder(
    cls: type[Struct], version: int, flexible: bool, *, in_slices: bool
) -> Any:
    source = Source()
    emitter = _EncodeEmitter(source, version, flexible=flexible, in_slices=in_slices)
    emitter.struct(cls, "value")
    return source.execute(emitter.finish())


def _add_tagged_encoder(source: Source, declared: Field, version: int) -> str:
    """Add the encoder of a tagged field's content."""
    emitter = _EncodeEmitter(source, version, flexible=True)
    emitter.field(declared, "value", in_tag=True)
    return emitter.finish()


class _EncodeEmitter:
    def __init__(
        self,
        source: Source,
        version: int,
        *,
        flexible: bool,
        in_slices: bool = False,
    ) -> None:
        self.version = version
        self.flexible = flexible
        self.source = source
        self.lines = Lines()
        self.in_slices = in_slices
        if in_slices:
            self.lines.add("slices = 0")
        self._run: list[tuple[str, str]] = []

    def finish(self) -> str:
        self.flush()
        if self.in_slices:
            add_empty_yield(self.lines)
        return self.source.function("encode", ENCODER, self.lines.lines)

    def flush(self) -> None:
        """Emit one `pack` for the fixed fields since the last call."""
        if not self._run:
            return
        codes = [code for code, _ in self._run]
        pack = self.source.constant(
            layout_name("pack", codes), f'Layout("{struct_of(codes).format}").pack'
        )
        values = ", ".join(value for _, value in self._run)
        self.append(f"{pack}({values})")
        self._run.clear()

    def append(self, expression: str) -> None:
        """Emit one part of the encoded bytes."""
        self.lines.add(f"parts.append({expression})")

    def struct(self, cls: type[Struct], holder: str) -> None:
        """Emit the encoding of a struct's fields."""
        for name, declared in cls.FIELDS.items():
            if in_line(declared, self.version, flexible=self.flexible):
                self.field(declared, f"{holder}.{name}")
        if self.flexible:
            self._tags(cls, holder)

    def _tags(self, cls: type[Struct], holder: str) -> None:
        lines = self.lines
        known = [
            (name, declared)
            for name, declared in cls.FIELDS.items()
            if is_tagged(declared, self.version, flexible=True)
            and self.version in declared.versions
        ]
        tags = self.lines.variable("tags")
        if known:
            self.flush()
        lines.add(f"{tags} = {holder}.unknown_tags")
        if known:
            lines.add(f"{tags} = dict({tags}) if {tags} else {{}}")
        for name, declared in known:
            encode = _add_tagged_encoder(self.source, declared, self.version)
            with lines.block(f"if {holder}.{name} != {self._default(declared)}:"):
                lines.add(
                    f"{tags}[{declared.tag}] = encode_tag({encode}, {holder}.{name})"
                )
        if not self._run:
            self.append(f"write_tags({tags}) if {tags} else TAG_SECTION_EMPTY")
            return
        # Tagged fields are rare: their empty section is one more byte of the struct of
        # the fixed fields before it.
        run = self._run.copy()
        with lines.block(f"if {tags}:"):
            self.flush()
            self.append(f"write_tags({tags})")
        self._run = [*run, ("B", "0")]
        with lines.block("else:"):
            self.flush()

    def _default(self, declared: Field) -> str:
        """Return the expression of a field's default."""
        if declared.default is not None and declared.kind == "struct":
            made = self.source.cls(element_struct(declared))
            return self.source.constant(f"default_{made}", f"{made}()")
        if declared.default is not None and declared.kind == "array":
            return "[]"
        return repr(declared.default)

    def field(self, declared: Field, value: str, *, in_tag: bool = False) -> None:
        """Emit the encoding of one field. `in_tag`: it is a tagged field."""
        nullable = self.version in declared.nullable
        if declared.kind in FIXED:
            self._run.append((FIXED[declared.kind], value))
        elif declared.kind == "string":
            # The messages of errors contain names of the request, and can be too long.
            is_message = value.endswith(".error_message")
            content = f"encode_cut({value})" if is_message else f"{value}.encode()"
            if declared.default is None and not nullable:
                # A version without null has the empty string instead: the protocol
                # name in JoinGroup, as in Kafka's `JoinGroupResponse`.
                content = f'({value} or "").encode()'
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
        count = self.lines.variable("n")
        self.lines.add(f"{count} = {size} + 1")
        self.append(
            f"SMALL_UVARINTS[{count}] if {count} < 128 else write_uvarint({count})"
        )

    @contextmanager
    def _unless_null(self, code: str, value: str, nullable: bool) -> Iterator[None]:
        """Emit the encoding of null, if allowed; the block is for other values."""
        if not nullable:
            yield
            return
        self.flush()
        null = b"\0" if self.flexible else struct.pack(">" + code, -1)
        with self.lines.block(f"if {value} is None:"):
            self.append(repr(null))
        with self.lines.block("else:"):
            yield

    def _sized(self, code: str, content: str, value: str, nullable: bool) -> None:
        with self._unless_null(code, value, nullable):
            body = self.lines.variable("body")
            self.lines.add(f"{body} = {content}")
            self._length(code, f"len({body})")
            self.append(body)

    def _array(self, declared: Field, value: str, nullable: bool) -> None:
        items = self.lines.variable("items")
        self.lines.add(f"{items} = {value}")
        with self._unless_null("i", items, nullable):
            self._elements(declared, items)

    def _elements(self, declared: Field, held: str) -> None:
        lines = self.lines
        if isinstance(declared.element, str):
            self._length("i", f"len({held})")
            self._primitives(declared, held)
            return
        self.flush()
        with lines.block(f"if type({held}) is EncodedArray:"):
            self._length("i", f"{held}.count")
            self.append(f"{held}.body")
        with lines.block("else:"):
            self._length("i", f"len({held})")
            element = self.lines.variable("item")
            with lines.block(f"for {element} in {held}:"):
                self.struct(element_struct(declared), element)
                self._end_element()

    def _end_element(self) -> None:
        self.flush()
        if self.in_slices:
            add_slice_end(self.lines)

    def _primitives(self, declared: Field, held: str) -> None:
        lines = self.lines
        assert isinstance(declared.element, str)
        if declared.element in FIXED and declared.element != "uuid":
            code = FIXED[declared.element]
            self.append(f"pack(f'>{{len({held})}}{code}', *{held})")
            return
        element = self.lines.variable("item")
        with lines.block(f"for {element} in {held}:"):
            plain = declared._replace(kind=declared.element, nullable=declared.tagged)
            self.field(plain, element)
            self._end_element()

    def _struct_field(
        self, declared: Field, value: str, nullable: bool, *, in_tag: bool
    ) -> None:
        lines = self.lines
        held = self.lines.variable("held")
        lines.add(f"{held} = {value}")
        if not nullable:
            self.struct(element_struct(declared), held)
            return
        self.flush()
        # KIP-893: an int8 marker, negative for null; in a tagged field 0 is null.
        with lines.block(f"if {held} is None:"):
            self.append(r"b'\0'" if in_tag else r"b'\xff'")
        with lines.block("else:"):
            self.append(r"b'\x01'")
            self.struct(element_struct(declared), held)
            self.flush()
