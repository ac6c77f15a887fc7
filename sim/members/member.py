"""The base class of members of both protocols: application, process, and requests. The
application consumes partitions and commits; the process may be suspended or end. A
suspended process handles its events when it resumes. A process that ended owns no
partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from coterie.types import GroupId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.clock import Clock, Event
from sim.network import Call, Caller, Calls
from sim.topics import TopicIdPartition, Topics
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
"""The errors after which a request is retried."""


class Watcher(Protocol):
    """The callbacks by which members report their partitions."""

    def partitions_adopted(
        self, member: Member, parts: Collection[TopicIdPartition]
    ) -> None:
        """Record that a member starts to consume partitions."""

    def ended(self, member: Member) -> None:
        """Record that a member's process ended."""


@dataclass(frozen=True)
class MemberEnvironment:
    """The environment of a member."""

    clock: Clock
    rng: Random
    network: Calls
    topics: Topics
    transcript: Transcript
    watcher: Watcher


class MemberConfig(NamedTuple):
    """The configuration and behaviour of a member, across restarts."""

    name: str
    group_id: GroupId
    topics: tuple[TopicName, ...]
    instance_id: str | None = None
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 10_000
    callback_ms: int = 200
    """The longest duration of its callbacks."""
    commit_every_ms: int = 3_000
    assignor: str | None = None
    regex: str | None = None
    """A regular expression beside the topics, for version 1 and later."""
    is_cooperative: bool = False
    version: int = 1
    computes: bool = False
    """Whether it offers client-side assignors."""


class Member:
    """A client process with one group member."""

    def __init__(
        self, environment: MemberEnvironment, config: MemberConfig, incarnation: int
    ) -> None:
        self.environment = environment
        self.config = config
        self.group_id = config.group_id
        self.topics = config.topics
        self.instance_id = config.instance_id
        self.name = f"{config.name}.{incarnation}"
        self.member_id = ""
        self.owned: set[TopicIdPartition] = set()
        """The partitions that the application reads, from the member's own view."""
        self.is_alive = True
        self.is_leaving = False
        self.refusal: ErrorCode | None = None
        """The error that ended its process, if any."""
        self.slow_callback_ms = 0
        """The duration of the next callback, if longer than usual."""
        self._calls: dict[Call, None] = {}
        self._backlog: list[Callable[[], object]] | None = None

    # A process.

    @property
    def is_hanging(self) -> bool:
        """Whether the process is suspended."""
        return self._backlog is not None

    def hang(self) -> None:
        """Suspend the process until `resume`."""
        if self._backlog is None:
            self.note("hangs")
            self._backlog = []

    def resume(self) -> None:
        """Resume the process, and handle the events since it was suspended."""
        backlog, self._backlog = self._backlog, None
        if backlog is not None and self.is_alive:
            self.note("goes on")
            for callback in backlog:
                self._run(callback)

    def die(self, why: str) -> None:
        """End the process without a request to the server."""
        if self.is_alive:
            self.note("ends:", why)
            self.is_alive = False
            self.owned.clear()
            for call in tuple(self._calls):
                self.environment.network.forget(call)
            self.environment.watcher.ended(self)

    def refused(self, code: ErrorCode) -> None:
        """End the process after an error that a client cannot handle."""
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
        """Schedule a callback."""
        return self.environment.clock.after(delay_ms, lambda: self._run(callback))

    def note(self, what: str, *args: Any) -> None:
        """Add a line to the transcript."""
        now_ms = self.environment.clock.now_ms
        self.environment.transcript.add(now_ms, self.name, what, *args)

    def call(
        self,
        request: Any,
        version: int,
        answered: Callable[[Any], object],
        failed: Callable[[], object],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """Send a request to the server."""

        def done(then: Callable[[], object]) -> None:
            self._calls.pop(call, None)
            self._run(then)

        call = Call(
            self.name,
            self.group_id,
            request,
            Caller(version, self.config.name),
            lambda response: done(lambda: answered(response)),
            lambda: done(failed),
        )
        self._calls[call] = None
        self.environment.network.call(call, timeout_ms)

    # An application.

    @property
    def epoch_or_generation(self) -> int:
        """The epoch or generation of the member's commits."""
        raise NotImplementedError

    @property
    def is_settled(self) -> bool:
        """Whether the member is in its group and has reconciled its assignment."""
        raise NotImplementedError

    def start(self) -> None:
        """Join the group."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leave the group, and end."""
        raise NotImplementedError

    def wanted(self, names: Iterable[TopicName]) -> set[TopicName]:
        """Return the topics that the member subscribes to."""
        return {name for name in names if name in self.topics}

    def callback_ms(self) -> int:
        """Return the duration of the next callback."""
        slow_ms, self.slow_callback_ms = self.slow_callback_ms, 0
        if slow_ms:
            return slow_ms
        return self.environment.rng.randint(0, self.config.callback_ms)

    def adopt(self, parts: Iterable[TopicIdPartition]) -> None:
        """Start to consume partitions."""
        fresh = frozenset(parts) - self.owned
        if fresh:
            self.note("reads", fresh)
            self.owned |= fresh
            self.environment.watcher.partitions_adopted(self, fresh)

    def revoke_partitions(self, parts: Iterable[TopicIdPartition], how: str) -> None:
        """Stop consuming partitions."""
        gone = frozenset(parts) & self.owned
        if gone:
            self.note(how, gone)
            self.owned -= gone

    def commit_regularly(self) -> None:
        """Start to commit at intervals."""
        if self.owned and not self.is_leaving:
            self.commit(self.owned)
        every_ms = self.config.commit_every_ms
        self.after(
            self.environment.rng.randint(every_ms // 2, every_ms), self._commit_on
        )

    def _commit_on(self) -> None:
        self.commit_regularly()

    def commit(
        self,
        parts: Collection[TopicIdPartition],
        then: Callable[[], object] = lambda: None,
        answered: Callable[[Any], object] = lambda _: None,
    ) -> None:
        """Commit an offset for each of these partitions; continue after any
        response.
        """
        request = commit_request(self, parts)
        if not request.topics:
            then()
            return

        def heard(response: Any) -> None:
            answered(response)
            then()

        version = 9 if self.environment.rng.random() < 0.5 else 10
        if version >= 10:
            name_by_id(request, self.environment.topics)
        self.call(request, version, heard, then)


def commit_request(
    member: Member, parts: Collection[TopicIdPartition]
) -> m.OffsetCommitRequest:
    """Return a commit of random offsets, with the current topic names."""
    environment = member.environment
    topics: dict[TopicName, m.OffsetCommitRequestTopic] = {}
    for topic_id, partition in sorted(parts):
        name = environment.topics.topic_name(topic_id)
        if name is None:
            continue
        topic = topics.setdefault(name, m.OffsetCommitRequestTopic(name=name))
        topic.partitions.append(
            m.OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=environment.rng.getrandbits(40),
                committed_metadata="",
            )
        )
    return m.OffsetCommitRequest(
        group_id=member.group_id,
        member_id=member.member_id,
        generation_id_or_member_epoch=member.epoch_or_generation,
        group_instance_id=member.instance_id,
        topics=[*topics.values()],
    )


def name_by_id(request: m.OffsetCommitRequest, topics: Topics) -> None:
    """Identify the topics by id, as version 10 does."""
    for topic in request.topics:
        topic.topic_id = topics.known[topic.name].topic_id
        topic.name = ""
