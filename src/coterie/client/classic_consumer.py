"""A consumer of topics in a group of the classic protocol, for asyncio.

It is to classic groups what `GroupMember` is to KIP-848's: it gets partitions, gives
them up and commits, and leaves fetching to the application. It can be a member of one
group with Java consumers, librdkafka and others, on any Kafka from 0.11 on. An example:

    async def start(partitions):
        for partition in partitions:
            readers[partition] = asyncio.create_task(read(partition))

    async def stop(partitions):
        return {each: await finish(readers.pop(each)) for each in partitions}
        # the next offset of each partition, which the member commits

    async with ClassicConsumer(
        "localhost:9092",
        group_id="billing",
        topics=["orders"],
        on_assigned=start,
        on_revoked=stop,
    ) as consumer:
        await consumer.ended()

Rebalances are eager: each revokes every partition. All members of a group need one
assignor in common; this one supports "range", as the default of Apache Kafka's
consumers does, and those that are given. When it is the leader it looks for new
partitions of the topics.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Final, Unpack

from coterie.client.classic_member import ClassicMember
from coterie.client.classic_options import (
    ClassicConsumerOptions,
    SessionOptions,
)
from coterie.client.classic_requests import JoinedMember
from coterie.client.client_assignors import (
    AssignmentOf,
    AssignorMember,
    ClientAssignor,
)
from coterie.client.member import Owned
from coterie.errors import CoterieError, MalformedFrame
from coterie.types import GroupId, MemberId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode

_PROTOCOL_TYPE: Final = "consumer"
_VERSION: Final = struct.Struct(">h")
_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 0
"""Every consumer reads it, and later versions have the same fields."""
_ELEMENTS_MAX: Final = 1_000_000
_TOPICS_CHECKED_S: Final = 300.0
"""The time between two looks for new partitions (metadata.max.age.ms)."""
_NOTHING: Final[Owned] = frozenset()


def assign_range(
    members: Mapping[MemberId, AssignorMember], topics: Mapping[TopicName, int]
) -> AssignmentOf:
    """Divide each topic among its subscribers, as Kafka's RangeAssignor does: runs of
    consecutive partitions, static members first."""
    order = sorted(members, key=lambda each: _place(each, members[each]))
    assigned: dict[MemberId, list[TopicPartition]] = {each: [] for each in order}
    for topic, count in sorted(topics.items()):
        subscribers = [each for each in order if topic in members[each].topics]
        start = 0
        for number, member_id in enumerate(subscribers):
            least, extra = divmod(count, len(subscribers))
            end = start + least + (number < extra)
            assigned[member_id] += [TopicPartition(topic, n) for n in range(start, end)]
            start = end
    return assigned


def _place(member_id: MemberId, member: AssignorMember) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member_id


RANGE: Final = ClientAssignor("range", assign_range)
"""The assignor of a `ClassicConsumer`: range."""


class ClassicConsumer(ClassicMember):
    """A consumer in a classic group; `Member` has its life."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        group_id: GroupId,
        topics: Iterable[TopicName],
        **options: Unpack[ClassicConsumerOptions],
    ) -> None:
        self._topics = sorted(set(topics))
        self._assignors = {
            each.name: each for each in options.get("assignors", (RANGE,))
        }
        self._on_partitions_assigned = options.get("on_assigned")
        self._on_partitions_revoked = options.get("on_revoked")
        self._on_partitions_lost = options.get("on_lost")
        self._rack_id = options.get("rack_id")
        self._owned: Owned = _NOTHING
        self._counts: dict[TopicName, int] | None = None
        session: SessionOptions = options  # a member ignores the others
        super().__init__(
            bootstrap,
            group_id=group_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=self._subscriptions,
            assign=self._assign_partitions,
            **session,
        )
        self._on_assigned = self._assigned
        self._on_revoked = self._revoked
        self._on_lost = self._lost

    @property
    def assignment(self) -> Owned:
        """The owned partitions, including those that `on_revoked` is revoking."""
        return self._owned

    async def subscribe(self, topics: Iterable[TopicName]) -> None:
        """Replace the topics; the group rebalances."""
        self._topics = sorted(set(topics))
        self.rejoin("the subscription has changed")

    def _begin(self) -> list[Coroutine[None, None, None]]:
        return [*super()._begin(), self._watch_topics()]

    # Callbacks of the member.

    async def _assigned(self, assignment: bytes, _: int) -> None:
        self._owned = read_assignment(assignment)
        if self._on_partitions_assigned is not None:
            await self._on_partitions_assigned(self._owned)

    async def _revoked(self) -> None:
        try:
            if self._on_partitions_revoked is not None and self._owned:
                offsets = await self._on_partitions_revoked(self._owned)
                await self._commit_last(offsets)
        finally:
            self._owned = _NOTHING

    async def _lost(self) -> None:
        owned, self._owned = self._owned, _NOTHING
        if self._on_partitions_lost is not None and owned:
            await self._on_partitions_lost(owned)

    # Protocols.

    def _subscriptions(self) -> Mapping[str, bytes]:
        owned = _by_topic(self._owned)
        return {
            name: _write(
                m.ConsumerProtocolSubscription(
                    topics=self._topics,
                    user_data=assignor.metadata or None,
                    owned_partitions=owned,
                    generation_id=self.generation,
                    rack_id=self._rack_id,
                ),
                _SUBSCRIPTION_VERSION,
            )
            for name, assignor in self._assignors.items()
        }

    async def _assign_partitions(
        self, protocol: str, members: Sequence[JoinedMember]
    ) -> Mapping[MemberId, bytes]:
        """Assign the partitions, as the leader."""
        named = {each.member_id: _assignor_member(each) for each in members}
        wanted = {topic for member in named.values() for topic in member.topics}
        self._counts = await self._partition_counts(wanted)
        assigned = self._assignors[protocol].assign(named, self._counts)
        return {
            member_id: _write(
                m.ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions)),
                _ASSIGNMENT_VERSION,
            )
            for member_id, partitions in assigned.items()
        }

    async def _partition_counts(
        self, topics: Iterable[TopicName]
    ) -> dict[TopicName, int]:
        """Return the numbers of partitions; topics that do not exist are left out."""
        cluster, wanted = self._cluster, sorted(topics)
        described = await cluster.retrying(lambda: cluster.metadata(wanted))
        return {
            topic.name: len(topic.partitions)
            for topic in described.topics
            if topic.name and not topic.error_code
        }

    async def _watch_topics(self) -> None:
        """Start a rebalance when a topic of the group has other partitions than the
        leader, which is this member, has assigned."""
        while True:
            await asyncio.sleep(_TOPICS_CHECKED_S)
            known = self._counts
            if known is None or not self.is_leader:
                continue
            with contextlib.suppress(CoterieError):
                counts = await self._partition_counts({*known, *self._topics})
                if counts != known and known is self._counts:
                    self.rejoin("partitions of topics have changed")


def read_assignment(data: bytes) -> Owned:
    """Return the partitions of an assignment of the consumer protocol; no bytes mean
    none. Raises MalformedFrame for other bytes."""
    if not data:
        return _NOTHING
    version, known = _version(data), m.ConsumerProtocolAssignment.VERSIONS.high
    read, _ = decode(
        m.ConsumerProtocolAssignment,
        min(version, known),
        data,
        _VERSION.size,
        _ELEMENTS_MAX,
    )
    return frozenset(
        TopicPartition(topic.topic, number)
        for topic in read.assigned_partitions
        for number in topic.partitions
    )


def _assignor_member(member: JoinedMember) -> AssignorMember:
    version, known = _version(member.metadata), m.ConsumerProtocolSubscription.VERSIONS
    read, _ = decode(
        m.ConsumerProtocolSubscription,
        min(version, known.high),
        member.metadata,
        _VERSION.size,
        _ELEMENTS_MAX,
    )
    return AssignorMember(
        instance_id=member.instance_id,
        rack_id=read.rack_id,
        topics=frozenset(read.topics),
        target=frozenset(
            TopicPartition(topic.topic, number)
            for topic in read.owned_partitions
            for number in topic.partitions
        ),
        version=version,
        metadata=read.user_data or b"",
    )


def _version(data: bytes) -> int:
    if len(data) < _VERSION.size or data[0] > 0x7F:
        raise MalformedFrame("the bytes are not of the consumer protocol")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def _write(
    message: m.ConsumerProtocolSubscription | m.ConsumerProtocolAssignment, version: int
) -> bytes:
    return _VERSION.pack(version) + encode(message, version)


def _by_topic(
    partitions: Iterable[TopicPartition],
) -> list[m.ConsumerProtocolTopicPartitions]:
    topics: dict[TopicName, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [
        m.ConsumerProtocolTopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]
