"""The interface of the coordinator: the arguments of a handler, and its result.

A handler takes the state, a request and a `Context`, and returns a `Result`. It does
not change the state: the shard applies the result's changes and records, the runtime
makes the records durable, and only then sends the response and the replies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from coterie.broker.coordinator.assignors.spec import Assign
from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets
from coterie.settings import Settings
from coterie.types import (
    GroupId,
    LogOffset,
    ProducerId,
    ShareGroupConfigs,
    TopicId,
    TopicName,
)
from coterie.wire.commit import Response
from coterie.wire.schema import Message, Struct

Ticket: TypeAlias = int
"""The id of a parked request; a runtime never reuses one."""
TimerKey: TypeAlias = tuple[str, ...]
"""The key of a timer, such as ("session", group id, member id)."""


class TopicView(Protocol):
    """The topics of the catalog, read-only."""

    def partition_count(self, topic: TopicName) -> int | None:
        """Return the number of partitions of a topic; None for an unknown topic."""

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """Return the id of a topic; None for an unknown topic."""

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """Return the name of a topic; None for an unknown id."""

    def topic_names(self) -> Iterable[TopicName]:
        """Return the names of all topics, internal ones included."""

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """Return the racks of each partition of a topic; empty if unknown."""

    @property
    def version(self) -> int:
        """A number that grows with every change of topics."""


class Session(NamedTuple):
    """The session that a heartbeat refreshes when it does nothing else.

    It has the key of the session's timer and its timeout. From `steady_until_ms` on a
    heartbeat may do more.
    """

    key: TimerKey
    timeout_ms: int
    steady_until_ms: float = math.inf


class GroupConfigView(Protocol):
    """The configuration of groups: a group's own value, or else the broker's."""

    @property
    def version(self) -> int:
        """A number that grows with every change of a configuration."""

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """Return the session timeout of members of the consumer protocol."""

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """Return the heartbeat interval of members of the consumer protocol."""

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """Return the least time between two target assignments (KIP-1263)."""

    def share(self, group_id: GroupId) -> ShareGroupConfigs:
        """Return the configurations of a share group (KIP-932)."""


def may_describe_all(topic: TopicName) -> bool:
    """Return True; used as `may_describe` for timers, and for clients without ACLs."""
    return True


def never_changed() -> int:
    """Return 0; used as `wall_ahead_ms` by simulations, whose time never steps."""
    return 0


class CoordinatorEnvironment(NamedTuple):
    """The arguments of a handler that are the same for every request of a process.

    `assignors` are the configured server-side assignors by name, the default first.
    `new_id` returns the random end of a member id of the classic protocol, `new_uuid`
    the sixteen bytes of a random UUID. `wall_ahead_ms` returns the system time less
    `Context.now_ms`: it was set, or the machine was suspended.
    """

    settings: Settings
    topics: TopicView
    configs: GroupConfigView
    assignors: Mapping[str, Assign]
    new_id: Callable[[], str]
    new_uuid: Callable[[], bytes]
    wall_ahead_ms: Callable[[], int] = never_changed


class Context(NamedTuple):
    """The arguments of a handler beside the state and the request.

    `api_version` is -1 for an internal request, such as a timer's. `client_host` has
    Kafka's leading slash ("/127.0.0.1"). `may_describe` is the authorization check of
    DESCRIBE on a topic for the client.
    """

    environment: CoordinatorEnvironment
    now_ms: int
    ticket: Ticket
    api_version: int = -1
    client_id: str = ""
    client_host: str = ""
    may_describe: Callable[[TopicName], bool] = may_describe_all

    @property
    def wall_ms(self) -> int:
        """The system time: for what is stored, and compared after a restart, too.

        `now_ms` is for timeouts: it never steps.
        """
        return self.now_ms + self.environment.wall_ahead_ms()


class Record(NamedTuple):
    """A record of `__consumer_offsets`: a typed key, and a value or a tombstone.

    `value_version` is the version that the value is encoded in.
    """

    key: Message
    value: Message | None
    value_version: int = 0


class Origin(NamedTuple):
    """The position of a replayed record in the log, and its producer.

    With `producer_id` >= 0 the record is part of that producer's transaction.
    """

    log_offset: LogOffset
    timestamp_ms: int
    producer_id: ProducerId = -1
    producer_epoch: int = -1


class Timer(NamedTuple):
    """A timer to set; it replaces one with the same key, unless `unless_set` is
    true.

    When it fires, `request` is handled like any other, without a response.
    """

    key: TimerKey
    fires_at_ms: int
    request: Any
    unless_set: bool = False


class CancelTimer(NamedTuple):
    """The cancellation of a timer; it has no effect when no such timer is set."""

    key: TimerKey


class Reply(NamedTuple):
    """The response to a request that was parked earlier."""

    ticket: Ticket
    response: Struct


class Change(Protocol):
    """A change of state that the log does not hold: a rebalance in flight, a pending
    member.

    It is lost on restart by design. It is applied once, after the handler has returned
    and before the result's records are replayed.
    """

    def apply(self, state: Any) -> None:
        """Change the shard's state."""


PARKED: Final = None
"""A `Result.response` that follows later, as a `Reply` to the request's ticket."""


class Result(NamedTuple):
    """The output of a handler. It is a tuple because one is made for every request: a
    frozen dataclass takes 2.5 times as long. `records` are one atomic batch. A commit
    of offsets has `commit` in place of them."""

    response: Response | None = PARKED
    records: tuple[Record, ...] = ()
    changes: tuple[Change, ...] = ()
    timers: tuple[Timer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    commit: AcceptedOffsets | None = None


class ResultDraft:
    """The parts of a result, in the order in which a handler collects them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.replies: list[Reply] = []
        self._records: list[Record] = []
        self._timers: list[Timer | CancelTimer] = []
        self._changes: list[Change] = []

    def make(self, change: Change) -> None:
        """Make a change that the log does not hold."""
        self._changes.append(change)

    def write(self, record: Record) -> None:
        """Write a record."""
        self._records.append(record)

    def set(self, timer: Timer | CancelTimer) -> None:
        """Set or cancel a timer; a later call with the same key replaces it."""
        self._timers.append(timer)

    def result(self, response: Struct | None = PARKED) -> Result:
        """Return the collected result, with the response to the request itself."""
        return Result(
            response=response,
            records=tuple(self._records),
            changes=tuple(self._changes),
            timers=tuple(self._timers),
            replies=tuple(self.replies),
        )
