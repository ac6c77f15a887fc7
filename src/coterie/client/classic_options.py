"""The arguments of members of classic groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from coterie.client.classic_requests import JoinedMember
from coterie.client.client_assignors import ClientAssignor
from coterie.client.member import CommonOptions, PartitionOptions
from coterie.types import MemberId

Metadata: TypeAlias = Mapping[str, bytes]
"""The metadata of a member by protocol name, the preferred protocol first."""
AssignMembers: TypeAlias = Callable[
    [str, Sequence[JoinedMember]], Awaitable[Mapping[MemberId, bytes]]
]
"""A function of the leader: from the chosen protocol and the members to assignments. A
member that the result omits gets an empty one."""


class SessionOptions(CommonOptions, total=False):
    """The optional arguments of every member of a classic group."""

    session_timeout_ms: int
    """The time without heartbeats after which the group removes the member; 45,000 by
    default."""
    heartbeat_interval_ms: int
    """The time between heartbeats; by default 3,000, or a third of the session
    time-out if that is less."""


class ClassicOptions(SessionOptions, total=False):
    """The optional arguments of `ClassicMember`."""

    on_assigned: Callable[[bytes, int], Awaitable[None]]
    """The callback for a new assignment, with its generation."""
    on_revoked: Callable[[], Awaitable[None]]
    """The callback before the member joins again, unless it is `cooperative`, and
    before it leaves."""
    on_lost: Callable[[], Awaitable[None]]
    """The callback for a lost assignment: other members may already have it."""
    on_heartbeat: Callable[[float], None]
    """The callback for each answer that prolonged the session, with the time on `clock`
    at which its request was sent. The coordinator keeps the member at least for the
    session time-out after this time."""
    cooperative: bool
    """Whether the member keeps its assignment during a rebalance."""
    clock: Callable[[], float]
    """A clock that never goes back, in seconds; `time.monotonic` by default."""


class ClassicConsumerOptions(SessionOptions, PartitionOptions, total=False):
    """The optional arguments of `ClassicConsumer`."""

    assignors: Sequence[ClientAssignor]
    """The supported assignors by preference; only range by default. Their metadata is
    the user data of the subscription."""
