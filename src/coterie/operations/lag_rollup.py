"""Sums of lag by group, topic, member or host, and rates between two reports.

Sums cover known lags, and each partition once, though two members may own it during a
rebalance. Partitions without a commit and those that could not be read are counted
separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from coterie.errors import CoterieError
from coterie.operations.lag import GroupLag, LagStatus, PartitionLag, each_partition
from coterie.types import GroupId, LogOffset, TopicPartition


class RollupBy(Enum):
    """The key of a sum, within a group."""

    GROUP = "group"
    TOPIC = "topic"
    MEMBER = "member"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """The sums over some partitions of one group."""

    group_id: GroupId
    key: str | None = None
    """The topic, member id or host; None for the whole group, and for partitions
    without an owner."""
    client_id: str | None = None
    """The client id of the member, for sums by member."""
    topics: int = 0
    partitions: int = 0
    lagging: int = 0
    """The number of partitions with a lag above 0."""
    uncommitted: int = 0
    unknown: int = 0
    lag: int | None = None
    lag_max: int | None = None
    time_lag_ms: int | None = None
    """The maximum."""
    error: CoterieError | None = None
    """The error of the group, or the first one of its partitions."""


def roll_up(groups: Iterable[GroupLag], by: RollupBy) -> tuple[Rollup, ...]:
    """Return the sums of groups in order; within a group sorted by key, None last."""
    return tuple(each for group in groups for each in _of_group(group, by))


def _of_group(group: GroupLag, by: RollupBy) -> list[Rollup]:
    if by is RollupBy.GROUP:
        return [_sum(group.group_id, None, group.rows, group.error)]
    parts: dict[str | None, list[PartitionLag]] = {}
    for row in group.rows:
        if by is not RollupBy.TOPIC or row.topic is not None:
            parts.setdefault(_key(row, by), []).append(row)
    ordered = sorted(parts, key=lambda key: (key is None, key or ""))
    return [_sum(group.group_id, key, parts[key], None) for key in ordered]


def _key(row: PartitionLag, by: RollupBy) -> str | None:
    match by:
        case RollupBy.TOPIC:
            return row.topic
        case RollupBy.MEMBER:
            return row.member_id
        case _:
            return row.host


def _sum(
    group_id: GroupId,
    key: str | None,
    parts: Iterable[PartitionLag],
    error: CoterieError | None,
) -> Rollup:
    rows = each_partition(parts).values()
    lags = [row.lag for row in rows if row.lag is not None]
    times = [row.time_lag_ms for row in rows if row.time_lag_ms is not None]
    return Rollup(
        group_id=group_id,
        key=key,
        client_id=next((row.client_id for row in parts), None),
        topics=len({row.topic for row in rows}),
        partitions=len(rows),
        lagging=sum(1 for each in lags if each > 0),
        uncommitted=sum(1 for row in rows if row.lag_status is LagStatus.NO_COMMIT),
        unknown=sum(1 for row in rows if row.lag_status is LagStatus.UNKNOWN),
        lag=sum(lags) if lags else None,
        lag_max=max(lags, default=None),
        time_lag_ms=max(times, default=None),
        error=error or next((row.error for row in rows if row.error), None),
    )


@dataclass(frozen=True, slots=True)
class ConsumptionRate:
    """Offsets per second over the partitions whose commit and log end were known in
    both reports. Partitions whose commit moved back, as after a reset, are left out."""

    read_per_s: float | None = None
    written_per_s: float | None = None
    catch_up_ms: int | None = None
    """The time to catch up at this rate (ms); None when the lag does not shrink."""


def consumption_rate(
    before: GroupLag, after: GroupLag, elapsed_ms: int
) -> ConsumptionRate:
    """Return the rates of a group between two reports."""
    old = dict(_places(before))
    moved = [
        (committed - old[at][0], end - old[at][1])
        for at, (committed, end) in _places(after)
        if at in old
    ]
    moved = [(read, written) for read, written in moved if read >= 0 and written >= 0]
    if not moved or elapsed_ms <= 0:
        return ConsumptionRate()
    read_per_s = sum(read for read, _ in moved) * 1000 / elapsed_ms
    written_per_s = sum(written for _, written in moved) * 1000 / elapsed_ms
    return ConsumptionRate(
        read_per_s, written_per_s, _catch_up_ms(after, read_per_s - written_per_s)
    )


def _places(
    group: GroupLag,
) -> Iterator[tuple[TopicPartition, tuple[LogOffset, LogOffset]]]:
    for at, row in each_partition(group.rows).items():
        if row.committed is not None and row.log_end is not None:
            yield at, (row.committed.offset, row.log_end)


def _catch_up_ms(group: GroupLag, gained_per_s: float) -> int | None:
    if group.total == 0:
        return 0
    if not group.total or gained_per_s <= 0:
        return None
    return round(group.total / gained_per_s * 1000)
