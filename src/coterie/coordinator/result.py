"""The interface of the coordinator: what goes in beside a request, what comes out.

A handler is called with a request and a `Context` and returns a `Result`. It changes
nothing: the shard applies the result's changes and records, the runtime makes the
records durable, and only then are the response and the replies let go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from coterie.coordinator.assignors.spec import Assign
from coterie.settings import Settings
from coterie.types import GroupId, LogOffset, ProducerId, TopicId, TopicName
from coterie.wire.schema import Message, Struct

Ticket: TypeAlias = int
"""Names one request that waits for its answer; never used twice by a runtime."""
TimerKey: TypeAlias = tuple[str, ...]
"""What the timer is for, as in ("session", group id, member id)."""


class TopicView(Protocol):
    """What the coordinator may know about topics: a read-only face of the catalog."""

    def partition_count(self, topic: TopicName) -> int | None:
        """How many partitions the topic has; None when there is no such topic."""

    def topic_id(self, topic: TopicName) -> TopicId | None:
        """The topic's id; None when there is no such topic."""

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """The topic's name; None when no topic has that id."""

    def topic_names(self) -> Iterable[TopicName]:
        """Every topic there is, internal ones too (E14-09)."""

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        """The racks that hold each partition of a topic; empty if unknown."""

    @property
    def version(self) -> int:
        """Another, and a greater one, after every change to topics."""


class Session(NamedTuple):
    """A member's session, of one whose heartbeats say and change nothing: the key of
    its timer, how long it lasts, and from when on a heartbeat may do something."""

    key: TimerKey
    timeout_ms: int
    steady_until_ms: float = math.inf


class GroupConfigView(Protocol):
    """What holds for one group: its own configuration, else the server's (E21-06)."""

    @property
    def version(self) -> int:
        """Another, and a greater one, after every change."""

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """How long a member of the consumer protocol may be silent."""

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """How often such a member shall be heard of."""

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """How long after a target was made the next one may be made (KIP-1263)."""


def sees_all(topic: TopicName) -> bool:
    """Who may describe every topic: we ourselves, and clients that no rule limits."""
    return True


class Context(NamedTuple):
    """What a handler may know that the request and the state do not say.

    `api_version` is the version the client spoke (-1 for a request of our own, such as
    a timer's). `client_host` has Kafka's leading slash ("/127.0.0.1"). `may_describe`
    says which topics the client may know of (E14-08). `assignors` are those on offer,
    by name, the preferred first (E12-03).
    """

    now_ms: int
    ticket: Ticket
    api_version: int
    client_id: str
    client_host: str
    fresh_id: Callable[[], str]
    topics: TopicView
    settings: Settings
    configs: GroupConfigView
    assignors: Mapping[str, Assign]
    fresh_uuid: Callable[[], bytes]
    may_describe: Callable[[TopicName], bool] = sees_all


class Record(NamedTuple):
    """One record of `__consumer_offsets`: a typed key, and a value or a tombstone.

    `value_version` is the version the value is written in (E22.2).
    """

    key: Message
    value: Message | None
    value_version: int = 0


class Origin(NamedTuple):
    """Where a replayed record stands in the log, and who wrote it.

    With `producer_id` >= 0 the record is part of that producer's transaction.
    """

    log_offset: LogOffset
    timestamp_ms: int
    producer_id: ProducerId = -1
    producer_epoch: int = -1


class Timer(NamedTuple):
    """Set a timer, replacing one of the same key, or, with `unless_set`, leaving that
    one as it is.

    When it fires, `request` is handled like any other, with no client to answer.
    """

    key: TimerKey
    fires_at_ms: int
    request: Any
    unless_set: bool = False


class CancelTimer(NamedTuple):
    """Take a timer away; nothing happens when there is none."""

    key: TimerKey


class Reply(NamedTuple):
    """The answer to a request that was parked earlier."""

    ticket: Ticket
    response: Struct


class Change(Protocol):
    """A change to what the log does not hold: a rebalance in flight, a pending member.

    Lost on restart by design. Applied once, right after the handler returns and before
    the result's records are replayed.
    """

    def apply(self, state: Any) -> None:
        """Change the shard's state."""


PARKED: Final = None
"""A `Result.response` that comes later, as a `Reply` to the request's ticket."""


class Result(NamedTuple):
    """Everything a step of the coordinator does.

    A tuple, as it is made for every request: a frozen dataclass takes 2.5 times as
    long to make.

    `records` are one atomic batch. With `producer_id` >= 0 they are written as a
    transactional batch of that producer and count only after its COMMIT marker.
    """

    response: Struct | None = PARKED
    records: tuple[Record, ...] = ()
    changes: tuple[Change, ...] = ()
    timers: tuple[Timer | CancelTimer, ...] = ()
    replies: tuple[Reply, ...] = ()
    producer_id: ProducerId = -1
    producer_epoch: int = -1
