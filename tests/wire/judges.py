"""Independent codecs that check Coterie's: kio, kafka-python and aiokafka.

A judge decodes a body, converts it to plain dicts and lists, and encodes it again.
`plain` converts a message of Coterie. Field names, normalized by `_name`, are compared
too, to detect two fields of one type in the wrong order.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import io
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, Protocol
from uuid import UUID

import aiokafka.protocol
import kio.index
from aiokafka.protocol.struct import Struct as AiokafkaStruct
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.data_container import DataContainer
from kio.serial import entity_reader, entity_writer

from coterie.wire.schema import PRIVATE_TAG, Field, Message, Struct

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MILLISECOND: Final = dt.timedelta(milliseconds=1)
INT32_MIN: Final = -(2**31)
AIOKAFKA_MISTAKES: Final = {
    ("ListOffsetsRequest", 4),
    ("ListOffsetsRequest", 5),
    ("DescribeAclsRequest", 2),
    ("DescribeAclsResponse", 2),
}
"""aiokafka 0.14.0 declares current_leader_epoch as int64 in the first two and never
sends it; it declares the others as not flexible."""


class Judge(Protocol):
    """An independent decoder and encoder of one message in one version."""

    def read(self, body: bytes) -> Any:
        """Decode a body."""

    def plain(self, value: Any) -> Any:
        """Convert a decoded value to dicts by field name, or to primitives."""

    def write(self, value: Any) -> bytes:
        """Encode a decoded value."""


class KioJudge:
    def __init__(self, cls: type[Message], version: int) -> None:
        side = "request" if cls.__name__.endswith("Request") else "response"
        load: Any = getattr(kio.index, f"load_{side}_schema")
        self._schema = load(cls.API_KEY, version)

    def read(self, body: bytes) -> Any:
        value, size = entity_reader(self._schema)(body, 0)
        assert size == len(body)
        return value

    def plain(self, value: Any) -> Any:
        if dataclasses.is_dataclass(value):
            return {
                _name(field.name): self._plain_field(field, getattr(value, field.name))
                for field in dataclasses.fields(value)
            }
        if isinstance(value, tuple):
            return [self.plain(element) for element in value]
        return _plain_primitive(value)

    def _plain_field(self, field: Any, value: Any) -> Any:
        if value is None and field.metadata.get("kafka_type") == "datetime_i64":
            return -1  # kio decodes a missing timestamp as None
        return self.plain(value)

    def write(self, value: Any) -> bytes:
        buffer = io.BytesIO()
        entity_writer(self._schema)(buffer, value)
        return buffer.getvalue()


class KafkaPythonJudge:
    def __init__(self, cls: type[Message], version: int) -> None:
        self._schema = kafka_python_classes()[cls.__name__]
        self._version = version
        if version > self._schema.max_version:
            raise LookupError(version)

    def read(self, body: bytes) -> Any:
        return self._schema.decode(body, version=self._version)

    def plain(self, value: Any) -> Any:
        if isinstance(value, DataContainer):
            return {
                _name(field.name): self._plain_field(field, getattr(value, field.name))
                for field in value._struct._fields
                if field.for_version_q(self._version)
            }
        if isinstance(value, list):
            return [self.plain(element) for element in value]
        return _plain_primitive(value)

    def _plain_field(self, field: Any, value: Any) -> Any:
        if field.name == "authorized_operations":
            return _bits(value)
        return self.plain(value)

    def write(self, value: Any) -> bytes:
        value._header = None
        return bytes(value.encode(version=self._version))


class AiokafkaJudge:
    def __init__(self, cls: type[Message], version: int) -> None:
        side = "Request" if cls.__name__.endswith("Request") else "Response"
        if (cls.__name__, version) in AIOKAFKA_MISTAKES:
            raise LookupError(version)
        self._schema = aiokafka_classes()[cls.API_KEY, version, side]

    def read(self, body: bytes) -> Any:
        return self._schema.decode(body)

    def plain(self, value: Any) -> Any:
        """Return the primitives, without nulls and without empty tag sections."""
        if isinstance(value, AiokafkaStruct):
            value = [value.__dict__[name] for name in value.SCHEMA.names]
        if isinstance(value, list | tuple):
            return [leaf for element in value for leaf in self.plain(element)]
        return [] if value is None or value == {} else [_plain_primitive(value)]

    def write(self, value: Any) -> bytes:
        written: bytes = value.encode()
        return written


def plain(value: Any, version: int) -> Any:
    """Convert a value of Coterie to dicts by field name, as the judges do."""
    if isinstance(value, Struct):
        return {
            _name(name): _plain_field(declared, getattr(value, name), version)
            for name, declared in value.FIELDS.items()
            if declared.tag is None or declared.tag < PRIVATE_TAG
            if version in declared.versions
        }
    if isinstance(value, list):
        return [plain(element, version) for element in value]
    return value


def _plain_field(declared: Field, value: Any, version: int) -> Any:
    if declared.kind == "uuid":
        return None if value == bytes(16) else value
    if declared.element == "uuid" and value is not None:
        return [None if element == bytes(16) else element for element in value]
    return plain(value, version)


def leaves(content: Any) -> list[Any]:
    """Return the primitives in wire order, for a judge with other names and nesting."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return [leaf for element in content for leaf in leaves(element)]
    return [content]


def _name(name: str) -> str:
    """Normalize a field's name.

    kio omits the unit of durations, Kafka 4.4 renamed a generation, and kafka-python
    shortens the names of authorized operations.
    """
    name = name.removesuffix("_ms").removesuffix("_or_member_epoch")
    if name.endswith("_authorized_operations") and not name.startswith("include"):
        return "authorizedoperations"
    return name.replace("_", "")


def _bits(operations: set[int] | None) -> int:
    """Convert kafka-python's set of operations to the int32 on the wire."""
    if operations is None:
        return INT32_MIN
    bits = sum(1 << operation for operation in operations)
    return bits if bits < -INT32_MIN else bits + 2 * INT32_MIN


def _plain_primitive(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes if value.int else None
    if isinstance(value, dt.timedelta):
        return value // MILLISECOND
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return value


@cache
def kafka_python_classes() -> dict[str, Any]:
    """Return kafka-python's messages by name."""
    for part in ("admin", "consumer", "metadata", "producer", "sasl"):
        importlib.import_module(f"kafka.protocol.{part}")
    return {cls.__name__: cls for cls in ApiMessage.__subclasses__()}


@cache
def aiokafka_classes() -> dict[tuple[int, int, str], Any]:
    """Return aiokafka's messages by key, version and request or response."""
    found = {}
    for name, cls in _aiokafka_names():
        match = re.fullmatch(r"\w*(Request|Response)_v(\d+)", name)
        if match and isinstance(getattr(cls, "API_KEY", None), int):
            found[cls.API_KEY, cls.API_VERSION, match[1]] = cls
    return found


def _aiokafka_names() -> Iterator[tuple[str, Any]]:
    for module in pkgutil.iter_modules(aiokafka.protocol.__path__):
        yield from vars(
            importlib.import_module(f"aiokafka.protocol.{module.name}")
        ).items()
