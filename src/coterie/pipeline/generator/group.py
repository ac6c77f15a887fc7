"""A group of a generated world: its members, and what its commits look like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.result import Record
from coterie.pipeline.generator.truth import Committed, Part
from coterie.pipeline.generator.world import Script, World
from coterie.wire.record_batch import NOBODY, Producer

if TYPE_CHECKING:
    from collections.abc import Iterator

SESSION_MS: Final = 45_000
REBALANCE_MS: Final = 300_000
_VALUE_VERSION: Final = 3


@dataclass(eq=False)
class Member:
    """One process in a group. `epoch` is the generation of a classic one."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    epoch: int = 0
    revoking: set[Part] = field(default_factory=set)
    """What it was told to give up and has not said that it did."""
    owned: set[Part] = field(default_factory=set)
    has_news: bool = True

    @property
    def client(self) -> tuple[str, str]:
        """Client id and host."""
        return self.client_id, self.host


class Group(ABC):
    """A group with members of one protocol. Its scripts are run by a world, one at a
    time."""

    protocol: str

    def __init__(self, world: World, group_id: str, topics: Sequence[str]) -> None:
        self.world = world
        self.group_id = group_id
        self.topics = list(topics)
        self.members: list[Member] = []
        self.storm: int | None = None
        self.is_busy = False
        self.made = 0
        self._changed_ms = 0

    # What happens to a group; each ends when it has settled.

    def join(
        self, count: int = 1, *, static: bool = False, again: Member | None = None
    ) -> Script:
        """New members come, all at once; or a process comes again that was one."""
        new = [self._make_member(static=static) for _ in range(count)]
        if again is not None:
            new[0].client_id, new[0].host = again.client_id, again.host
        with self.told("join", new[0]):
            yield from self._join(new)

    def leave(self, count: int = 1) -> Script:
        """The newest members say goodbye."""
        gone = self.members[-count:]
        with self.told("leave", gone[0]):
            for member in gone:
                self._leave(member)
                self._forget(member, "left")
            yield from self._settle()

    def crash(self) -> Script:
        """The newest member is not heard of any more, for its session timeout."""
        member = self.members[-1]
        self.members.remove(member)
        yield SESSION_MS
        with self.told("crash", member):
            self.world.expire_session(self.group_id, member.member_id)
            self._forget(member, "crashed")
            yield from self._settle()

    @abstractmethod
    def restart(self) -> Script:
        """A static member ends and comes back."""

    def subscribe(self, topics: Sequence[str]) -> Script:
        """All members want other topics."""
        with self.told("subscription_change", self.members[0]):
            self.topics = list(topics)
            for member in self.members:
                member.topics = tuple(topics)
                member.has_news = True
            yield from self._settle()

    def see_topics(self) -> Script:
        """The members see that a topic is not as it was."""
        with self.told("metadata_change", self.members[0]):
            for member in self.members:
                member.has_news = self.protocol == "classic"
            yield from self._settle()

    @abstractmethod
    def _join(self, new: list[Member]) -> Script: ...

    @abstractmethod
    def _leave(self, member: Member) -> None: ...

    @abstractmethod
    def _settle(self) -> Script: ...

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The group epoch or the generation; 0 before there is a group."""

    # What is told of it.

    @contextmanager
    def told(self, cause: str, member: Member) -> Iterator[None]:
        """Tell of what happens within as of one cause."""
        truth, world = self.world.truth, self.world
        before = truth.owners(self.group_id)
        members_before = len(set(before.values()))
        about: dict[str, Any] = {
            "group_id": self.group_id,
            "protocol": self.protocol,
            "cause": cause,
            "epoch_before": self.epoch,
            "start_ms": world.now_ms,
            "members_before": members_before,
        }
        self._changed_ms = world.now_ms
        self.is_busy = True
        yield
        self.is_busy = False
        after = truth.owners(self.group_id)
        moves = sum(after.get(part, who) != who for part, who in before.items())
        truth.write(
            "rebalances",
            **about,
            member_id=member.member_id,
            epoch_after=self.epoch,
            end_ms=self._changed_ms,
            members_after=len(self.members),
            moves=moves,
            storm=self.storm,
        )

    def _make_member(self, *, static: bool) -> Member:
        self.made += 1
        number = self.made
        instance = f"{self.group_id}-{number}" if static else None
        host = f"/10.0.{self.world.rng.randint(0, 9)}.{number % 250 + 1}"
        client_id = f"{self.group_id}-client-{number}"
        return Member("", instance, client_id, host, tuple(self.topics))

    def _has_joined(self, member: Member) -> None:
        self.members.append(member)
        self.world.truth.joined(
            self.group_id,
            member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.host,
            protocol=self.protocol,
            joined_ms=self.world.now_ms,
        )

    def _forget(self, member: Member, end: str) -> None:
        if member in self.members:
            self.members.remove(member)
        self.world.truth.left(self.group_id, member.member_id, self.world.now_ms, end)

    def _owns(self, member: Member, owned: set[Part]) -> None:
        """A member was told what it owns; what it gives up it still has."""
        truth, now_ms = self.world.truth, self.world.now_ms
        member.revoking |= member.owned - owned
        for part in sorted(owned - member.owned):
            truth.given(self.group_id, part, member.member_id, now_ms)
        member.owned = owned

    def _gives_up(self, member: Member) -> None:
        truth, now_ms = self.world.truth, self.world.now_ms
        for part in sorted(member.revoking):
            truth.released(self.group_id, part, now_ms, "revoked")
        member.revoking = set()


class Commits:
    """Where a group is on each partition, and how it commits that."""

    def __init__(self, world: World, group_id: str, *, actor: str = "owner") -> None:
        self.world = world
        self.group_id = group_id
        self.actor = actor
        self.lag = world.rng.choice((0, 5, 50, 500))
        self.is_stalled = world.rng.random() < 0.05
        self.written = 0
        self._positions: dict[Part, int] = {}

    def commit(
        self,
        parts: Iterable[Part],
        member_id: str | None,
        producer: Producer = NOBODY,
        *,
        outcome: str = "plain",
        reset: str | None = None,
    ) -> None:
        """Write what was read since the last time."""
        rows = [(part, self._advance(part, reset)) for part in parts]
        if not rows:
            return
        records = [self._record(part, offset) for part, offset in rows]
        log = self.world.part_of(self.group_id)
        base = self.world.keep(log, records, producer)
        producer_id = producer.producer_id if producer.producer_id >= 0 else None
        truth = self.world.truth
        for log_offset, (part, offset) in enumerate(rows, base):
            key = self.group_id, part.topic, part.partition
            truth.committed(key, Committed(offset, log_offset), producer_id)
            truth.write(
                "commits",
                group_id=self.group_id,
                topic=part.topic,
                topic_id=part.topic_id,
                partition=part.partition,
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

    def _record(self, part: Part, offset: int) -> Record:
        key = OffsetCommitKey(
            group=self.group_id, topic=part.topic, partition=part.partition
        )
        value = OffsetCommitValue(
            offset=offset, metadata="", commit_timestamp=self.world.now_ms
        )
        return Record(key, value, _VALUE_VERSION)

    def _advance(self, part: Part, reset: str | None) -> int:
        topic = self.world.topics.known[part.topic]
        end = topic.end_offset(part.partition, self.world.now_ms)
        at = self._positions.get(part, 0)
        if reset == "rewind":
            at //= 2
        elif reset == "skip":
            at = end
        elif not (self.is_stalled and at):
            at = max(at, end - self.world.rng.randint(0, self.lag))
        self._positions[part] = at
        return at
