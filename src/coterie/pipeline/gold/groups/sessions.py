"""Sessions: the time of each member in the group, from joining to leaving.

The log records the removal of a member without its cause: a crash cannot be
distinguished from leaving (K-06c). The session of a classic member ends with the first
generation without it. The member left before that record, at a time that is not in the
log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

# Values of member_sessions.end_reason.
LEFT: Final = "left"
REPLACED: Final = "replaced"
GROUP_DELETED: Final = "group_deleted"
OPEN: Final = "open"
_DAY_US: Final = 24 * 3_600_000_000

Identity: TypeAlias = tuple[str | None, ...]


@dataclass(eq=False)
class Session:
    """A row of member_sessions: the time of one member in the group.

    Times are in microseconds. Client and instance may be set by a later record than the
    one that began the session.
    """

    member_id: str
    protocol: str
    joined_ts: int
    joined_offset: int
    is_lower_bound: bool
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    last_offset: int = -1
    """Log offset of the newest record about the member."""
    left_ts: int | None = None
    end_reason: str = OPEN
    rebalances_caused: int = 0

    @property
    def is_open(self) -> bool:
        return self.left_ts is None

    @property
    def identity(self) -> Identity | None:
        """Values that stay the same when the client restarts: the instance ID, else
        client ID and host. None when all are unknown.
        """
        if self.instance_id is not None:
            return (self.instance_id,)
        if self.client_id is None and self.client_host is None:
            return None
        return self.client_id, self.client_host


class Sessions:
    """All sessions of one group, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Session] = []
        self._newest_end: dict[Identity, int] = {}

    def begin(self, session: Session) -> Session:
        session.last_offset = session.joined_offset
        self.all.append(session)
        return session

    def end(self, session: Session, at_us: int, reason: str) -> None:
        """End a session. Only the first end counts: a static member that left
        temporarily and never rejoined left at that time.
        """
        if session.is_open:
            session.left_ts = at_us
            session.end_reason = reason
            identity = session.identity
            if identity is not None:
                self._newest_end[identity] = at_us

    def is_restart(self, session: Session, within_us: int) -> bool:
        """Return whether a session with the same identity ended at most `within_us`
        before this session began.
        """
        identity = session.identity
        ended_us = None if identity is None else self._newest_end.get(identity)
        return ended_us is not None and session.joined_ts - ended_us <= within_us

    def rows(self) -> Iterable[dict[str, Any]]:
        begun: defaultdict[Identity, list[int]] = defaultdict(list)
        for session in self.all:
            identity, restarts = session.identity, 0
            if identity is not None:
                before = begun[identity]
                since_us = session.joined_ts - _DAY_US
                restarts = len(before) - bisect_left(before, since_us)
                before.append(session.joined_ts)
            yield _row(session, restarts)


def _row(session: Session, restarts: int) -> dict[str, Any]:
    row = vars(session).copy()
    del row["joined_offset"], row["last_offset"], row["rack_id"]
    duration_ms = None
    if session.left_ts is not None:
        duration_ms = (session.left_ts - session.joined_ts) // 1000
    return row | {"session_ms": duration_ms, "restarts_of_instance_24h": restarts}
