"""Drives a coordinator shard by hand: a clock, timers, a log and every answer.

`Driver(shard=Shard(settings), settings=settings)` drives a whole shard, `Driver()` the
classic handlers alone.
`Driver` does what the runtime does, in one thread and at once: it gives a request to
the shard, applies the result's changes, replays and keeps its records, sets its timers
and collects answers. It also checks what must always hold: a handler changes nothing,
no ticket is answered twice or for nobody, no group contradicts itself.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from coterie.catalog.group_configs import GroupConfigs
from coterie.coordinator.assignors.registry import configured
from coterie.coordinator.classic import (
    expire,
    heartbeat,
    join,
    leave,
    lifecycle,
    replay,
    sync,
)
from coterie.coordinator.classic.check import check
from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.records.group_metadata import GroupMetadataKey
from coterie.coordinator.result import (
    PARKED,
    CancelTimer,
    Context,
    Origin,
    Record,
    Result,
    Ticket,
    Timer,
    TimerKey,
)
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import TopicId, TopicName
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.leave_group import LeaveGroupRequest
from coterie.wire.messages.sync_group import SyncGroupRequest
from coterie.wire.schema import Message, Struct


@dataclass
class ClassicState:
    """As much state as the classic protocol needs."""

    classic_groups: dict[str, ClassicGroup] = field(default_factory=dict)


class ClassicShard:
    """The classic handlers alone, in place of a whole shard."""

    MODULES: Mapping[type, ModuleType] = {
        JoinGroupRequest: join,
        SyncGroupRequest: sync,
        HeartbeatRequest: heartbeat,
        LeaveGroupRequest: leave,
    }

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = ClassicState()

    def handle(self, request: Any, context: Context) -> Result:
        module = self.MODULES.get(type(request), expire)
        result: Result = module.handle(self.state, request, context)
        return result

    def refuse(
        self,
        request: Any,
        context: Context,
        code: ErrorCode,
        message: str | None = None,
    ) -> Struct:
        answer: Struct = self.MODULES[type(request)].refuse(request, code)
        return answer

    def apply(self, result: Result) -> None:
        for change in result.changes:
            change.apply(self.state)

    def replay(self, record: Record, origin: Origin) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        replay.replay(self.state, record.key, record.value)  # type: ignore[arg-type]

    def after_load(self, context: Context) -> Result:
        loaded = [
            lifecycle.loaded(group, context.now_ms, self.settings)
            for group in self.state.classic_groups.values()
        ]
        return Result(
            changes=tuple(change for each in loaded for change in each.changes),
            timers=tuple(timer for each in loaded for timer in each.timers),
        )


@dataclass
class Topics:
    """A `TopicView` over plain mappings. A topic's id is made of its name, unless
    `ids` has another."""

    counts: dict[TopicName, int] = field(default_factory=dict)
    version: int = 0
    ids: dict[TopicName, TopicId] = field(default_factory=dict)
    racks: dict[TopicName, list[list[str]]] = field(default_factory=dict)

    def partition_count(self, topic: TopicName) -> int | None:
        return self.counts.get(topic)

    def topic_id(self, topic: TopicName) -> TopicId | None:
        if topic not in self.counts:
            return None
        return self.ids.get(topic, topic.encode().ljust(16, b"\0"))

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        name = topic_id.rstrip(b"\0").decode()
        return name if name in self.counts else None

    def topic_names(self) -> Iterable[TopicName]:
        return self.counts.keys()

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        return self.racks.get(topic, ())


@dataclass(eq=False)
class Sent:
    """One request on its way; `response` is None while it is parked."""

    ticket: Ticket
    request: Any
    version: int
    response: Any = None

    @property
    def parked(self) -> bool:
        return self.response is None

    @property
    def error(self) -> int:
        assert self.response is not None, "parked"
        code: int = self.response.error_code
        return code


@dataclass
class Driver:
    """The runtime of a test.

    `check_purity` compares the state around each handler, and looks at every group
    after each step; without it, large groups are quick.
    """

    shard: Any = None
    settings: Settings = field(default_factory=Settings)
    topics: Topics = field(default_factory=Topics)
    now_ms: int = 1_000_000
    check_purity: bool = True
    log: list[Record] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    timers: dict[TimerKey, Timer] = field(default_factory=dict)
    last_sent: Any = None
    _due: list[tuple[int, int, Timer]] = field(default_factory=list)
    _waiting: dict[Ticket, Sent] = field(default_factory=dict)
    _tickets: Any = field(default_factory=lambda: itertools.count(1))
    _ids: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        if self.shard is None:
            self.shard = ClassicShard(self.settings)

    @property
    def groups(self) -> dict[str, ClassicGroup]:
        groups: dict[str, ClassicGroup] = self.shard.state.classic_groups
        return groups

    @property
    def parked(self) -> list[Sent]:
        """The requests that still wait for an answer."""
        return list(self._waiting.values())

    def send(
        self,
        request: Any,
        *,
        version: int | None = None,
        client_id: str = "client",
        client_host: str = "/127.0.0.1",
    ) -> Sent:
        """Give a client's request to the shard, in its newest version by default."""
        if isinstance(request, Message):
            version = request.VERSIONS.high if version is None else version
            request = over_the_wire(request, version)
        version = -1 if version is None else version
        sent = Sent(next(self._tickets), request, version)
        self.last_sent = request
        context = self._context(sent.ticket, version, client_id, client_host)
        self._waiting[sent.ticket] = sent
        try:
            result = self._decide(request, context)
        except ApiError as error:
            response = self.shard.refuse(request, context, error.code, error.message)
            result = Result(response=response)
        self.settle(result, sent.ticket)
        return sent

    def settle(self, result: Result, ticket: Ticket | None = None) -> None:
        """Make a result true, and let its answers go."""
        self.results.append(result)
        self.shard.apply(result)
        for record in result.records:
            producer = result.producer_id, result.producer_epoch
            self._keep(record, Origin(len(self.log), self.now_ms, *producer))
        for timer in result.timers:
            self._set(timer)
        if result.response is not PARKED and ticket is not None:
            self._answer(ticket, result.response)
        for reply in result.replies:
            self._answer(reply.ticket, reply.response)
        if self.check_purity:
            for group in self.groups.values():
                check(group)

    def advance(self, ms: int) -> None:
        """Let time pass, firing timers in their order."""
        until_ms = self.now_ms + ms
        while self._due and self._due[0][0] <= until_ms:
            fires_at_ms, _, timer = heapq.heappop(self._due)
            if self.timers.get(timer.key) is not timer:
                continue
            del self.timers[timer.key]
            self.now_ms = max(self.now_ms, fires_at_ms)
            self.fire(timer.request)
        self.now_ms = until_ms

    def fire(self, request: Any) -> None:
        """Handle a request of our own, such as a timer's."""
        context = self._context(next(self._tickets), -1, "", "")
        result = self._decide(request, context)
        assert result.response is PARKED
        self.settle(result)

    def reload(self, *, log: list[Record] | None = None) -> Driver:
        """Another driver, at the same time, whose shard loaded this one's log.

        Or a part of it, as compaction may leave it.
        """
        driver = Driver(
            shard=type(self.shard)(self.settings),
            settings=self.settings,
            topics=self.topics,
            now_ms=self.now_ms,
        )
        if log is None:
            for record, origin in zip(self.log, self.origins, strict=True):
                driver._keep(record, origin)
        else:
            for log_offset, record in enumerate(log):
                driver._keep(record, Origin(log_offset, self.now_ms))
        driver.load()
        return driver

    def load(self) -> None:
        """The log has been replayed: set the timers."""
        assert not self.timers, "timers are set after loading only"
        context = self._context(next(self._tickets), -1, "", "")
        self.settle(self.shard.after_load(context))

    def _keep(self, record: Record, origin: Origin) -> None:
        self.shard.replay(record, origin)
        self.log.append(record)
        self.origins.append(origin)

    def _decide(self, request: Any, context: Context) -> Result:
        if not self.check_purity:
            result: Result = self.shard.handle(request, context)
            return result
        before = copy.deepcopy(self.shard.state)
        try:
            decided: Result = self.shard.handle(request, context)
        finally:
            assert self.shard.state == before, "a handler changed the state"
        return decided

    def _context(
        self, ticket: Ticket, version: int, client_id: str, client_host: str
    ) -> Context:
        return Context(
            now_ms=self.now_ms,
            ticket=ticket,
            api_version=version,
            client_id=client_id,
            client_host=client_host,
            fresh_id=lambda: f"id{next(self._ids)}",
            topics=self.topics,
            settings=self.settings,
            configs=GroupConfigs(self.settings),
            assignors=configured(self.settings.group_consumer_assignors),
            fresh_uuid=lambda: next(self._ids).to_bytes(16),
        )

    def _set(self, timer: Timer | CancelTimer) -> None:
        if isinstance(timer, Timer) and timer.unless_set and timer.key in self.timers:
            return
        self.timers.pop(timer.key, None)
        if isinstance(timer, Timer):
            self.timers[timer.key] = timer
            order = next(self._tickets)
            heapq.heappush(self._due, (timer.fires_at_ms, order, timer))

    def _answer(self, ticket: Ticket, response: Any) -> None:
        sent = self._waiting.pop(ticket, None)
        assert sent is not None, f"ticket {ticket} is answered twice or is nobody's"
        if isinstance(response, Message):
            over_the_wire(response, sent.version)
        sent.response = response


def over_the_wire(message: Message, version: int) -> Message:
    """The message as it arrives: a field its version does not have is the default."""
    decoded, end = decode(type(message), version, data := encode(message, version))
    assert end == len(data)
    return decoded
