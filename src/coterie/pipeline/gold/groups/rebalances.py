"""Rebalances of one group, one for each generation or group epoch; and rebalance
storms.

A rebalance of a consumer group begins with the record that bumps the group epoch. It
ends with the record after which every member is at the epoch of the target assignment
and has reconciled it (K-05). If the next rebalance begins before that, both end
together. A generation of a classic group is in the log only when it is complete: its
rebalance begins and ends with that record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coterie.pipeline.gold.groups.ownership import Ownership
from coterie.pipeline.gold.groups.record import TopicPartition
from coterie.pipeline.gold.groups.sessions import Session, Sessions

RESTART_WITHIN_US: Final = 600_000_000
"""A client that rejoins within ten minutes was restarted. That covers a rolling restart
of a slow service; longer pauses are more likely separate runs of a job."""


@dataclass(eq=False)
class Rebalance:
    """A row of rebalance_timeline: its columns as fields, times in microseconds."""

    log_offset: int
    protocol: str
    epoch: int
    prev_epoch: int | None
    cause: str
    start_ts: int
    members_before: int
    members_after: int
    epoch_gap: int
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    end_ts: int | None = None
    duration_us: int | None = None
    is_duration_exact: bool = True
    partitions_total: int = 0
    partitions_moved: int = 0
    moves_needed_min: int = 0
    unowned_us: int = 0
    storm_id: str | None = None
    storm_size: int | None = None
    owners_before: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Member ID of each partition's last owner when the rebalance began."""


class Rebalances:
    """All rebalances of one group, in the order in which they began."""

    def __init__(self, ownership: Ownership) -> None:
        self.all: list[Rebalance] = []
        self._ownership = ownership
        self._unfinished: list[Rebalance] = []

    @property
    def in_progress(self) -> bool:
        return bool(self._unfinished)

    def begin(self, rebalance: Rebalance) -> None:
        if self._unfinished:
            self._count_moves()
        rebalance.owners_before = dict(self._ownership.last_owner)
        self.all.append(rebalance)
        self._unfinished.append(rebalance)

    def add_assigned(self, assigned: Iterable[tuple[bool, int]]) -> None:
        """Attribute newly assigned partitions to the newest rebalance."""
        if self.all:
            newest = self.all[-1]
            for is_move, unowned_us in assigned:
                newest.partitions_moved += is_move
                newest.unowned_us += unowned_us

    def complete(self, now_us: int) -> None:
        """End all unfinished rebalances when every member has its target assignment."""
        if self._unfinished:
            self._count_moves()
        for rebalance in self._unfinished:
            rebalance.end_ts = now_us
            if rebalance.is_duration_exact:
                rebalance.duration_us = now_us - rebalance.start_ts
        self._unfinished.clear()

    def finish(self) -> None:
        """Count the moves of an unfinished rebalance at the end of the log."""
        if self._unfinished:
            self._count_moves()

    def _count_moves(self) -> None:
        newest = self.all[-1]
        owners = self._ownership.owners
        now = {partition: owners[partition].session.member_id for partition in owners}
        newest.partitions_total = len(now)
        newest.moves_needed_min = fewest_moves(newest.owners_before, now)

    def rows(self) -> Iterable[dict[str, Any]]:
        return map(_row, self.all)


def fewest_moves(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> int:
    """Return the smallest number of moves from one assignment to another one with the
    same number of partitions per member, whichever member has which number.

    Subscriptions are ignored: any partition may be assigned to any member.
    """
    stayed = [partition for partition in after if partition in before]
    sizes = Counter(after.values())
    could_keep = Counter(before[one] for one in stayed if before[one] in sizes)
    # The fewest partitions move when the members that can retain the most partitions
    # get the largest shares.
    largest = sorted(sizes.values(), reverse=True)
    kept = sorted(could_keep.values(), reverse=True)
    return len(stayed) - sum(map(min, kept, largest))


def restarted_members(sessions: Sessions, joined: Iterable[Session]) -> list[str]:
    """Return the IDs of the joined members that are restarts of earlier ones."""
    return [
        session.member_id
        for session in joined
        if sessions.is_restart(session, RESTART_WITHIN_US)
    ]


def membership_cause(
    joined: Sequence[str], left: Sequence[str], restarted: Sequence[str], members: int
) -> str | None:
    """Return the cause of an epoch from the members that joined and left before it;
    None without such members. `members` is the size of the group afterwards.
    """
    if not members and left:
        return "became_empty"
    # All members that joined are restarts. If more members left than joined, some did
    # not return, and the epoch has two causes.
    if joined and len(restarted) == len(joined) >= len(left):
        return "restarted"
    if joined and left:
        return "joined_and_left"
    if joined:
        return "joined"
    return "left" if left else None


def _row(rebalance: Rebalance) -> dict[str, Any]:
    row = vars(rebalance).copy()
    del row["owners_before"]
    duration_us, unowned_us = row.pop("duration_us"), row.pop("unowned_us")
    moved, needed = rebalance.partitions_moved, rebalance.moves_needed_min
    return row | {
        "duration_ms": None if duration_us is None else duration_us // 1000,
        "excess_moves": max(0, moved - needed),
        "partitions_unowned_ms": unowned_us // 1000,
    }


# A rebalance storm: so many rebalances in a short time that members hardly consume.


class StormRule(NamedTuple):
    """The definition of a rebalance storm. Times in microseconds.

    A deployment restarts a few members and ends within minutes. Five rebalances in ten
    minutes are more than that: members join and are fenced repeatedly.
    """

    rebalances: int = 5
    within_us: int = 600_000_000
    quiet_us: int = 600_000_000
    """A storm ends after this time without a new rebalance."""
    turns: int = 3
    """Members join so often, and leave so often: a group that only starts, grows,
    shrinks or stops has many rebalances, too."""


_JOINING: Final = frozenset({"joined", "joined_and_left", "restarted"})
_LEAVING: Final = frozenset({"left", "joined_and_left", "restarted"})


def mark_storms(
    group_id: str, rebalances: Sequence[Rebalance], rule: StormRule
) -> None:
    """Set `storm_id` and `storm_size` of each rebalance that is part of a storm."""
    first = 0
    while first < len(rebalances):
        last = first + rule.rebalances - 1
        if last >= len(rebalances):
            return
        if rebalances[last].start_ts - rebalances[first].start_ts > rule.within_us:
            first += 1
            continue
        end = first + 1
        while (
            end < len(rebalances)
            and rebalances[end].start_ts - rebalances[end - 1].start_ts < rule.quiet_us
        ):
            end += 1
        storm = rebalances[first:end]
        joins = sum(each.cause in _JOINING for each in storm)
        leaves = sum(each.cause in _LEAVING for each in storm)
        if min(joins, leaves) >= rule.turns:
            for rebalance in storm:
                rebalance.storm_id = f"{group_id}@{storm[0].log_offset}"
                rebalance.storm_size = len(storm)
        first = end
