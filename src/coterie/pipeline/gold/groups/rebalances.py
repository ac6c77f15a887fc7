"""The rebalances of one group: one for each generation or group epoch.

A rebalance of a consumer group begins with the record that bumps the group epoch and
ends with the record after which every member is at the epoch of the target and has it
(K-05). One that is overtaken by the next ends with it. A generation of a classic group
is in the log only when it is complete: it begins and ends there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coterie.pipeline.gold.groups.ownership import Gain, Ownership
from coterie.pipeline.gold.groups.record import Part
from coterie.pipeline.gold.groups.sessions import Session, Sessions

RESTART_WITHIN_US: Final = 600_000_000
"""A process that comes back within ten minutes was restarted."""


@dataclass(eq=False)
class Rebalance:
    """See rebalance_timeline for what the fields mean."""

    log_offset: int
    protocol: str
    epoch: int
    prev_epoch: int | None
    cause: str
    start_us: int
    members_before: int
    members_after: int
    epoch_gap: int
    joined: Sequence[str] = ()
    left: Sequence[str] = ()
    restarted: Sequence[str] = ()
    end_us: int | None = None
    duration_us: int | None = None
    is_duration_exact: bool = True
    partitions_total: int = 0
    partitions_moved: int = 0
    moves_needed_min: int = 0
    unowned_us: int = 0
    storm_id: str | None = None
    storm_size: int | None = None
    had: Mapping[Part, str] = field(default_factory=dict)
    """Who had each partition last when it began."""


class Rebalances:
    """All rebalances of one group, in order of their beginnings."""

    def __init__(self, ownership: Ownership) -> None:
        self.all: list[Rebalance] = []
        self._ownership = ownership
        self._lasting: list[Rebalance] = []

    @property
    def are_lasting(self) -> bool:
        """Whether one has not ended."""
        return bool(self._lasting)

    def begin(self, rebalance: Rebalance) -> None:
        """Another epoch or generation."""
        if self._lasting:
            self._measure()
        rebalance.had = dict(self._ownership.last_owner)
        self.all.append(rebalance)
        self._lasting.append(rebalance)

    def gained(self, gains: Iterable[Gain]) -> None:
        """Members got partitions: because of the newest rebalance."""
        if self.all:
            newest = self.all[-1]
            for gain in gains:
                newest.partitions_moved += gain.is_move
                newest.unowned_us += gain.unowned_us

    def settle(self, now_us: int) -> None:
        """All members have what they are to have."""
        if self._lasting:
            self._measure()
        for each in self._lasting:
            each.end_us = now_us
            if each.is_duration_exact:
                each.duration_us = now_us - each.start_us
        self._lasting.clear()

    def finish(self) -> None:
        """The log ends here."""
        if self._lasting:
            self._measure()

    def _measure(self) -> None:
        newest = self.all[-1]
        owners = self._ownership.owners
        now = {part: owners[part].session.member_id for part in owners}
        newest.partitions_total = len(now)
        newest.moves_needed_min = fewest_moves(newest.had, now)

    def rows(self) -> Iterable[dict[str, Any]]:
        """Rows of rebalance_timeline."""
        return map(_row, self.all)


def fewest_moves(before: Mapping[Part, str], after: Mapping[Part, str]) -> int:
    """How few partitions can move so that the members own as many as they do now, in
    any order; who may own what is left aside."""
    stayed = [part for part in after if part in before]
    sizes = Counter(after.values())
    could_keep = Counter(before[part] for part in stayed if before[part] in sizes)
    largest = sorted(sizes.values(), reverse=True)
    kept = sorted(could_keep.values(), reverse=True)
    return len(stayed) - sum(map(min, kept, largest))


def restarted(sessions: Sessions, came: Iterable[Session]) -> list[str]:
    """Those who came back."""
    return [
        each.member_id for each in came if sessions.is_restart(each, RESTART_WITHIN_US)
    ]


def cause_of_change(
    came: Sequence[str], went: Sequence[str], back: Sequence[str], members: int
) -> str | None:
    """What the members' coming and going makes of an epoch; None if nobody did."""
    if not members and went:
        return "became_empty"
    if came and len(back) == len(came) >= len(went):
        return "restarted"
    if came and went:
        return "joined_and_left"
    if came:
        return "joined"
    return "left" if went else None


def _row(rebalance: Rebalance) -> dict[str, Any]:
    moved, needed = rebalance.partitions_moved, rebalance.moves_needed_min
    span_us = rebalance.duration_us
    return {
        "log_offset": rebalance.log_offset,
        "protocol": rebalance.protocol,
        "epoch": rebalance.epoch,
        "prev_epoch": rebalance.prev_epoch,
        "cause": rebalance.cause,
        "start_ts": rebalance.start_us,
        "end_ts": rebalance.end_us,
        "duration_ms": None if span_us is None else span_us // 1000,
        "is_duration_exact": rebalance.is_duration_exact,
        "members_before": rebalance.members_before,
        "members_after": rebalance.members_after,
        "joined": list(rebalance.joined),
        "left": list(rebalance.left),
        "restarted": list(rebalance.restarted),
        "partitions_total": rebalance.partitions_total,
        "partitions_moved": moved,
        "moves_needed_min": needed,
        "excess_moves": max(0, moved - needed),
        "partitions_unowned_ms": rebalance.unowned_us // 1000,
        "storm_id": rebalance.storm_id,
        "storm_size": rebalance.storm_size,
        "epoch_gap": rebalance.epoch_gap,
    }
