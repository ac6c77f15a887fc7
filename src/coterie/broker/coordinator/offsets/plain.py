"""Plain commits: from the rows of an OffsetCommit request to the batch of its records
and the packed offsets, in one pass.

A commit that anything may refuse is left to `commit_offsets`, which is also the
reference for the others: a property test compares records, state and responses.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from coterie.broker.coordinator.classic.timers import commit_timers
from coterie.broker.coordinator.offsets.commit import check_classic_member
from coterie.broker.coordinator.offsets.committed import PLAIN, Packed
from coterie.broker.coordinator.offsets.member_check import check_commit
from coterie.broker.coordinator.result import Context, Timer
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import LogOffset, TopicId, TopicName
from coterie.wire.plain_commit import ROW, TOPIC_IDS_SINCE, PlainCommit
from coterie.wire.record_batch import varint

RECORDS_MAX: Final = 8_192
"""The largest number of records of a batch: their offset deltas have one byte or
two."""
_DELTAS: Final = tuple(int.from_bytes(varint(delta)) for delta in range(RECORDS_MAX))
_ONE_BYTE_DELTAS: Final = 64
_INT16: Final = struct.Struct(">h")
_KEY_TYPE: Final = b"\0\1"
_VALUE_VERSION: Final = b"\0\4"
_VALUE_END: Final = struct.Struct(">BqBBB16s")
_NO_HEADERS: Final = b"\0"


class PlainResult(NamedTuple):
    """The encoded records of a commit, and the packed offsets that their replay
    stores."""

    records: bytes
    record_count: int
    offsets: Sequence[tuple[TopicName, dict[int, Packed]]]
    timers: tuple[Timer, ...]


def commit_plain(
    state: State,
    request: PlainCommit,
    context: Context,
    base_offset: LogOffset,
    first_delta: int = 0,
) -> PlainResult | None:
    """Return the result of a commit in the batch at `base_offset`, which has
    `first_delta` records already.

    Return None when the group is unknown or any check fails: the general path decides
    then.
    """
    timers: tuple[Timer, ...] = ()
    group = state.classic_groups.get(request.group_id)
    try:
        if group is not None:
            check_classic_member(group, request, transactional=False)
            timers = commit_timers(group, request.member_id, context.now_ms)
        else:
            consumer_group = state.consumer_groups.get(request.group_id)
            if consumer_group is None or check_commit(
                consumer_group, request, request.api_version
            ):
                return None
    except ApiError:
        return None
    topics = context.environment.topics
    commit = _Encoder(request.group_id, base_offset, first_delta, context.wall_ms)
    for topic in request.topics:
        name: TopicName | None = topic.name
        topic_id: TopicId | None = topic.topic_id
        if request.api_version >= TOPIC_IDS_SINCE:
            name = topics.topic_name(topic.topic_id)
        else:
            topic_id = topics.topic_id(topic.name)
        count = None if name is None else topics.partition_count(name)
        if name is None or topic_id is None or count is None:
            return None
        if not commit.add(name, topic_id, topic.rows, count):
            return None
    records = commit.records
    # With a negative limit empty metadata are too long, and null ones are not.
    if not records or context.environment.settings.offset_metadata_max_bytes < 0:
        return None
    return PlainResult(b"".join(records), len(records), commit.offsets, timers)


class _Encoder:
    """The records and the packed offsets of one commit."""

    __slots__ = (
        "_base_offset",
        "_delta",
        "_group_key",
        "_wall_ms",
        "offsets",
        "records",
    )

    def __init__(
        self, group_id: str, base_offset: LogOffset, delta: int, wall_ms: int
    ) -> None:
        name = group_id.encode()
        self._group_key = b"".join((_KEY_TYPE, _INT16.pack(len(name)), name))
        self._base_offset = base_offset
        self._delta = delta
        self._wall_ms = wall_ms
        self.records: list[bytes] = []
        self.offsets: list[tuple[TopicName, dict[int, Packed]]] = []

    def add(self, topic: TopicName, topic_id: TopicId, rows: bytes, count: int) -> bool:
        """Add the partitions of a topic; return False if any does not exist, or if
        there are too many."""
        records, wall_ms = self.records, self._wall_ms
        at = self._delta
        if at + len(rows) // ROW.size > RECORDS_MAX:
            return False
        name = topic.encode()
        key = b"".join((self._group_key, _INT16.pack(len(name)), name))
        # no metadata; one tagged field: 0, the topic id
        end = _VALUE_END.pack(1, wall_ms, 1, 0, 16, topic_id)
        key_size, end_size = len(key), len(end)
        end += _NO_HEADERS
        lead, key_length, value_length, pack = _layout(
            key_size, end_size, short_delta=at < _ONE_BYTE_DELTAS
        )
        key = key_length + key
        value = value_length + _VALUE_VERSION
        add, pack_offset = records.append, PLAIN.pack
        record_offset = self._base_offset + at
        packed: dict[int, Packed] = {}
        for index, position in ROW.iter_unpack(rows):
            if not 0 <= index < count:
                return False
            if at == _ONE_BYTE_DELTAS:
                wide = _layout(key_size, end_size, short_delta=False)
                lead, pack = wide.lead, wide.pack
            add(
                pack(
                    lead,
                    _DELTAS[at],
                    key,
                    index,
                    value,
                    position,
                    end,
                )
            )
            packed[index] = pack_offset(
                record_offset,
                wall_ms,
                -1,
                topic_id,
                index,
                position,
                1,
                0,
            )
            record_offset += 1
            at += 1
        self._delta = at
        if packed:
            self.offsets.append((topic, packed))
        return True


class _Layout(NamedTuple):
    """The constant parts of a record, and the function that packs it: the lead (length,
    attributes, timestamp delta), the offset delta, the key with its length but for the
    partition, the partition, the length of the value with its version, offset and
    leader epoch, and the end of the value with the number of headers."""

    lead: bytes
    key_length: bytes
    value_length: bytes
    pack: Callable[..., bytes]


@lru_cache(maxsize=1_024)
def _layout(key_size: int, end_size: int, *, short_delta: bool) -> _Layout:
    """Return the layout of records, by the sizes of the key's front (without the
    partition) and of the value's end (after the leader epoch)."""
    key_length = varint(key_size + 4)
    value_size = 2 + 8 + 4 + end_size
    value_length = varint(value_size)
    delta_size = 1 if short_delta else 2
    front_size = len(key_length) + key_size
    value_front_size = len(value_length) + 2
    # attributes, timestamp delta, number of headers: one byte each
    body_size = 3 + delta_size + front_size + 4 + len(value_length) + value_size
    lead = varint(body_size) + b"\0\0"
    delta = "B" if short_delta else "H"
    layout = struct.Struct(
        f">{len(lead)}s{delta}{front_size}si{value_front_size}s12s{end_size + 1}s"
    )
    assert layout.size == len(varint(body_size)) + body_size
    return _Layout(lead, key_length, value_length, layout.pack)
