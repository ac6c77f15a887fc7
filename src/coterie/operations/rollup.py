"""Lag added up: of a group, or of what a topic, a member or a host has in it.

Sums are of what is known. How many partitions are not in them is said beside: those
where nothing was committed, and those that could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from coterie.errors import CoterieError
from coterie.operations.lag import GroupLag, LagStatus, PartitionLag
from coterie.types import GroupId


class By(Enum):
    """What lag is added up by; always within a group."""

    GROUP = "group"
    TOPIC = "topic"
    MEMBER = "member"
    HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """The sum of some partitions of one group."""

    group_id: GroupId
    key: str | None = None
    """The topic, member id or host; None for the whole group, and for partitions that
    no member owns."""
    client_id: str | None = None
    """Of the member, when it is added up by members."""
    topics: int = 0
    partitions: int = 0
    lagging: int = 0
    """Partitions with any lag."""
    uncommitted: int = 0
    unknown: int = 0
    lag: int | None = None
    lag_max: int | None = None
    time_lag_ms: int | None = None
    """The greatest."""
    error: CoterieError | None = None
    """The first of its partitions', or that of the group."""


def roll_up(groups: Iterable[GroupLag], by: By) -> tuple[Rollup, ...]:
    """Groups in their order; within one, keys sorted, what has none last."""
    return tuple(each for group in groups for each in _of_group(group, by))


def _of_group(group: GroupLag, by: By) -> list[Rollup]:
    if by is By.GROUP:
        return [_sum(group.group_id, None, group.rows, group.error)]
    parts: dict[str | None, list[PartitionLag]] = {}
    for row in group.rows:
        if by is not By.TOPIC or row.topic is not None:
            parts.setdefault(_key(row, by), []).append(row)
    ordered = sorted(parts, key=lambda key: (key is None, key or ""))
    return [_sum(group.group_id, key, parts[key], None) for key in ordered]


def _key(row: PartitionLag, by: By) -> str | None:
    match by:
        case By.TOPIC:
            return row.topic
        case By.MEMBER:
            return row.member_id
        case _:
            return row.host


def _sum(
    group_id: GroupId,
    key: str | None,
    parts: Iterable[PartitionLag],
    error: CoterieError | None,
) -> Rollup:
    rows = [row for row in parts if row.topic is not None]
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
