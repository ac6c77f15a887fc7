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
import logging
import struct
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack

from coterie.client.classic_member import ClassicMember
from coterie.client.classic_options import ClassicOptions
from coterie.client.classic_requests import JoinedMember
from coterie.client.client_assignors import (
    AssignmentOf,
    AssignorMember,
    ClientAssignor,
)
from coterie.client.group_member import OnAssigned, OnLost, OnRevoked, Owned
from coterie.client.member_offsets import Offset, OffsetAndMetadata
from coterie.client.options import ClientOptions
from coterie.errors import CoterieError, MalformedFrame
from coterie.types import GroupId, MemberId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode

_LOGGER = logging.getLogger(__name__)

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


class ClassicConsumerOptions(TypedDict, total=False):
    """The optional arguments of `ClassicConsumer`."""

    on_assigned: OnAssigned
    """The callback for assigned partitions."""
    on_revoked: OnRevoked
    """The callback for partitions to revoke; it may return offsets to commit for them.
    """
    on_lost: OnLost
    """The callback for lost partitions, whose offsets cannot be committed."""
    assignors: Sequence[ClientAssignor]
    """The supported assignors by preference; only range by default. Their metadata is
    the user data of the subscription."""
    instance_id: str | None
    """The instance id of a static member (KIP-345); needs Kafka 2.3."""
    rack_id: str | None
    """The member's rack, for rack-aware assignors."""
    session_timeout_ms: int
    """The time without heartbeats after which the group removes the member; 45,000 by
    default."""
    rebalance_timeout_ms: int
    """The limit for `on_revoked` and joining again; 60,000 by default."""
    heartbeat_interval_ms: int
    """The time between heartbeats; by default 3,000, or a third of the session
    time-out if that is less."""
    client: ClientOptions
    """The options of its connections."""


class ClassicConsumer:
    """A consumer in a classic group.

    The membership ends when the coordinator rejects the member for good or a callback
    raises; `ended` and the end of the `async with` block then raise the error.
    """

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
        self._on_assigned = options.get("on_assigned")
        self._on_revoked = options.get("on_revoked")
        self._on_lost = options.get("on_lost")
        self._rack_id = options.get("rack_id")
        self._owned: Owned = _NOTHING
        self._counts: dict[TopicName, int] = {}
        self._watch: asyncio.Task[None] | None = None
        member_options: ClassicOptions = {
            "on_assigned": self._assigned,
            "on_revoked": self._revoked,
            "on_lost": self._lost,
            "instance_id": options.get("instance_id"),
            "session_timeout_ms": options.get("session_timeout_ms", 45_000),
            "rebalance_timeout_ms": options.get("rebalance_timeout_ms", 60_000),
            "client": options.get("client") or ClientOptions(),
        }
        if "heartbeat_interval_ms" in options:
            member_options["heartbeat_interval_ms"] = options["heartbeat_interval_ms"]
        self._member = ClassicMember(
            bootstrap,
            group_id=group_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=self._subscriptions,
            assign=self._assign,
            **member_options,
        )

    @property
    def group_id(self) -> GroupId:
        """The id of the group."""
        return self._member.group_id

    @property
    def member_id(self) -> MemberId:
        """The member id that the coordinator gave; empty before."""
        return self._member.member_id

    @property
    def generation(self) -> int:
        """The generation of the group that the member is in; -1 outside the group."""
        return self._member.generation

    @property
    def assignment(self) -> Owned:
        """The owned partitions, including those that `on_revoked` is revoking."""
        return self._owned

    async def start(self) -> None:
        """Join the group and return when the first assignment was given to
        `on_assigned`. Raises as `ClassicMember.start`."""
        await self._member.start()
        self._watch = asyncio.create_task(self._watch_topics())

    async def subscribe(self, topics: Iterable[TopicName]) -> None:
        """Replace the topics; the group rebalances."""
        self._topics = sorted(set(topics))
        self._member.rejoin("the subscription has changed")

    async def leave(
        self, *, for_good: bool | None = None, reason: str | None = None
    ) -> None:
        """Revoke every partition, commit, and leave the group, as `async with` does.
        The arguments and errors are those of `ClassicMember.leave`."""
        await self._stop_watching()
        await self._member.leave(for_good=for_good, reason=reason)

    async def ended(self) -> None:
        """Wait for the end of the membership; return after `leave`. Raises as
        `ClassicMember.ended`."""
        await self._member.ended()

    async def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Commit the next offset to read of each partition, or an `OffsetAndMetadata`.
        Raises as `ClassicMember.commit`."""
        await self._member.commit(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each partition; None without a commit. Raises
        as `ClassicMember.committed`."""
        return await self._member.committed(partitions)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop_watching()
        await self._member.__aexit__(kind, error, trace)

    # Callbacks of the member.

    async def _assigned(self, assignment: bytes, _: int) -> None:
        self._owned = read_assignment(assignment)
        if self._on_assigned is not None:
            await self._on_assigned(self._owned)

    async def _revoked(self) -> None:
        try:
            if self._on_revoked is not None and self._owned:
                offsets = await self._on_revoked(self._owned)
                await self._commit_last(offsets)
        finally:
            self._owned = _NOTHING

    async def _lost(self) -> None:
        owned, self._owned = self._owned, _NOTHING
        if self._on_lost is not None and owned:
            await self._on_lost(owned)

    async def _commit_last(
        self, offsets: Mapping[TopicPartition, Offset] | None
    ) -> None:
        """Commit before the partitions are given up. A failed commit does not delay the
        rebalance: the next owner reads some records again."""
        if not offsets:
            return
        try:
            await self.commit(offsets)
        except CoterieError as error:
            _LOGGER.warning(
                "group %s: the commit before revocation failed: %s",
                self.group_id,
                error,
            )

    # Protocols.

    def _subscriptions(self) -> Mapping[str, bytes]:
        owned = _by_topic(self._owned)
        return {
            name: _write(
                m.ConsumerProtocolSubscription(
                    topics=self._topics,
                    user_data=assignor.metadata or None,
                    owned_partitions=owned,
                    generation_id=self._member.generation,
                    rack_id=self._rack_id,
                ),
                _SUBSCRIPTION_VERSION,
            )
            for name, assignor in self._assignors.items()
        }

    async def _assign(
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
        cluster, wanted = self._member.cluster, sorted(topics)
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
            if not self._member.is_leader:
                continue
            with contextlib.suppress(CoterieError):
                known = self._counts
                counts = await self._partition_counts({*known, *self._topics})
                if counts != known and known is self._counts:
                    self._member.rejoin("partitions of topics have changed")

    async def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)


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
