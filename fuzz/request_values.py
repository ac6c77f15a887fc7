"""Valid requests with odd values, generated from the declarations of their fields.

A value is a usual one for the field's name, one that an earlier response contained, or
an odd one of its type: limits, empty and huge strings, unknown words, duplicates, null.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any, Final

from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from coterie.wire.schema import Field, Message, Struct

CANARY: Final = "canary"
"""The prefix of names that no request contains, except those of the canary itself."""
_TOPICS: Final = ("t0", "t1", "t2")
_GROUPS: Final = ("g0", "g1", "g2", "g3", "g4", "g5")
_REMEMBERED: Final = 12
_BITS: Final = {
    "int8": 8,
    "int16": 16,
    "int32": 32,
    "int64": 64,
    "uint16": 17,
    "uint32": 33,
}
_SMALL: Final = (-3, -2, -1, 0, 1, 2, 3, 127, 128, 256)
_TEXTS: Final = (
    "",
    " ",
    "\0",
    "a\0b",
    "\n",
    "é",
    "\U0001f600",
    "a/b",
    ".",
    "..",
    "*",
    "__consumer_offsets",
    "a" * 249,
    "a" * 250,
    "x" * 32_767,
    "é" * 16_383,
    "-1",
    "1",
    "999999999999999999999",
    "1e400",
    "nan",
    "User:*",
    "User:",
    "(",
    "[z-a]",
    "(?=a)",
    "t.*|",
    "(a*)*{1000}",
    "\\p{Greek}",
)
_BYTES: Final = (
    b"",
    b"\0",
    b"\xff" * 4,
    b"\0\0\xff\xff\xff\xff",
    b"\0\1\0\0\0\1\0\0\xff\xff\xff\xff",
    b"\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\1",
    b"x" * 2_000,
)
_UUIDS: Final = (bytes(16), bytes(15) + b"\1", b"\xff" * 16, b"\x80" + bytes(15))
_FLOATS: Final = (0.0, -0.0, 1.0, -1.0, float("inf"), float("nan"), 1e308, 5e-324)
_SUBSCRIPTION: Final = b"\0\1" + encode(
    m.ConsumerProtocolSubscription(topics=["t0", "t1"], user_data=None), 1
)
_ASSIGNMENT: Final = b"\0\1" + encode(
    m.ConsumerProtocolAssignment(
        assigned_partitions=[
            m.ConsumerProtocolTopicPartitions(topic="t0", partitions=[0, 1])
        ]
    ),
    1,
)
_BATCH: Final = encode_batch([LogRecord(0, 1_000, b"key", b"value", (("h", b"v"),))])
_USUAL: Final[dict[str, tuple[Any, ...]]] = {
    "acknowledged": (True,),
    "acks": (-1, 1),
    "allow_auto_topic_creation": (True, False),
    "assignment": (_ASSIGNMENT,),
    "client_software_name": ("fuzz",),
    "client_software_version": ("1",),
    "committed": (True, False),
    "config_names": ("cleanup.policy", "retention.ms", "consumer.session.timeout.ms"),
    "config_operation": (0, 1, 2, 3),
    "config_value": ("1", "delete", "compact", "50000", None),
    "coordinator_keys": _GROUPS,
    "coordinator_type": (0, 1),
    "count": (1, 2, 5),
    "generation_id": (-1, 1, 2),
    "group": _GROUPS,
    "group_id": _GROUPS,
    "group_instance_id": (None, "i0", "i1"),
    "group_ids": _GROUPS,
    "groups": _GROUPS,
    "groups_names": _GROUPS,
    "host": ("*", "127.0.0.1"),
    "index": (0, 1),
    "instance_id": (None, "i0", "i1"),
    "isolation_level": (0, 1),
    "iterations": (4_096,),
    "key": _GROUPS,
    "key_type": (0, 1),
    "leader_epoch": (-1, 0),
    "max_bytes": (1_000_000,),
    "max_wait_ms": (0,),
    "mechanism": ("PLAIN", 1, 2),
    "member_epoch": (0, 0, 1, 2, -1, -2),
    "member_id": ("", "m0", "m1", "m2"),
    "metadata": (_SUBSCRIPTION,),
    "name": ("range", "t0", "t1", "cleanup.policy", "retention.ms", "u0"),
    "names": _TOPICS,
    "num_partitions": (1, 2, -1),
    "offset": (0, 1, 10),
    "operation": (2, 3, 4, 8),
    "partition": (0, 1),
    "partition_index": (0, 1),
    "partition_indexes": (0, 1),
    "partition_max_bytes": (1_000_000,),
    "partitions": (0, 1),
    "pattern_type": (3, 4),
    "pattern_type_filter": (1, 2, 3),
    "permission_type": (2, 3),
    "principal": ("User:a", "User:b"),
    "producer_epoch": (-1, 0, 1),
    "producer_id": (-1, 0, 1),
    "protocol_name": ("range", None),
    "protocol_type": ("consumer", "connect"),
    "rack_id": (None, "r1"),
    "rebalance_timeout_ms": (1, 2_000, 5_000),
    "records": (_BATCH,),
    "replication_factor": (1, -1),
    "replica_id": (-1,),
    "resource_name": (*_TOPICS, *_GROUPS, "1", ""),
    "resource_type": (2, 3, 4, 5, 32),
    "retention_time_ms": (-1,),
    "server_assignor": (None, "range", "uniform"),
    "session_timeout_ms": (6_000, 10_000),
    "subscribed_topic_names": _TOPICS,
    "subscribed_topic_regex": (None, "t.*", "t[01]", ""),
    "timeout_ms": (0, 1_000),
    "timestamp": (-1, -2, -3, 0),
    "topic": _TOPICS,
    "topic_name": _TOPICS,
    "topic_names": _TOPICS,
    "topics": _TOPICS,
    "transaction_timeout_ms": (1_000, 60_000),
    "transactional_id": (None, "x0", "x1"),
    "validate_only": (False, True),
    "value": ("1", "delete", "50000", None),
}
"""Usual values by the name of a field, or of an array of primitive values."""
_IDENTITY: Final = frozenset(
    {
        "group_id",
        "member_id",
        "member_epoch",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "group_instance_id",
        "instance_id",
        "transactional_id",
        "producer_id",
        "producer_epoch",
    }
)
"""Fields that identify a member of a group or a producer."""
_IDENTITIES_MAX: Final = 40
_STARTS: Final[dict[str, dict[str, Any]]] = {
    "ConsumerGroupHeartbeatRequest": {
        "member_epoch": 0,
        "rebalance_timeout_ms": 5_000,
        "subscribed_topic_names": ["t0", "t1"],
        "server_assignor": None,
        "topic_partitions": [],
        "client_assignors": None,
        "rack_id": None,
    },
    "ShareGroupHeartbeatRequest": {
        "member_epoch": 0,
        "subscribed_topic_names": ["t0", "t1"],
        "rack_id": None,
    },
    "ShareFetchRequest": {
        "member_id": "m",
        "share_session_epoch": 0,
        "max_wait_ms": 0,
        "max_records": 10,
        "batch_size": 10,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
    },
    "JoinGroupRequest": {
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 200,
        "protocol_type": "consumer",
        "protocols": [m.JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
    },
    "CreateTopicsRequest": {
        "topics": [
            m.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            for name in _TOPICS
        ],
        "validate_only": False,
    },
    "InitProducerIdRequest": {
        "transaction_timeout_ms": 1_000,
        "producer_id": -1,
        "producer_epoch": -1,
    },
}
"""Fields of requests that start something, by the request's class."""
_SAME: Final = {
    "group": "group_id",
    "groups_names": "group_id",
    "group_ids": "group_id",
    "generation_id_or_member_epoch": "generation_id",
    "v_3_and_below_transactional_id": "transactional_id",
    "v_3_and_below_producer_id": "producer_id",
    "v_3_and_below_producer_epoch": "producer_epoch",
}
"""Fields whose values are interchangeable, by the name under which they are kept."""


class Generator:
    """A source of requests, deterministic for a seed and the responses it is given."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._kept: dict[tuple[str, str], deque[Any]] = {}
        self._succeeded: dict[tuple[type[Message], int], deque[Message]] = {}
        self._identities: deque[dict[str, Any]] = deque(maxlen=_IDENTITIES_MAX)
        self._odds = 0.0

    def client_id(self) -> str | None:
        """Return the client id of a request."""
        chance = self._chance
        return chance.choice((*_TEXTS, None)) if chance.random() < 0.05 else "fuzz"

    def request(self, cls: type[Message], version: int) -> Any:
        """Return a request; most have few odd values, some have many.

        Some repeat a request that was successful, with a few fields changed, and most
        have the identity of a member or producer that the broker knows.
        """
        chance = self._chance
        self._odds = chance.choice((0.0, 0.0, 0.03, 0.1, 0.1, 0.3))
        succeeded = self._succeeded.get((cls, version))
        if succeeded and chance.random() < 0.4:
            request = self._copy(chance.choice(succeeded), version)
            return self._overlay(request) if chance.random() < 0.3 else request
        request = self._struct(cls, version)
        starts = _STARTS.get(cls.__name__)
        if starts and chance.random() < 0.5:
            for name, content in starts.items():
                setattr(request, name, content)
            return self._copy(request, version)
        return self._overlay(request) if chance.random() < 0.6 else request

    def keep(self, request: Message, version: int, response: Message) -> None:
        """Keep a request that was successful, and the values of its response."""
        self._keep_values(response)
        code = getattr(response, "error_code", 0)
        if code == 0:
            key = (type(request), version)
            self._succeeded.setdefault(key, deque(maxlen=_REMEMBERED)).append(request)
        if code in {0, ErrorCode.MEMBER_ID_REQUIRED}:
            identity = {
                name: getattr(message, name)
                for message in (request, response)
                for name in _IDENTITY & message.FIELDS.keys()
                if getattr(message, name) not in (None, "")
            }
            if len(identity) > 1:
                self._identities.append(identity)

    def _overlay(self, request: Any) -> Any:
        """Set the fields that identify a member or producer, from one of them."""
        if self._identities:
            identity = self._chance.choice(self._identities)
            for name, declared in request.FIELDS.items():
                source = _SAME.get(name, name)
                is_single = declared.kind != "array"
                if source in identity and is_single and self._chance.random() < 0.95:
                    setattr(request, name, identity[source])
        return request

    def _copy(self, value: Any, version: int) -> Any:
        """Return a copy of a struct in which a few fields have other values."""
        copied = {}
        for name, declared in value.FIELDS.items():
            content = getattr(value, name)
            if version in declared.versions and self._chance.random() < self._odds:
                content = self._field(name, declared, version)
            elif isinstance(content, Struct):
                content = self._copy(content, version)
            elif isinstance(content, list):
                content = [
                    self._copy(item, version) if isinstance(item, Struct) else item
                    for item in content
                ]
            copied[name] = content
        return type(value)(**copied)

    def _keep_values(self, value: Struct) -> None:
        for name, declared in value.FIELDS.items():
            content = getattr(value, name)
            items = content if declared.kind == "array" and content else [content]
            for item in items[:_REMEMBERED]:
                if isinstance(item, Struct):
                    self._keep_values(item)
                elif item not in (None, "", []) and not _is_canary(item):
                    key = (
                        _SAME.get(name, name),
                        str(declared.element or declared.kind),
                    )
                    kept = self._kept.setdefault(key, deque(maxlen=_REMEMBERED))
                    if item not in kept:
                        kept.append(item)

    def _struct(self, cls: type[Struct], version: int) -> Any:
        return cls(
            **{
                name: self._field(name, declared, version)
                for name, declared in cls.FIELDS.items()
                if version in declared.versions
            }
        )

    def _field(self, name: str, declared: Field, version: int) -> Any:
        chance = self._chance
        is_odd = chance.random() < self._odds
        if version in declared.nullable and (
            chance.random() < (0.3 if is_odd else 0.05)
        ):
            return None
        if declared.kind == "array":
            return self._array(name, declared, version, is_odd=is_odd)
        if declared.kind == "struct":
            assert isinstance(declared.element, type)
            return self._struct(declared.element, version)
        value = self._value(name, declared.kind, is_odd=is_odd)
        if value is None and version not in declared.nullable:
            return declared.default if declared.default is not None else ""
        return value

    def _array(
        self, name: str, declared: Field, version: int, *, is_odd: bool
    ) -> list[Any]:
        chance = self._chance
        length = chance.choice((0, 1, 2, 3, 40) if is_odd else (0, 1, 1, 1, 2))
        items = []
        for _ in range(length):
            if isinstance(declared.element, type):
                items.append(self._struct(declared.element, version))
            else:
                assert declared.element is not None
                odd = is_odd and chance.random() < 0.5
                items.append(self._value(name, declared.element, is_odd=odd))
        if is_odd and items:
            items += [chance.choice(items)] * chance.choice((0, 1, 2))
        return items

    def _value(self, name: str, kind: str, *, is_odd: bool) -> Any:
        chance = self._chance
        if is_odd:
            return self._odd(kind)
        kept = self._kept.get((_SAME.get(name, name), kind))
        if kept and chance.random() < 0.6:
            return chance.choice(kept)
        usual = [v for v in _USUAL.get(name, ()) if v is None or _fits(v, kind)]
        if usual:
            return chance.choice(usual)
        return _DEFAULTS.get(kind, 0)

    def _odd(self, kind: str) -> Any:
        chance = self._chance
        if kind in _BITS:
            low = 0 if kind.startswith("u") else -(1 << _BITS[kind] - 1)
            high = (1 << _BITS[kind] - 1) - 1
            value = chance.choice((low, low + 1, high - 1, high, *_SMALL))
            return min(max(value, low), high)
        if kind == "bool":
            return chance.random() < 0.5
        if kind == "string" and chance.random() < 0.4:
            return ""
        odd = {
            "string": _TEXTS,
            "uuid": _UUIDS,
            "float64": _FLOATS,
            "bytes": (*_BYTES, _SUBSCRIPTION, _ASSIGNMENT),
            "records": (*_BYTES, _BATCH * 2, _BATCH[:-1], self._damaged()),
        }
        return chance.choice(odd[kind])

    def _damaged(self) -> bytes:
        at = self._chance.randrange(len(_BATCH))
        flipped = _BATCH[at] ^ 1 << self._chance.randrange(8)
        return _BATCH[:at] + bytes([flipped]) + _BATCH[at + 1 :]


_DEFAULTS: Final = {
    "bool": False,
    "string": "",
    "uuid": bytes(16),
    "bytes": b"",
    "records": _BATCH,
    "float64": 0.0,
}


def _fits(value: object, kind: str) -> bool:
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind in {"bytes", "records"}:
        return isinstance(value, bytes)
    return kind in _BITS and isinstance(value, int)


def _is_canary(value: object) -> bool:
    return isinstance(value, str) and CANARY in value
