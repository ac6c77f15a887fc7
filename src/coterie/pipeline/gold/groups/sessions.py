"""Members, from coming to going.

A crash looks like leaving: the log says that the coordinator took a member away, not
why (K-06). A classic member is gone when a generation comes without it, which is later
than it went; how much later, the log does not know.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

LEFT: Final = "left"
REPLACED: Final = "replaced"
GROUP_DELETED: Final = "group_deleted"
OPEN: Final = "open"
_DAY_US: Final = 24 * 3_600_000_000

Identity: TypeAlias = tuple[str | None, ...]


@dataclass(eq=False)
class Session:
    """A member's stay. What it says of itself may become known later than it."""

    member_id: str
    protocol: str
    joined_us: int
    joined_offset: int
    is_lower_bound: bool
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    seen_offset: int = -1
    """The newest record about it."""
    left_us: int | None = None
    end_reason: str = OPEN
    rebalances_caused: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it is there."""
        return self.left_us is None

    @property
    def identity(self) -> Identity | None:
        """What stays the same when its process starts anew; None for unknown."""
        if self.instance_id is not None:
            return (self.instance_id,)
        if self.client_id is None and self.client_host is None:
            return None
        return self.client_id, self.client_host


class Sessions:
    """All stays of one group, in order of their beginnings."""

    def __init__(self) -> None:
        self.all: list[Session] = []
        self._newest_end: dict[Identity, int] = {}

    def begin(self, session: Session) -> Session:
        """A member came."""
        session.seen_offset = session.joined_offset
        self.all.append(session)
        return session

    def end(self, session: Session, at_us: int, reason: str) -> None:
        """A member went; the first end counts."""
        if session.is_open:
            session.left_us = at_us
            session.end_reason = reason
            identity = session.identity
            if identity is not None:
                self._newest_end[identity] = at_us

    def is_restart(self, session: Session, within_us: int) -> bool:
        """Whether the same instance, or client id and host, went shortly before."""
        identity = session.identity
        ended_us = None if identity is None else self._newest_end.get(identity)
        return ended_us is not None and session.joined_us - ended_us <= within_us

    def rows(self) -> Iterable[dict[str, Any]]:
        """Rows of member_sessions."""
        begun: defaultdict[Identity, list[int]] = defaultdict(list)
        for each in self.all:
            identity, restarts = each.identity, 0
            if identity is not None:
                before = begun[identity]
                restarts = len(before) - bisect_left(before, each.joined_us - _DAY_US)
                before.append(each.joined_us)
            yield _row(each, restarts)


def _row(session: Session, restarts: int) -> dict[str, Any]:
    span_ms = None
    if session.left_us is not None:
        span_ms = (session.left_us - session.joined_us) // 1000
    return {
        "member_id": session.member_id,
        "instance_id": session.instance_id,
        "client_id": session.client_id,
        "client_host": session.client_host,
        "protocol": session.protocol,
        "joined_ts": session.joined_us,
        "left_ts": session.left_us,
        "session_ms": span_ms,
        "end_reason": session.end_reason,
        "rebalances_caused": session.rebalances_caused,
        "restarts_of_instance_24h": restarts,
        "is_lower_bound": session.is_lower_bound,
    }
