"""Consumer lag: committed offsets compared with the log ends.

    report = await group_lag(admin, ["orders", "billing"])
    for row in report.rows:
        print(row.group_id, row.topic, row.partition, row.lag, row.lag_status)

A share group has a start offset in each partition instead of a committed one, and its
lag is the broker's: records may be acknowledged in any order (KIP-932, KIP-1226).

Rules of this file: committed offsets are read before log ends; each log is read once,
however many groups commit to it. An unknown value is None, never 0. An error belongs to
its row or group and does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from coterie import client
from coterie.errors import CoterieError, code_of
from coterie.operations.time_lag import LagPosition, TimeLag, TimeLagMethod, time_lags
from coterie.types import GroupId, LogOffset, MemberId, TopicName, TopicPartition


class LagStatus(Enum):
    """The status of a partition's lag."""

    NORMAL = "normal"
    NO_COMMIT = "no_commit"
    """The group has no committed offset there."""
    BELOW_START = "below_start"
    """The log start is beyond the committed offset; the lag counts from the start."""
    BEYOND_END = "beyond_end"
    """The committed offset is beyond the log end, as after a topic was recreated."""
    UNKNOWN = "unknown"
    """The committed offset or the log end could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of one group on one partition. A member without assigned partitions has a
    separate row, without topic and partition (A-72).
    """

    group_id: GroupId
    topic: TopicName | None = None
    partition: int | None = None
    committed: client.CommittedOffset | None = None
    """In a share group, the start offset: the first record not acknowledged yet."""
    log_start: LogOffset | None = None
    log_end: LogOffset | None = None
    """With `committed_only`, the last stable offset."""
    lag: int | None = None
    """The offsets still to be read, from the log start if the commit is below it; in a
    share group, the records not acknowledged yet, None if the broker does not know."""
    lag_raw: int | None = None
    """Log end minus committed offset, which kafka-consumer-groups.sh prints."""
    lag_status: LagStatus = LagStatus.UNKNOWN
    time_lag_ms: int | None = None
    time_lag_method: TimeLagMethod | None = None
    """None when time lags were not requested."""
    time_lag_error_ms: int | None = None
    member_id: MemberId | None = None
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    error: CoterieError | None = None

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition by name."""
        if self.topic is None or self.partition is None:
            return None
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """The lag of one group. `error` is the reason why its description or its committed
    offsets are missing; the rows hold the available values."""

    group_id: GroupId
    description: client.GroupDescription | None = None
    rows: tuple[PartitionLag, ...] = ()
    """Assigned partitions first, ordered by members with most partitions; then
    partitions with a commit and no owner (A-70). A partition that two members claim,
    as during a rebalance, has a row for each: sums are over `each_partition`."""
    error: CoterieError | None = None

    @property
    def total(self) -> int | None:
        """The sum of the known lags; None when none is known."""
        rows = each_partition(self.rows).values()
        known = [row.lag for row in rows if row.lag is not None]
        return sum(known) if known else None


def each_partition(rows: Iterable[PartitionLag]) -> dict[TopicPartition, PartitionLag]:
    """Return the first row of each partition, in order; rows without one are left
    out."""
    first: dict[TopicPartition, PartitionLag] = {}
    for row in rows:
        if (at := row.topic_partition) is not None:
            first.setdefault(at, row)
    return first


@dataclass(frozen=True, slots=True)
class GroupLagReport(client.Partial[GroupId]):
    """The lag of groups, in the order requested."""

    groups: tuple[GroupLag, ...]
    committed_only: bool = False
    """Whether logs end at their last stable offsets."""

    @property
    def errors(self) -> Mapping[GroupId, CoterieError]:
        """The errors of groups whose lag is unknown or incomplete."""
        return {
            each.group_id: each.error for each in self.groups if each.error is not None
        }

    def of_topics(self, topics: Container[TopicName]) -> GroupLagReport:
        """Return the report with the rows of some topics only."""
        groups = (
            replace(each, rows=tuple(row for row in each.rows if row.topic in topics))
            for each in self.groups
        )
        return GroupLagReport(tuple(groups), self.committed_only)

    @property
    def rows(self) -> tuple[PartitionLag, ...]:
        """The rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)


async def group_lag(
    admin: client.AdminClient,
    group_ids: Iterable[GroupId],
    *,
    topics: Container[TopicName] | None = None,
    committed_only: bool = False,
    progress: client.Progress | None = None,
) -> GroupLagReport:
    """Return the lag of each group, on all its partitions or on those of some topics.

    With `committed_only`, a log ends at its last stable offset. `with_time_lags` adds
    the lag in milliseconds.
    """
    wanted = tuple(dict.fromkeys(group_ids))
    stages = _stages(progress, len(wanted), count=4)
    described, commits = await asyncio.gather(
        admin.groups.describe(wanted, progress=stages[0]),
        admin.group_offsets.fetch_many(dict.fromkeys(wanted, None), progress=stages[1]),
    )
    share_ids = [
        each.group_id
        for each in described.values.values()
        if each.type is client.GroupType.SHARE
    ]
    if share_ids:
        shares = await admin.share_groups.fetch_offsets(dict.fromkeys(share_ids))
        commits = _with_share_groups(commits, shares)
    else:
        shares = client.Results()
    assigned = (
        at
        for group in described.values.values()
        for member in group.members
        for at in member.assignment
    )
    committed = (
        at
        for group in commits.values.values()
        for at in (*group.offsets, *group.errors)
    )
    partitions = dict.fromkeys(
        sorted(
            {
                at
                for at in (*assigned, *committed)
                if topics is None or at.topic in topics
            }
        )
    )
    # Log ends are read after the commits: a group that commits meanwhile is never ahead
    # of an older end.
    starts, ends = await asyncio.gather(
        admin.logs.list_offsets(
            dict.fromkeys(partitions, client.EARLIEST), progress=stages[2]
        ),
        admin.logs.list_offsets(
            dict.fromkeys(partitions, client.LATEST),
            committed_only=committed_only,
            progress=stages[3],
        ),
    )
    logs = {
        at: _Log(
            _offset(starts.values.get(at)),
            _offset(ends.values.get(at)),
            ends.errors.get(at) or starts.errors.get(at),
        )
        for at in partitions
    }
    return GroupLagReport(
        tuple(
            _group_lag(
                group_id,
                described.values.get(group_id),
                commits.values.get(group_id, client.GroupOffsets({})),
                (described.errors.get(group_id), commits.errors.get(group_id)),
                logs,
                shares.values.get(group_id),
            )
            for group_id in wanted
        ),
        committed_only,
    )


def _with_share_groups(
    commits: client.Results[GroupId, client.GroupOffsets],
    shares: client.Results[GroupId, client.ShareGroupOffsets],
) -> client.Results[GroupId, client.GroupOffsets]:
    """Return the committed offsets of groups, and the start offsets of share groups,
    for which OffsetFetch has an error."""
    starts = {
        each: found.as_commits(with_epochs=True)
        for each, found in shares.values.items()
    }
    errors = {each: err for each, err in commits.errors.items() if each not in starts}
    return client.Results({**commits.values, **starts}, {**errors, **shares.errors})


class _Log(NamedTuple):
    start: LogOffset | None
    end: LogOffset | None
    error: CoterieError | None


def _offset(listed: client.LogOffsetInfo | None) -> LogOffset | None:
    return None if listed is None or listed.offset < 0 else listed.offset


def _group_lag(
    group_id: GroupId,
    description: client.GroupDescription | None,
    offsets: client.GroupOffsets,
    errors: tuple[CoterieError | None, CoterieError | None],
    logs: Mapping[TopicPartition, _Log],
    share: client.ShareGroupOffsets | None,
) -> GroupLag:
    """Return the rows of one group. `errors` are those of its description and of its
    committed offsets."""
    describe_error, commit_error = errors

    def row(
        partition: TopicPartition, owner: client.MemberDescription | None
    ) -> PartitionLag:
        log, committed = logs[partition], offsets.offsets.get(partition)
        error = commit_error or offsets.errors.get(partition)
        status, lag, raw = LagStatus.UNKNOWN, None, None
        if error is None and committed is None:
            status = LagStatus.NO_COMMIT
        elif error is None and committed is not None and log.end is not None:
            raw = log.end - committed.offset
            status, lag = _measure(committed.offset, log.start, log.end)
            if share is not None:
                position = share.offsets[partition]
                lag = position.lag if position else None
                status = LagStatus.UNKNOWN if lag is None else status
        return PartitionLag(
            group_id=group_id,
            topic=partition.topic,
            partition=partition.partition,
            committed=committed,
            log_start=log.start,
            log_end=log.end,
            lag=lag,
            lag_raw=raw,
            lag_status=status,
            member_id=owner.member_id if owner else None,
            instance_id=owner.instance_id if owner else None,
            client_id=owner.client_id if owner else None,
            host=owner.host if owner else None,
            error=error or log.error,
        )

    is_streams = (
        description is not None and description.type is client.GroupType.STREAMS
    )
    rows: list[PartitionLag] = []
    owned: set[TopicPartition] = set()
    # The members of a share group share its partitions: no partition has an owner.
    members = description.members if description and share is None else ()
    for member in sorted(members, key=lambda m: (-len(m.assignment), m.member_id)):
        owned.update(member.assignment)
        rows += (
            row(each, member)
            for each in member.assignment
            if each in logs
            and not (is_streams and _is_no_partition(each, offsets, logs[each]))
        )
        if not member.assignment:  # one row for the member
            rows.append(
                PartitionLag(
                    group_id=group_id,
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    host=member.host,
                )
            )
    unowned = sorted({*offsets.offsets, *offsets.errors} - owned)
    rows += (row(each, None) for each in unowned if each in logs)
    return GroupLag(
        group_id=group_id,
        description=description,
        rows=tuple(rows),
        error=describe_error or commit_error,
    )


def _measure(
    committed: LogOffset, start: LogOffset | None, end: LogOffset
) -> tuple[LagStatus, int]:
    if committed > end:
        return LagStatus.BEYOND_END, 0
    if start is not None and committed < start:
        return LagStatus.BELOW_START, end - start
    return LagStatus.NORMAL, end - committed


def _is_no_partition(
    at: TopicPartition, offsets: client.GroupOffsets, log: _Log
) -> bool:
    """Return whether a task has no partition of this topic: a subtopology has as many
    tasks as its topic with most partitions."""
    return (
        offsets.offsets.get(at) is None
        and code_of(log.error) is client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


async def with_time_lags(
    admin: client.AdminClient, report: GroupLagReport, *, now_ms: int
) -> GroupLagReport:
    """Return the report with the lag in milliseconds (`time_lag`): the age at `now_ms`
    of the first record that each group has not read.

    Rows of several groups at the same offset of a log share one request.
    """
    positions = {each for row in report.rows if (each := lag_position(row))}
    found = await time_lags(
        admin, sorted(positions), now_ms=now_ms, committed_only=report.committed_only
    )

    def timed(row: PartitionLag) -> PartitionLag:
        if row.topic is None:
            return row
        position = lag_position(row)
        time_lag = TimeLag() if position is None else found[position]
        return replace(
            row,
            time_lag_ms=time_lag.ms,
            time_lag_method=time_lag.method,
            time_lag_error_ms=time_lag.error_ms,
        )

    return GroupLagReport(
        tuple(
            replace(group, rows=tuple(map(timed, group.rows)))
            for group in report.groups
        ),
        report.committed_only,
    )


def lag_position(row: PartitionLag) -> LagPosition | None:
    """Return the first record that the group has not read; None for an unknown lag."""
    partition = row.topic_partition
    if partition is None or row.lag is None or row.log_end is None:
        return None
    assert row.committed is not None, "a row with a lag has a commit"
    # Not the log end minus the lag: a share group acknowledges records in any order.
    first = max(row.committed.offset, row.log_start or 0)
    return LagPosition(
        partition, min(first, row.log_end) if row.lag else row.log_end, row.log_end
    )


def _stages(
    progress: client.Progress | None, size: int, *, count: int
) -> list[client.Progress | None]:
    """Return the progress callbacks of stages that each count for the same share,
    whatever their number of items."""
    if progress is None:
        return [None] * count
    size = max(size, 1)
    done_of = [0] * count

    def stage(number: int) -> client.Progress:
        def report(done: int, total: int) -> None:
            done_of[number] = done * size // max(total, 1)
            progress(sum(done_of), size * count)

        return report

    return [stage(number) for number in range(count)]
