"""The session of a member in a classic group, without I/O.

It holds the member id and the generation, decides what the answer to a heartbeat means,
and knows until when the coordinator certainly keeps the member. Times are arguments, in
seconds.

Rules of this file: an answer proves that the coordinator had the member when it
received the request, so the session lasts until the request was *sent*, plus the
session time-out. REBALANCE_IN_PROGRESS is such an answer only in a generation in which
the member has its assignment: while a group waits for assignments, coordinators before
Kafka 2.7 answer so without prolonging the session (`GroupCoordinator.doHeartbeat`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from coterie.client.cluster import RETRIED_CODES
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode

NO_GENERATION: Final = -1
_MARGIN: Final = 0.1
"""The share of the session time-out by which a member ends its session before the
coordinator can."""
_RETRIED: Final = RETRIED_CODES | {ErrorCode.REQUEST_TIMED_OUT}
_REMOVED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    }
)


class Effect(Enum):
    """What follows from the answer to a heartbeat."""

    CONTINUE = auto()
    RETRY = auto()
    """The heartbeat has to be sent again soon."""
    REJECTED = auto()
    """The coordinator rejects the member for good."""


class ClassicSession:
    """A member's session with the coordinator.

    `generation` is that of the last JoinGroup, -1 outside the group. `is_rebalancing`
    is true when the coordinator waits for the member to join again. `prolonged` is
    called with the time at which an answered request was sent, unless the group may go
    on without the member before its session ends: a rebalance ends with its time-out,
    without members that have not joined again, whatever their heartbeats
    (`GroupMetadataManager.completeClassicGroupJoin`). A static member stays in the
    group then, but its assignment is made from outdated metadata.
    """

    def __init__(self, timeout_s: float, prolonged: Callable[[float], None]) -> None:
        self.member_id: MemberId = ""
        self.generation = NO_GENERATION
        self.is_rebalancing = False
        self._timeout_s = timeout_s * (1 - _MARGIN)
        self._prolonged = prolonged
        self._answered_s: float | None = None
        self._synced = NO_GENERATION
        self._is_joining = False

    @property
    def ends_s(self) -> float | None:
        """The time at which the session ends without another answer; None outside a
        session."""
        if self._answered_s is None:
            return None
        return self._answered_s + self._timeout_s

    def end(self) -> None:
        """Leave the session; a later answer to an earlier request does not revive
        it."""
        self.generation = self._synced = NO_GENERATION
        self.is_rebalancing = False
        self._answered_s = None

    @property
    def is_synced(self) -> bool:
        """Whether the member has its assignment of the current generation."""
        return NO_GENERATION < self.generation == self._synced

    def begin_join(self) -> None:
        """Note that a JoinGroup is about to be sent."""
        self._is_joining = True
        self.is_rebalancing = False

    def joined(self, member_id: MemberId, generation: int, sent_s: float) -> None:
        """Enter the generation of a JoinGroup response."""
        self.member_id = member_id
        self.generation = generation
        self._answered(sent_s)

    def synced(self, generation: int, sent_s: float) -> None:
        """Note the SyncGroup response of a generation. It counts only when the session
        did not end meanwhile."""
        self._is_joining = False
        if generation == self.generation:
            self._synced = generation
            self._answered(sent_s)

    def join_failed(self, code: ErrorCode | None) -> None:
        """Process the refusal of JoinGroup or SyncGroup; None for a request without a
        response."""
        if code in _REMOVED:
            self.member_id = ""
            self.end()

    def heartbeat_answered(
        self, code: ErrorCode, generation: int, sent_s: float, *, was_synced: bool
    ) -> Effect:
        """Process the response to a heartbeat that was sent in `generation`;
        `was_synced` is the value of `is_synced` at that time."""
        if generation != self.generation:
            return Effect.CONTINUE  # an answer about the past
        if code is ErrorCode.NONE:
            self._answered(sent_s)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            if was_synced:
                self._answered(sent_s, is_kept=False)
                self.is_rebalancing = not self._is_joining
        elif code is ErrorCode.ILLEGAL_GENERATION:
            # While the member joins, the next generation may have begun already.
            if not self._is_joining:
                self.end()
        elif code in _RETRIED:
            return Effect.RETRY
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            self.end()
        else:
            if code in _REMOVED:
                self.end()
            return Effect.REJECTED
        return Effect.CONTINUE

    def _answered(self, sent_s: float, *, is_kept: bool = True) -> None:
        if self._answered_s is None or sent_s > self._answered_s:
            self._answered_s = sent_s
            if is_kept:
                self._prolonged(sent_s)
