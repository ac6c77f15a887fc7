"""What members of both protocols have in common: an application that reads partitions
and commits, a process that may hang or die, and calls to the server.

Rules of this file: a process that hangs does nothing; what came meanwhile it does when
it goes on. A dead process does nothing ever again, and owns nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sim.clock import Clock, Event
from sim.network import Call, Caller, Network
from sim.topics import Part, Topics
from sim.transcript import Transcript

REQUEST_TIMEOUT_MS: Final = 5_000
BACKOFF_MS: Final = 500
RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""The refusals after which the same is asked again."""


class Watcher(Protocol):
    """Who judges what members believe."""

    def adopted(self, member: Member, parts: Collection[Part]) -> None:
        """A member begins to read partitions."""

    def ended(self, member: Member) -> None:
        """A member's process is gone."""


@dataclass(frozen=True)
class Habitat:
    """What a member lives in."""

    clock: Clock
    rng: Random
    network: Network
    topics: Topics
    transcript: Transcript
    watcher: Watcher


class Habits(NamedTuple):
    """What a member is and how it behaves, across restarts."""

    name: str
    group_id: GroupId
    topics: tuple[TopicName, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 10_000
    callback_ms: int = 200
    """How long its callbacks take, at most."""
    commit_every_ms: int = 3_000
    assignor: str | None = None
    regex: str | None = None
    """A subscription beside the topics, for a consumer of version 1 or later."""
    is_cooperative: bool = False
    version: int = 1
    computes: bool = False
    """Whether it offers to compute assignments."""


class Member:
    """One process with one member in it. See the module's docstring."""

    def __init__(self, habitat: Habitat, habits: Habits, incarnation: int) -> None:
        self.habitat = habitat
        self.habits = habits
        self.group_id = habits.group_id
        self.topics = habits.topics
        self.instance_id = habits.instance_id
        self.name = f"{habits.name}.{incarnation}"
        self.member_id = ""
        self.owned: set[Part] = set()
        """What the application reads: the member's own view."""
        self.is_alive = True
        self.is_leaving = False
        self.refusal: ErrorCode | None = None
        """What its process ended by, if by a refusal."""
        self.slow_callback_ms = 0
        """How long the next callback takes, if longer than usual."""
        self._calls: dict[Call, None] = {}
        self._backlog: list[Callable[[], object]] | None = None

    # A process.

    @property
    def is_hanging(self) -> bool:
        """Whether the process does nothing for now."""
        return self._backlog is not None

    def hang(self) -> None:
        """Do nothing, until `go_on`."""
        if self._backlog is None:
            self.note("hangs")
            self._backlog = []

    def go_on(self) -> None:
        """Do what came meanwhile, and live on."""
        backlog, self._backlog = self._backlog, None
        if backlog is not None and self.is_alive:
            self.note("goes on")
            for callback in backlog:
                self._run(callback)

    def die(self, why: str) -> None:
        """The process ends; nobody is told."""
        if self.is_alive:
            self.note("ends:", why)
            self.is_alive = False
            self.owned.clear()
            for call in tuple(self._calls):
                self.habitat.network.forget(call)
            self.habitat.watcher.ended(self)

    def refused(self, code: ErrorCode) -> None:
        """The coordinator's no that a client cannot live with."""
        self.refusal = code
        self.die(f"refused with {code.name}")

    def _run(self, callback: Callable[[], object]) -> None:
        if not self.is_alive:
            return
        if self._backlog is not None:
            self._backlog.append(callback)
        else:
            callback()

    def after(self, delay_ms: int, callback: Callable[[], object]) -> Event:
        """Do something later."""
        return self.habitat.clock.after(delay_ms, lambda: self._run(callback))

    def note(self, what: str, *args: Any) -> None:
        """Tell the transcript."""
        now_ms = self.habitat.clock.now_ms
        self.habitat.transcript.add(now_ms, self.name, what, *args)

    def call(
        self,
        request: Any,
        version: int,
        answered: Callable[[Any], object],
        failed: Callable[[], object],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Ask the server."""

        def done(then: Callable[[], object]) -> None:
            self._calls.pop(call, None)
            self._run(then)

        call = Call(
            self.name,
            self.group_id,
            request,
            Caller(version, self.habits.name),
            lambda response: done(lambda: answered(response)),
            lambda: done(failed),
        )
        self._calls[call] = None
        self.habitat.network.call(call, timeout_ms)

    # An application.

    @property
    def epoch_or_generation(self) -> int:
        """What the member's commits carry."""
        raise NotImplementedError

    @property
    def is_settled(self) -> bool:
        """Whether the member is in its group and has nothing left to do."""
        raise NotImplementedError

    def start(self) -> None:
        """Join the group."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the group, and end."""
        raise NotImplementedError

    def wanted(self, names: Iterable[TopicName]) -> set[TopicName]:
        """Of these topics those that the member is subscribed to."""
        return {name for name in names if name in self.topics}

    def callback_ms(self) -> int:
        """How long a callback of the application takes now."""
        slow_ms, self.slow_callback_ms = self.slow_callback_ms, 0
        if slow_ms:
            return slow_ms
        return self.habitat.rng.randint(0, self.habits.callback_ms)

    def adopt(self, parts: Iterable[Part]) -> None:
        """Begin to read partitions."""
        fresh = frozenset(parts) - self.owned
        if fresh:
            self.note("reads", fresh)
            self.owned |= fresh
            self.habitat.watcher.adopted(self, fresh)

    def let_go(self, parts: Iterable[Part], how: str) -> None:
        """Stop reading partitions."""
        gone = frozenset(parts) & self.owned
        if gone:
            self.note(how, gone)
            self.owned -= gone

    def commit_regularly(self) -> None:
        """Commit now and then, from now on."""
        if self.owned and not self.is_leaving:
            self.commit(self.owned)
        every_ms = self.habits.commit_every_ms
        self.after(self.habitat.rng.randint(every_ms // 2, every_ms), self._commit_on)

    def _commit_on(self) -> None:
        self.commit_regularly()

    def commit(
        self,
        parts: Collection[Part],
        then: Callable[[], object] = lambda: None,
        answered: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Commit an offset for each of these partitions, whatever comes of it."""
        request = commit_request(self, parts)
        if not request.topics:
            then()
            return

        def heard(response: Any) -> None:
            answered(response)
            then()

        version = 9 if self.habitat.rng.random() < 0.5 else 10
        if version >= 10:
            name_by_id(request, self.habitat.topics)
        self.call(request, version, heard, then)


def commit_request(member: Member, parts: Collection[Part]) -> OffsetCommitRequest:
    """A commit of new offsets; by the names that the topics have now."""
    habitat = member.habitat
    topics: dict[TopicName, OffsetCommitRequestTopic] = {}
    for topic_id, partition in sorted(parts):
        name = habitat.topics.topic_name(topic_id)
        if name is None:
            continue
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=habitat.rng.getrandbits(40),
                committed_metadata="",
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.epoch_or_generation,
        group_instance_id=member.instance_id,
        topics=[*topics.values()],
    )


def name_by_id(request: OffsetCommitRequest, topics: Topics) -> None:
    """Name the topics as version 10 does."""
    for topic in request.topics:
        topic.topic_id = topics.known[topic.name].topic_id
        topic.name = ""
