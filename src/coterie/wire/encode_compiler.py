"""A declaration -> a specialised encoder: a value -> its parts, appended in order.

A field that the version does not have is left out silently, as Kafka does for fields
it calls ignorable; whether that is right is the caller's to know.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from coterie.wire.compiler import (
    FIXED,
    Source,
    default_of,
    element_struct,
    in_line,
    is_tagged,
    struct_of,
)
from coterie.wire.primitives import (
    SMALL_UVARINTS,
    TAG_SECTION_EMPTY,
    Prepared,
    write_tags,
    write_uvarint,
)
from coterie.wire.schema import Field, Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    Encoder = Callable[[Any, Callable[[bytes], None]], None]


def compile_encoder(cls: type[Struct], version: int, *, flexible: bool) -> Encoder:
    """The encoder of `cls` in one version: `(value, append)`."""
    emitter = _EncodeEmitter(version, flexible=flexible)
    emitter.struct(cls, "value")
    emitter.flush()
    return emitter.source.function("encode(value, out)")


def _compile_field(declared: Field, version: int) -> Callable[[Any], bytes]:
    """The encoder of one tagged field's content."""
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
            Prepared=Prepared,
            write_uvarint=write_uvarint,
            write_tags=write_tags,
            pack=struct.pack,
            EMPTY_TAGS=TAG_SECTION_EMPTY,
        )
        self._run: list[tuple[str, str]] = []

    def flush(self) -> None:
        """Emit the pending fixed fields as one packing."""
        if not self._run:
            return
        layout = struct_of([code for code, _ in self._run])
        pack = self.source.constant("pack", layout.pack)
        values = ", ".join(value for _, value in self._run)
        self.source.add(f"out({pack}({values}))")
        self._run.clear()

    def struct(self, cls: type[Struct], holder: str) -> None:
        """Emit the writing of a struct's fields."""
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
            content = source.constant("field", _compile_field(declared, self.version))
            with source.block(f"if {holder}.{name} != {default}:"):
                source.add(f"{tags}[{declared.tag}] = {content}({holder}.{name})")
        if not self._run:
            source.add(f"out(write_tags({tags}) if {tags} else EMPTY_TAGS)")
            return
        # The usual empty section is one more zero byte behind the fixed fields.
        run = self._run.copy()
        with source.block(f"if {tags}:"):
            self.flush()
            source.add(f"out(write_tags({tags}))")
        self._run = [*run, ("B", "0")]
        with source.block("else:"):
            self.flush()

    def field(self, declared: Field, value: str, *, in_tag: bool = False) -> None:
        """Emit the writing of one field. `in_tag`: of a tagged one."""
        nullable = self.version in declared.nullable
        if declared.kind in FIXED:
            self._run.append((FIXED[declared.kind], value))
        elif declared.kind == "string":
            self._sized("h", f"{value}.encode()", value, nullable)
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

    def _null_or(self, code: str, value: str, nullable: bool) -> str:
        """Emit the null form when allowed; the head of the block for the rest."""
        if not nullable:
            return ""
        self.flush()
        null = b"\0" if self.flexible else struct.pack(">" + code, -1)
        with self.source.block(f"if {value} is None:"):
            self.source.add(f"out({null!r})")
        return "else:"

    def _sized(self, code: str, taken: str, value: str, nullable: bool) -> None:
        head = self._null_or(code, value, nullable)
        body = self.source.name("body")
        if not head:
            self.source.add(f"{body} = {taken}")
            self._length(code, f"len({body})")
            self.source.add(f"out({body})")
            return
        with self.source.block(head):
            self.source.add(f"{body} = {taken}")
            self._length(code, f"len({body})")
            self.source.add(f"out({body})")

    def _array(self, declared: Field, value: str, nullable: bool) -> None:
        source = self.source
        held = source.name("items")
        source.add(f"{held} = {value}")
        head = self._null_or("i", held, nullable)
        if not head:
            self._elements(declared, held)
            return
        with source.block(head):
            self._elements(declared, held)

    def _elements(self, declared: Field, held: str) -> None:
        source = self.source
        if isinstance(declared.element, str):
            self._length("i", f"len({held})")
            self._primitives(declared, held)
            return
        self.flush()
        with source.block(f"if type({held}) is Prepared:"):
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
        # KIP-893: a nullable struct has a marker byte, negative for null; in a tagged
        # field 0 is null.
        with source.block(f"if {held} is None:"):
            source.add(r"out(b'\0')" if in_tag else r"out(b'\xff')")
        with source.block("else:"):
            source.add(r"out(b'\x01')")
            self.struct(element_struct(declared), held)
            self.flush()
