"""Declarations of messages: typed fields, each with its range of versions.

A message is a class. Annotations give the Python types; the default values, made by
the functions below, give the wire types:

    class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
        group_id: str = string()
        generation_id: int = int32()
        group_instance_id: str | None = string("3+", nullable="3+", default=None)

Rules of this file: this module only declares messages (compiler.py decodes and encodes
them); a declaration is cheap at import, because commands should start quickly.
`__init__` and `__eq__` are compiled when a class is first instantiated.

Version ranges are Kafka's own notation: "3+", "0-4", "2".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, dataclass_transform

VERSION_MAX: Final = 32767
ZERO_UUID: Final = bytes(16)


class Versions(NamedTuple):
    """An inclusive range of versions; `low > high` is the empty range."""

    low: int
    high: int

    @classmethod
    @cache
    def parse(cls, text: str) -> Versions:
        """Parse Kafka's notation: "3+", "0-4", "2" or "none"."""
        if text == "none":
            return cls(0, -1)
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high


NO_VERSIONS: Final = Versions.parse("none")


class Field(NamedTuple):
    """A declared field.

    `kind` is the wire type's name; for "array" and "struct", `element` is the name
    of a primitive kind or a `Struct` class. `tag` is None for a field that is not a
    tagged one.
    """

    kind: str
    versions: Versions
    nullable: Versions
    default: Any
    element: str | type[Struct] | None
    tag: int | None
    tagged: Versions
    is_secret: bool


def in_line(declared: Field, version: int, *, flexible: bool) -> bool:
    """Return whether the version has the field, and not as a tagged field."""
    return version in declared.versions and not is_tagged(
        declared, version, flexible=flexible
    )


def is_tagged(declared: Field, version: int, *, flexible: bool) -> bool:
    """Return whether the field is a tagged field in this version."""
    return flexible and declared.tag is not None and version in declared.tagged


_IMPLICIT_DEFAULTS: Final[Mapping[str, object]] = {
    "bool": False,
    "string": "",
    "uuid": ZERO_UUID,
    "bytes": b"",
    "records": None,
    "float64": 0.0,
}
_UNSET: Final = object()


def _field(
    kind: str,
    versions: str,
    *,
    element: str | type[Struct] | None = None,
    **options: Any,
) -> Any:
    """Declare a field. The options are listed at `boolean`."""
    declared = Field(
        kind=kind,
        versions=Versions.parse(versions),
        nullable=Versions.parse(options.pop("nullable", "none")),
        default=options.pop("default", _IMPLICIT_DEFAULTS.get(kind, 0)),
        element=element,
        tag=options.pop("tag", None),
        tagged=Versions.parse(options.pop("tagged", "none")),
        is_secret=options.pop("is_secret", False),
    )
    assert not options, f"a field has no {', '.join(options)}"
    return declared


def boolean(versions: str = "0+", **options: Any) -> Any:
    """Declare one byte, 0 or 1.

    All declarations have the options `default`, `nullable` (the versions in which null
    is allowed), `tag` with `tagged` (the versions in which the field is a tagged one)
    and `is_secret` (the value is omitted from `repr`).
    """
    return _field("bool", versions, **options)


PRIVATE_TAG = 1_000
"""The first tag of Coterie's own tagged fields, far above Kafka's. Other peers skip
unknown tagged fields, and a field with its default value is not written.
"""


def int8(versions: str = "0+", **options: Any) -> Any:
    """Declare a signed byte."""
    return _field("int8", versions, **options)


def int16(versions: str = "0+", **options: Any) -> Any:
    """Declare a signed integer of two bytes."""
    return _field("int16", versions, **options)


def uint16(versions: str = "0+", **options: Any) -> Any:
    """Declare an unsigned integer of two bytes."""
    return _field("uint16", versions, **options)


def int32(versions: str = "0+", **options: Any) -> Any:
    """Declare a signed integer of four bytes."""
    return _field("int32", versions, **options)


def uint32(versions: str = "0+", **options: Any) -> Any:
    """Declare an unsigned integer of four bytes."""
    return _field("uint32", versions, **options)


def int64(versions: str = "0+", **options: Any) -> Any:
    """Declare a signed integer of eight bytes."""
    return _field("int64", versions, **options)


def float64(versions: str = "0+", **options: Any) -> Any:
    """Declare an IEEE 754 number of eight bytes."""
    return _field("float64", versions, **options)


def string(versions: str = "0+", **options: Any) -> Any:
    """Declare a UTF-8 string."""
    return _field("string", versions, **options)


def uuid(versions: str = "0+", **options: Any) -> Any:
    """Declare a UUID of sixteen raw bytes; all zeros stand for none."""
    return _field("uuid", versions, **options)


def binary(versions: str = "0+", **options: Any) -> Any:
    """Declare length-prefixed bytes."""
    return _field("bytes", versions, **options)


def records(versions: str = "0+", **options: Any) -> Any:
    """Declare length-prefixed record batches, which are not decoded here."""
    return _field("records", versions, **options)


def array(element: str | type[Struct], versions: str = "0+", **options: Any) -> Any:
    """Declare a list of a primitive kind (by name, as in "int32") or of a `Struct`.

    Its default is a new empty list; with `default=None`, None.
    """
    return _field("array", versions, element=element, **options)


def struct(element: type[Struct], versions: str = "0+", **options: Any) -> Any:
    """Declare a nested struct. Its default is a new one; with `default=None`, None."""
    return _field("struct", versions, element=element, **options)


class StructMeta(type):
    """The metaclass of `Struct`: replaces declared fields by slots and collects them in
    `FIELDS`."""

    FIELDS: Mapping[str, Field]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> StructMeta:
        """Create the class, with slots instead of the declared fields."""
        fields = {key: val for key, val in body.items() if isinstance(val, Field)}
        for key in fields:
            del body[key]
        body["__slots__"] = (*fields, *body.get("__slots__", ()))
        body["FIELDS"] = fields
        return super().__new__(mcs, name, bases, body, **options)


@dataclass_transform(kw_only_default=True)
class Struct(metaclass=StructMeta):
    """A value with named fields; two of one class are equal when all fields are.

    A field that is omitted on construction has Kafka's default. `unknown_tags` maps tag
    numbers to undeclared tagged fields, or is None: these fields are encoded again as
    they were decoded.
    """

    __slots__ = ("unknown_tags",)
    FIELDS: ClassVar[Mapping[str, Field]]
    unknown_tags: ClassVar[Any]

    def __init__(self, **values: Any) -> None:
        _compile_methods(type(self))
        self.__init__(**values)  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inner = ", ".join(
            f"{name}={'...' if field.is_secret else repr(getattr(self, name))}"
            for name, field in self.FIELDS.items()
        )
        return f"{type(self).__name__}({inner})"


class Message(Struct):
    """A request, a response or a record: a struct with its own versions.

    `API_KEY` is -1 for a record.
    """

    __slots__ = ()
    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[Versions]
    FLEXIBLE: ClassVar[Versions]

    def __init_subclass__(
        cls, *, versions: str, flexible: str = "none", key: int = -1
    ) -> None:
        cls.API_KEY = key
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)


def _compile_methods(cls: type[Struct]) -> None:
    """Give `cls` a specialised `__init__`, with keywords in declared order, and
    `__eq__`: the encoder compares every tagged field with its default."""
    scope: dict[str, Any] = {"UNSET": _UNSET}
    parameters, lines = [], ["self.unknown_tags = None"]
    for name, declared in cls.FIELDS.items():
        fresh = _fresh_value(declared)
        if fresh is None:
            scope[f"default_{name}"] = declared.default
            parameters.append(f"{name}=default_{name}")
            lines.append(f"self.{name} = {name}")
        else:
            scope[f"fresh_{name}"] = fresh
            parameters.append(f"{name}=UNSET")
            lines.append(f"self.{name} = fresh_{name}() if {name} is UNSET else {name}")
    source = f"def __init__(self, {', '.join(parameters)}):\n  " + "\n  ".join(lines)
    same = "".join(f" and self.{name} == other.{name}" for name in cls.FIELDS)
    source += "\ndef __eq__(self, other):\n  if type(other) is not type(self):"
    source += f"\n    return NotImplemented\n  return True{same}"
    exec(source, scope)  # noqa: S102 (the source is made of declared field names)
    cls.__init__ = scope["__init__"]  # type: ignore[method-assign]
    cls.__eq__ = scope["__eq__"]  # type: ignore[method-assign]


def _fresh_value(declared: Field) -> Any:
    """Return the factory of a mutable field's default; None for an immutable one."""
    if declared.default is None:
        return None
    if declared.kind == "array":
        return list
    return declared.element if declared.kind == "struct" else None
