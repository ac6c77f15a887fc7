"""How far groups are behind: what they committed, beside what the logs hold.

    report = await group_lag(admin, ["orders", "billing"])
    for row in report.rows:
        print(row.group_id, row.topic, row.partition, row.lag, row.lag_status)

Rules of this file: commits are read before the ends of the logs, so that a group which
commits meanwhile is never ahead of an end that is older; each log is asked once,
however many groups read it; what one group committed never shows in the row of
another; what is not known is None, never 0; and what failed is an error of its own row
or group, beside all the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from coterie.client.admin.group_values import GroupDescription, MemberDescription
from coterie.client.admin.offset_values import (
    EARLIEST,
    LATEST,
    CommittedOffset,
    GroupOffsets,
    LogOffsetFound,
)
from coterie.client.admin.results import Results
from coterie.errors import CoterieError
from coterie.operations.admin import GroupReader, Progress, RecordReader
from coterie.operations.time_lag import Behind, TimeLag, TimeLagMethod, time_lags
from coterie.types import GroupId, LogOffset, MemberId, TopicName, TopicPartition


class LagStatus(Enum):
    """What the lag of a partition says."""

    NORMAL = "normal"
    NO_COMMIT = "no_commit"
    """The group committed nothing there: where it starts is its members' affair."""
    BELOW_START = "below_start"
    """What it committed is deleted already; the lag counts what is still there."""
    BEYOND_END = "beyond_end"
    """It committed more than the log holds, as after a topic was made anew."""
    UNKNOWN = "unknown"
    """The commit or the end of the log could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """One partition in one group. A member that owns nothing has a row of its own,
    without topic and partition (A-72)."""

    group_id: GroupId
    topic: TopicName | None = None
    partition: int | None = None
    committed: CommittedOffset | None = None
    log_start: LogOffset | None = None
    log_end: LogOffset | None = None
    """With `committed_only`, the last stable offset."""
    lag: int | None = None
    """How many offsets there are to read, from where the log still has any."""
    lag_raw: int | None = None
    """End minus commit, as it is; Apache's tool prints this one."""
    lag_status: LagStatus = LagStatus.UNKNOWN
    time_lag_ms: int | None = None
    time_lag_method: TimeLagMethod | None = None
    """None when nobody asked."""
    time_lag_error_ms: int | None = None
    member_id: MemberId | None = None
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    error: CoterieError | None = None

    @property
    def margin(self) -> int | None:
        """How many offsets lie between the start of the log and the commit: what may
        be deleted before the group misses any."""
        if self.committed is None or self.log_start is None:
            return None
        return self.committed.offset - self.log_start

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition by name."""
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """One group. `error` is why it could not be described, or its commits not read;
    its rows are what is known nevertheless."""

    group_id: GroupId
    description: GroupDescription | None = None
    rows: tuple[PartitionLag, ...] = ()
    """Of owned partitions first, of the member that owns most before others; then of
    partitions that have a commit and no owner (A-70)."""
    error: CoterieError | None = None

    @property
    def total(self) -> int | None:
        """The sum of what is known of its lag; None when nothing is."""
        known = [row.lag for row in self.rows if row.lag is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class GroupLagReport:
    """Groups in the order they were asked for."""

    groups: tuple[GroupLag, ...]

    @property
    def rows(self) -> tuple[PartitionLag, ...]:
        """The rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)


_STAGES: Final = 4


async def group_lag(
    admin: GroupReader,
    group_ids: Iterable[GroupId],
    *,
    topics: Collection[TopicName] | None = None,
    committed_only: bool = False,
    progress: Progress | None = None,
) -> GroupLagReport:
    """How far each group is behind, on all its partitions or those of some topics.

    With `committed_only`, a log ends where its first open transaction starts. How far
    in milliseconds is for `with_time_lags` to add.
    """
    wanted = tuple(dict.fromkeys(group_ids))
    stages = _Stages(progress, len(wanted))
    described, commits = await asyncio.gather(
        admin.describe_groups(wanted, progress=stages.stage(0)),
        admin.list_groups_offsets(
            dict.fromkeys(wanted, None), progress=stages.stage(1)
        ),
    )
    # Only now the ends: a commit made after this is not seen, one before is below them.
    asked = _topics_only(_partitions(described, commits), topics)
    starts, ends = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(asked, EARLIEST), progress=stages.stage(2)),
        admin.list_offsets(
            dict.fromkeys(asked, LATEST),
            committed_only=committed_only,
            progress=stages.stage(3),
        ),
    )
    logs = _Logs(starts, ends)
    return GroupLagReport(
        tuple(_group(each, described, commits, logs, asked) for each in wanted)
    )


def _partitions(
    described: Results[GroupId, GroupDescription],
    commits: Results[GroupId, GroupOffsets],
) -> Iterator[TopicPartition]:
    for description in described.values.values():
        for member in description.members:
            yield from member.assignment
    for group in commits.values.values():
        yield from group.offsets
        yield from group.errors


def _topics_only(
    partitions: Iterable[TopicPartition], topics: Collection[TopicName] | None
) -> dict[TopicPartition, None]:
    """Each partition once, in order."""
    seen = {each for each in partitions if topics is None or each.topic in topics}
    return dict.fromkeys(sorted(seen))


@dataclass(frozen=True, slots=True)
class _Logs:
    """Where logs start and end."""

    starts: Results[TopicPartition, LogOffsetFound]
    ends: Results[TopicPartition, LogOffsetFound]

    def start(self, partition: TopicPartition) -> LogOffset | None:
        return _offset(self.starts.values.get(partition))

    def end(self, partition: TopicPartition) -> LogOffset | None:
        return _offset(self.ends.values.get(partition))

    def error(self, partition: TopicPartition) -> CoterieError | None:
        return self.ends.errors.get(partition) or self.starts.errors.get(partition)


def _offset(found: LogOffsetFound | None) -> LogOffset | None:
    return None if found is None or found.offset < 0 else found.offset


def _group(
    group_id: GroupId,
    described: Results[GroupId, GroupDescription],
    commits: Results[GroupId, GroupOffsets],
    logs: _Logs,
    asked: Mapping[TopicPartition, None],
) -> GroupLag:
    description = described.values.get(group_id)
    read = commits.values.get(group_id, GroupOffsets({}))
    unread = commits.errors.get(group_id)

    def row(partition: TopicPartition, owner: MemberDescription | None) -> PartitionLag:
        start, end = logs.start(partition), logs.end(partition)
        committed = read.offsets.get(partition)
        is_known = unread is None and partition not in read.errors
        status, lag, raw = _measure(committed, start, end) if is_known else _UNKNOWN
        return PartitionLag(
            group_id=group_id,
            topic=partition.topic,
            partition=partition.partition,
            committed=committed,
            log_start=start,
            log_end=end,
            lag=lag,
            lag_raw=raw,
            lag_status=status,
            member_id=owner.member_id if owner else None,
            instance_id=owner.instance_id if owner else None,
            client_id=owner.client_id if owner else None,
            host=owner.host if owner else None,
            error=unread or read.errors.get(partition) or logs.error(partition),
        )

    rows: list[PartitionLag] = []
    owned: set[TopicPartition] = set()
    for member in _busiest_first(description):
        owned.update(member.assignment)
        rows += (row(each, member) for each in member.assignment if each in asked)
        if not member.assignment:
            rows.append(_idle(group_id, member))
    committed = sorted({*read.offsets, *read.errors} - owned)
    rows += (row(each, None) for each in committed if each in asked)
    return GroupLag(
        group_id=group_id,
        description=description,
        rows=tuple(rows),
        error=described.errors.get(group_id) or unread,
    )


def _busiest_first(description: GroupDescription | None) -> list[MemberDescription]:
    members = () if description is None else description.members
    return sorted(members, key=lambda each: (-len(each.assignment), each.member_id))


def _idle(group_id: GroupId, member: MemberDescription) -> PartitionLag:
    """The row of a member that owns nothing (A-72)."""
    return PartitionLag(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.host,
    )


class _Measured(NamedTuple):
    status: LagStatus
    lag: int | None = None
    raw: int | None = None


_UNKNOWN: Final = _Measured(LagStatus.UNKNOWN)


def _measure(
    committed: CommittedOffset | None, start: LogOffset | None, end: LogOffset | None
) -> _Measured:
    if committed is None:
        return _Measured(LagStatus.NO_COMMIT)
    if end is None:
        return _UNKNOWN
    raw = end - committed.offset
    if raw < 0:
        return _Measured(LagStatus.BEYOND_END, 0, raw)
    if start is not None and committed.offset < start:
        return _Measured(LagStatus.BELOW_START, end - start, raw)
    return _Measured(LagStatus.NORMAL, raw, raw)


async def with_time_lags(
    admin: RecordReader, report: GroupLagReport, *, now_ms: int
) -> GroupLagReport:
    """The report with how many milliseconds before `now_ms` the first record was
    written that a group has not read (`time_lag`).

    Rows of several groups at the same place of a log are looked up once.
    """
    behind = {place for row in report.rows if (place := _behind(row)) is not None}
    found = await time_lags(admin, sorted(behind), now_ms=now_ms)
    return GroupLagReport(
        tuple(
            replace(group, rows=tuple(_timed(row, found) for row in group.rows))
            for group in report.groups
        )
    )


def _behind(row: PartitionLag) -> Behind | None:
    partition = row.topic_partition
    if partition is None or row.lag is None or row.log_end is None:
        return None
    start = row.log_end - row.lag
    return Behind(partition=partition, next_offset=start, end=row.log_end)


def _timed(row: PartitionLag, found: Mapping[Behind, TimeLag]) -> PartitionLag:
    if row.topic is None:
        return row
    place = _behind(row)
    time_lag = TimeLag() if place is None else found[place]
    return replace(
        row,
        time_lag_ms=time_lag.ms,
        time_lag_method=time_lag.method,
        time_lag_error_ms=time_lag.error_ms,
    )


class _Stages:
    """One count for stages of different sizes: each is as much work as any other."""

    def __init__(self, progress: Progress | None, size: int) -> None:
        self._progress = progress
        self._size = max(size, 1)
        self._done = [0] * _STAGES

    def stage(self, number: int) -> Progress | None:
        if (progress := self._progress) is None:
            return None

        def told(done: int, of: int) -> None:
            self._done[number] = done * self._size // max(of, 1)
            progress(sum(self._done), self._size * _STAGES)

        return told
