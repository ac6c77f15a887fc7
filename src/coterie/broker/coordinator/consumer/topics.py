"""The metadata hash of a consumer group's topics, and the index from topics to groups.

The hashes equal Kafka's, which record 3 stores (KIP-1101,
`Utils.computeTopicHash` and `computeGroupHash`): XXH3-64 over the fields in the byte
layout of hash4j. Numbers are little-endian; a string is its UTF-16 code units followed
by their number.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from coterie.broker.coordinator.consumer.group import ResolvedRegex
from coterie.broker.coordinator.result import TopicView
from coterie.types import GroupId, TopicId, TopicName

_MAGIC: Final = b"\0"
"""The version of the layout, one byte before everything else."""
_ID: Final = struct.Struct(">qq")
_ID_BYTES: Final = struct.Struct("<qq")
_INT32: Final = struct.Struct("<i")
_SIGN: Final = 1 << 63
_REMEMBERED_MAX: Final = 16_384


def topic_hash(
    topic_id: TopicId,
    name: TopicName,
    partition_count: int,
    racks: Sequence[Collection[str]],
) -> int:
    """Return the hash of a topic, a signed int64.

    `racks` are those of each partition, in any order; empty if unknown.
    """
    assert not racks or len(racks) == partition_count, name
    if not racks:
        return _hash_without_racks(topic_id, name, partition_count)
    return _hash(
        _head(topic_id, name, partition_count)
        + b"".join(_partition(index, each) for index, each in enumerate(racks))
    )


def metadata_hash(hashes: Mapping[TopicName, int]) -> int:
    """Return the hash of several topics, a signed int64; 0 without topics."""
    if not hashes:
        return 0
    by_name = [hashes[name] for name in sorted(hashes)]
    return _hash(struct.pack(f"<{len(by_name)}q", *by_name))


@lru_cache(_REMEMBERED_MAX)
def _hash_without_racks(topic_id: TopicId, name: TopicName, count: int) -> int:
    indexes = struct.pack(f"<{count}i", *range(count))
    return _hash(_head(topic_id, name, count) + indexes)


def _head(topic_id: TopicId, name: TopicName, count: int) -> bytes:
    id_bytes = _ID_BYTES.pack(*_ID.unpack(topic_id))
    return _MAGIC + id_bytes + _string(name) + _INT32.pack(count)


def _partition(index: int, racks: Collection[str]) -> bytes:
    parts = [_INT32.pack(index)]
    for rack in sorted(racks):
        text = _string(rack)
        parts += (text[-_INT32.size :], text)
    return b"".join(parts)


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _INT32.pack(len(units) // 2)


def _hash(data: bytes) -> int:
    unsigned = xxh3_64_intdigest(data)
    return unsigned - 2 * _SIGN if unsigned & _SIGN else unsigned


class ExistingTopic(NamedTuple):
    """An existing topic; `racks` holds the racks of each partition."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    racks: Sequence[Collection[str]]


def existing_topics(
    names: Iterable[TopicName], topics: TopicView
) -> Iterator[ExistingTopic]:
    """Yield those of the topics that exist."""
    for name in names:
        topic_id = topics.topic_id(name)
        count = topics.partition_count(name)
        if topic_id is not None and count is not None:
            racks = topics.partition_racks(name)
            assert not racks or len(racks) == count, name
            yield ExistingTopic(name, topic_id, count, racks)


def hash_of_topics(names: Iterable[TopicName], topics: TopicView) -> int:
    """Return the hash of the topics that exist; 0 if none exists."""
    return metadata_hash(
        {
            name: topic_hash(topic_id, name, count, racks)
            for name, topic_id, count, racks in existing_topics(names, topics)
        }
    )


class TopicIndex:
    """The groups that subscribe to each topic, by name or regular expression.

    It counts the subscriptions of each group. Replay updates it; the log does not hold
    it.
    """

    def __init__(self) -> None:
        self._groups: dict[TopicName, Counter[GroupId]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicIndex) and self._groups == other._groups

    __hash__ = None  # type: ignore[assignment]  # an index changes

    def groups(self, topic: TopicName) -> Collection[GroupId]:
        """Return the groups that subscribe to a topic."""
        return self._groups.get(topic, Counter()).keys()

    def subscribe(
        self,
        group_id: GroupId,
        before: Iterable[TopicName],
        after: Iterable[TopicName],
    ) -> None:
        """Update the index for the topics that a member subscribes to by name; none
        before a join and after a leave."""
        self._add(group_id, after, 1)
        self._add(group_id, before, -1)

    def replace_regex_topics(
        self, group_id: GroupId, old: ResolvedRegex | None, new: ResolvedRegex | None
    ) -> None:
        """Replace the topics of a group's regular expression."""
        self._add(group_id, () if new is None else new.topics, 1)
        self._add(group_id, () if old is None else old.topics, -1)

    def _add(self, group_id: GroupId, topics: Iterable[TopicName], by: int) -> None:
        for topic in topics:
            groups = self._groups.setdefault(topic, Counter())
            groups[group_id] += by
            assert groups[group_id] >= 0, (topic, group_id)
            if not groups[group_id]:
                del groups[group_id]
            if not groups:
                del self._groups[topic]
