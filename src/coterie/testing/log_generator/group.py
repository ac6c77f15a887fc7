"""A group in a generated log: its members, and its committed offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Record
from coterie.testing.log_generator.truth import CommittedOffset, PartitionRef
from coterie.testing.log_generator.world import Script, World
from coterie.wire.record_batch import NO_PRODUCER, Producer

SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 300_000
_VALUE_VERSION: Final = 3


@dataclass(eq=False)
class Member:
    """A client process in a group. `epoch` is the generation in a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    epoch: int = 0
    revoking: set[PartitionRef] = field(default_factory=set)
    """Partitions it has to revoke and has not acknowledged yet."""
    owned: set[PartitionRef] = field(default_factory=set)
    resends_subscription: bool = True
    """Whether its next heartbeat carries the subscription."""

    @property
    def client(self) -> tuple[str, str]:
        return self.client_id, self.host


class Group(ABC):
    """A group whose members use one protocol. The world runs the scripts of a group one
    at a time; each script ends when the group is stable again.
    """

    protocol: str

    def __init__(self, world: World, group_id: str, topics: Sequence[str]) -> None:
        self.world = world
        self.group_id = group_id
        self.topics = list(topics)
        self.members: list[Member] = []
        self.storm: int | None = None
        """The number that `truth` gives to rebalances of a rebalance storm."""
        self.is_rebalancing = False
        self.members_made = 0
        self._changed_ms = 0

    def join(
        self, count: int = 1, *, static: bool = False, again: Member | None = None
    ) -> Script:
        """Add members that join together. With `again`, the new member is a restart of
        that member's process.
        """
        new = []
        for _ in range(count):
            self.members_made += 1
            number = self.members_made
            instance = f"{self.group_id}-{number}" if static else None
            host = f"/10.0.{self.world.rng.randint(0, 9)}.{number % 250 + 1}"
            client_id = f"{self.group_id}-client-{number}"
            new.append(Member("", instance, client_id, host, tuple(self.topics)))
        if again is not None:
            new[0].client_id, new[0].host = again.client_id, again.host
        with self.record_rebalance("join", new[0]):
            yield from self._join(new)

    def leave(self, count: int = 1) -> Script:
        """Remove the newest members, which leave by a request."""
        leaving = self.members[-count:]
        with self.record_rebalance("leave", leaving[0]):
            for member in leaving:
                self._leave(member)
                self._remove_member(member, "left")
            yield from self.settle()

    def crash(self) -> Script:
        member = self.members[-1]
        self.members.remove(member)
        yield SESSION_MS
        with self.record_rebalance("crash", member):
            self.world.expire_session(self.group_id, member.member_id)
            self._remove_member(member, "crashed")
            yield from self.settle()

    @abstractmethod
    def restart(self) -> Script:
        """Stop a static member and start it again."""

    def subscribe(self, topics: Sequence[str]) -> Script:
        with self.record_rebalance("subscription_change", self.members[0]):
            self.topics = list(topics)
            for member in self.members:
                member.topics = tuple(topics)
                member.resends_subscription = True
            yield from self.settle()

    def refresh_metadata(self) -> Script:
        """Make the members react to a change of a topic."""
        with self.record_rebalance("metadata_change", self.members[0]):
            for member in self.members:
                member.resends_subscription = self.protocol == "classic"
            yield from self.settle()

    @abstractmethod
    def _join(self, new: list[Member]) -> Script: ...

    @abstractmethod
    def _leave(self, member: Member) -> None: ...

    @abstractmethod
    def settle(self) -> Script:
        """Continue until the group is stable."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The group epoch or the generation; 0 before the group exists."""

    @contextmanager
    def record_rebalance(self, cause: str, member: Member) -> Iterator[None]:
        """Record the events of the block as the rebalance of one cause."""
        truth, world = self.world.truth, self.world
        before = truth.owners(self.group_id)
        start: dict[str, Any] = {
            "group_id": self.group_id,
            "protocol": self.protocol,
            "cause": cause,
            "epoch_before": self.epoch,
            "start_ms": world.now_ms,
            "members_before": len(set(before.values())),
        }
        self._changed_ms = world.now_ms
        self.is_rebalancing = True
        yield
        self.is_rebalancing = False
        after = truth.owners(self.group_id)
        moves = sum(
            after.get(partition, owner) != owner for partition, owner in before.items()
        )
        truth.write(
            "rebalances",
            **start,
            member_id=member.member_id,
            epoch_after=self.epoch,
            end_ms=self._changed_ms,
            members_after=len(self.members),
            moves=moves,
            storm=self.storm,
        )

    def _add_member(self, member: Member) -> None:
        self.members.append(member)
        self.world.truth.start_session(
            self.group_id,
            member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.host,
            protocol=self.protocol,
            joined_ms=self.world.now_ms,
        )

    def _remove_member(self, member: Member, end: str) -> None:
        if member in self.members:
            self.members.remove(member)
        now_ms = self.world.now_ms
        self.world.truth.end_session(self.group_id, member.member_id, now_ms, end)

    def _apply_assignment(self, member: Member, owned: set[PartitionRef]) -> None:
        """Set a member's partitions. A partition stays owned until the member
        acknowledges its revocation, and when it gets the partition back before.
        """
        truth, now_ms = self.world.truth, self.world.now_ms
        for partition in sorted(owned - member.owned - member.revoking):
            truth.start_ownership(self.group_id, partition, member.member_id, now_ms)
        member.revoking = (member.revoking | member.owned) - owned
        member.owned = owned

    def _end_revoked(self, member: Member, partitions: set[PartitionRef]) -> None:
        """End the ownership of partitions whose revocation was acknowledged."""
        truth, now_ms = self.world.truth, self.world.now_ms
        for partition in sorted(partitions):
            truth.end_ownership(self.group_id, partition, now_ms, "revoked")
        member.revoking = member.revoking - partitions


class Commits:
    """The position of a group in each partition, and the commits of these positions."""

    def __init__(self, world: World, group_id: str, *, actor: str = "owner") -> None:
        self.world = world
        self.group_id = group_id
        self.actor = actor
        self.lag = world.rng.choice((0, 5, 50, 500))
        self.is_stalled = world.rng.random() < 0.05
        self.written = 0
        self._positions: dict[PartitionRef, int] = {}

    def commit(
        self,
        partitions: Iterable[PartitionRef],
        member_id: str | None,
        producer: Producer = NO_PRODUCER,
        *,
        outcome: str = "plain",
        reset: str | None = None,
    ) -> None:
        """Advance the positions and commit them as one batch.

        `reset` is "rewind" or "skip" for an offset reset by an administrator.
        """
        rows = [(each, self._advance(each, reset)) for each in partitions]
        if not rows:
            return
        records = [self._record(partition, offset) for partition, offset in rows]
        log = self.world.log_of(self.group_id)
        base = self.world.append(log, records, producer)
        producer_id = producer.producer_id if producer.producer_id >= 0 else None
        truth = self.world.truth
        for log_offset, (partition, offset) in enumerate(rows, base):
            key = self.group_id, partition.topic, partition.partition
            truth.commit_offset(key, CommittedOffset(offset, log_offset), producer_id)
            truth.write(
                "commits",
                group_id=self.group_id,
                topic=partition.topic,
                topic_id=partition.topic_id,
                partition=partition.partition,
                offset=offset,
                commit_ms=self.world.now_ms,
                log_partition=log.index,
                log_offset=log_offset,
                actor="admin" if reset else self.actor,
                member_id=member_id,
                producer_id=producer_id,
                outcome=outcome,
                reset=reset,
            )
        self.written += len(rows)

    def _record(self, partition: PartitionRef, offset: int) -> Record:
        key = OffsetCommitKey(
            group=self.group_id, topic=partition.topic, partition=partition.partition
        )
        value = OffsetCommitValue(
            offset=offset, metadata="", commit_timestamp=self.world.now_ms
        )
        return Record(key, value, _VALUE_VERSION)

    def _advance(self, partition: PartitionRef, reset: str | None) -> int:
        topic = self.world.topics.by_name[partition.topic]
        end = topic.end_offset(partition.partition, self.world.now_ms)
        position = self._positions.get(partition, 0)
        if reset == "rewind":
            position //= 2
        elif reset == "skip":
            position = end
        elif not (self.is_stalled and position):
            position = max(position, end - self.world.rng.randint(0, self.lag))
        self._positions[partition] = position
        return position
