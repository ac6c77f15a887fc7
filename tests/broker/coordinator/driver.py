"""A test driver for a coordinator shard, with a clock, timers, a log and all responses.

`Driver(shard=Shard(settings), settings=settings)` drives a whole shard; `Driver()`
drives only the handlers of the classic protocol.
`Driver` replaces the runtime, in one thread: it sends a request to the shard, applies
the changes of the result, replays its records and appends them to the log, sets its
timers and collects responses. It also asserts invariants: a handler does not change the
state, each ticket is pending when its response is sent, and each group is consistent.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.assignors.registry import configured
from coterie.broker.coordinator.classic import (
    group_metadata,
    heartbeat,
    join,
    leave,
    lifecycle,
    sync,
)
from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.records import GroupMetadataKey
from coterie.broker.coordinator.result import (
    PARKED,
    CancelTimer,
    Context,
    CoordinatorEnvironment,
    Origin,
    Record,
    Result,
    Ticket,
    Timer,
    TimerKey,
    may_describe_all,
)
from coterie.broker.coordinator.share.state_requests import (
    SHARE_STATE_REQUESTS,
    ShareStateChanged,
)
from coterie.broker.runtime.batches import result_batch
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.codec import COMPILED, decode, encode
from coterie.wire.commit import CommitResponse, as_received
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import decode_records
from coterie.wire.schema import Message, Struct
from sim.invariants import check_classic_group


@dataclass
class ClassicState:
    """The state of a shard, reduced to the groups of the classic protocol."""

    classic_groups: dict[str, ClassicGroup] = field(default_factory=dict)


class ClassicShard:
    """A shard with only the handlers of the classic protocol."""

    MODULES: Mapping[type, ModuleType] = {
        m.JoinGroupRequest: join,
        m.SyncGroupRequest: sync,
        m.HeartbeatRequest: heartbeat,
        m.LeaveGroupRequest: leave,
    }

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = ClassicState()

    def handle(self, request: Any, context: Context) -> Result:
        if (module := self.MODULES.get(type(request))) is None:
            return lifecycle.handle_timer(self.state, request, context)
        result: Result = module.handle(self.state, request, context)
        return result

    def refuse(
        self,
        request: Any,
        context: Context,
        code: ErrorCode,
        message: str | None = None,
    ) -> Struct:
        answer: Struct = self.MODULES[type(request)].refuse(request, context, code)
        return answer

    def apply(self, result: Result) -> None:
        for change in result.changes:
            change.apply(self.state)

    def replay(self, record: Record, origin: Origin) -> None:
        assert isinstance(record.key, GroupMetadataKey)
        group_metadata.replay(self.state, record.key, record.value)  # type: ignore[arg-type]

    def after_load(self, context: Context) -> Result:
        loaded = [
            lifecycle.loaded(group, context)
            for group in self.state.classic_groups.values()
        ]
        return Result(
            changes=tuple(change for each in loaded for change in each.changes),
            timers=tuple(timer for each in loaded for timer in each.timers),
        )


@dataclass
class Topics:
    """A `TopicView` over plain mappings. A topic's id is its padded name, unless
    `ids` has another one."""

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
    """A sent request; `response` is None while it is pending."""

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
    """A shard with a simulated runtime.

    `check_purity` compares the state before and after each handler, and checks every
    group after each step. Tests of large groups turn it off to run faster.
    """

    shard: Any = None
    settings: Settings = field(default_factory=Settings)
    topics: Topics = field(default_factory=Topics)
    now_ms: int = 1_000_000
    wall_ahead_ms: int = 0
    check_purity: bool = True
    may_describe: Callable[[str], bool] = may_describe_all
    log: list[Record] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    timers: dict[TimerKey, Timer] = field(default_factory=dict)
    last_sent: Any = None
    share_state_code: ErrorCode = ErrorCode.NONE
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
        """The pending requests."""
        return list(self._waiting.values())

    def send(
        self,
        request: Any,
        *,
        version: int | None = None,
        client_id: str = "client",
        client_host: str = "/127.0.0.1",
    ) -> Sent:
        """Send a client's request to the shard, by default in its newest version."""
        if isinstance(request, Message):
            version = request.VERSIONS.high if version is None else version
            request = as_received(over_the_wire(request, version), version)
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
        """Apply a result: append and replay its records, and send its responses."""
        producer = -1, -1
        if result.commit is not None:
            producer = result.commit.producer[:2]
            result = result._replace(records=commit_records(result))
        self.results.append(result)
        self.shard.apply(result)
        for record in result.records:
            self._keep(record, Origin(len(self.log), self.now_ms, *producer))
        for timer in result.timers:
            self._set(timer)
        if result.response is not PARKED and ticket is not None:
            self._answer(ticket, result.response)
        for reply in result.replies:
            self._answer(reply.ticket, reply.response)
        if self.check_purity:
            for group in self.groups.values():
                check_classic_group(group)

    def advance(self, ms: int) -> None:
        """Advance the clock, firing timers in the order of their deadlines."""
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
        """Handle an internal request, such as the expiration of a timer.

        The state of share partitions changes at once, with the result
        `share_state_code`.
        """
        if isinstance(request, SHARE_STATE_REQUESTS):
            request = ShareStateChanged(request, self.share_state_code)
        context = self._context(next(self._tickets), -1, "", "")
        result = self._decide(request, context)
        assert result.response is PARKED
        self.settle(result)

    def reload(self, *, log: list[Record] | None = None) -> Driver:
        """Return another driver with the same clock, whose shard loaded the log.

        `log` replaces the log of this driver, for example by a compacted form.
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
        """Set the timers of the shard after the log has been replayed."""
        assert not self.timers, "timers are set only after loading"
        context = self._context(next(self._tickets), -1, "", "")
        self.settle(self.shard.after_load(context))

    def _keep(self, record: Record, origin: Origin) -> None:
        self.shard.replay(record, origin)
        self.log.append(record)
        self.origins.append(origin)

    def _decide(self, request: Any, context: Context) -> Result:
        if COMPILED or not self.check_purity:  # see tests/support/compiled.py
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
        environment = CoordinatorEnvironment(
            settings=self.settings,
            topics=self.topics,
            configs=GroupConfigs(self.settings),
            assignors=configured(self.settings.group_consumer_assignors),
            new_id=lambda: f"id{next(self._ids)}",
            new_uuid=lambda: next(self._ids).to_bytes(16),
            wall_ahead_ms=lambda: self.wall_ahead_ms,
        )
        return Context(
            environment,
            self.now_ms,
            ticket,
            version,
            client_id,
            client_host,
            self.may_describe,
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
        assert sent is not None, f"ticket {ticket} is not pending"
        if isinstance(response, Message):
            over_the_wire(response, sent.version)
        elif isinstance(response, CommitResponse):
            response = response.message()
        sent.response = response


def commit_records(result: Result) -> tuple[Record, ...]:
    """Return the records of a commit, decoded."""
    records = decode_records(result_batch(result, 0, 0))
    found = [decode_record(each.key, each.value) for each in records]
    return tuple(record for record in found if record is not None)


def fetched_group(group: m.OffsetFetchResponseGroup, version: int = 9) -> Any:
    """Return the response for one group of an OffsetFetch with decoded topics."""
    response: Any = over_the_wire(m.OffsetFetchResponse(groups=[group]), version)
    return response.groups[0]


def over_the_wire(message: Message, version: int) -> Message:
    """Encode the message in this version and return the decoded result."""
    decoded, end = decode(type(message), version, data := encode(message, version))
    assert end == len(data)
    return decoded
