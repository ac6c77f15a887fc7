"""Offset resets: scenarios, the rows computed from them, and reading and writing the
offsets. Scenarios give the same offsets as kafka-consumer-groups.sh (C-60, C-62), with
these differences: an error of one partition does not affect the others; an unchanged
offset is not written again; metadata and leader epoch of the prior commit are kept
where they still apply (`offset_to_commit`).

Only groups without members are reset (C-61, E29-07). A group that does not exist counts
as a group without members, and the write creates it. Committed offsets are read before
log ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias, assert_never

from coterie import client
from coterie.errors import CoterieError, OperationRefused, code_of
from coterie.operations.current_groups import (
    CurrentGroup,
    read_current_groups,
    refuse_active,
)
from coterie.operations.selection import ALL_COMMITTED, Scope, resolve_partitions
from coterie.operations.times import read_datetime_ms, time_before
from coterie.operations.topic_ids import TopicIds
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The log start."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """The log end."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """The committed offset, unclamped; the log end for a partition without one."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """One offset for every partition, clamped to the log."""

    offset: LogOffset


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """A number of records forwards, or backwards if negative, clamped to the log. Needs
    a committed offset."""

    records: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record at or after a time (ms since 1970); the log end without one."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ToRows:
    """An offset for each partition, clamped to the log. Its partitions are the
    scope."""

    offsets: Mapping[TopicPartition, LogOffset]


@dataclass(frozen=True, slots=True)
class ToExact:
    """An offset for each partition, unclamped. `metadata` is committed with them; None
    keeps the metadata of the prior commit. Its partitions are the scope."""

    offsets: Mapping[TopicPartition, LogOffset]
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class ToCommits:
    """Complete commits with metadata and leader epoch, unclamped. Its partitions are
    the scope."""

    offsets: Mapping[TopicPartition, client.CommittedOffset]
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of the topics of the offsets, where known. `plan_offsets` marks the rows
    of a topic that has another id now."""


Scenario: TypeAlias = (
    ToEarliest
    | ToLatest
    | ToCurrent
    | ToOffset
    | ShiftBy
    | ToTime
    | ToRows
    | ToExact
    | ToCommits
)
"""What the offsets of a group are reset to."""


def to_datetime(text: str) -> ToTime:
    """Return the scenario of `--to-datetime`. Raises SettingError."""
    return ToTime(read_datetime_ms(text))


def by_duration(text: str, now_ms: int) -> ToTime:
    """Return the scenario of `--by-duration`: the time that long before now. Raises
    SettingError."""
    return ToTime(time_before(text, now_ms))


class Note(Enum):
    """A remark about a row, for review before it is written."""

    UNCHANGED = "unchanged"
    """The offset is already committed; nothing is written."""
    NO_COMMIT = "no-commit"
    """The group has no committed offset there yet."""
    CLAMPED = "clamped"
    """The offset is outside the log; the nearest offset in it is used (C-62)."""
    NO_LATER_RECORD = "no-later-record"
    """No record has such a late timestamp; the log end is used."""
    OUT_OF_RANGE = "out-of-range"
    """The offset is outside the log, but is used unclamped."""
    SKIPS = "skips"
    """The group will skip the records from the prior offset to the new one."""
    DELETED = "deleted"
    """The committed offset is deleted."""
    RECREATED = "recreated"
    """The topic was deleted and created again since the offset was committed."""
    DATA_LOSS = "data-loss"
    """The log has deleted records that the group has not read."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The offsets of one partition, as read before a reset."""

    committed: client.CommittedOffset | None = None
    start: client.LogOffsetInfo | None = None
    end: client.LogOffsetInfo | None = None
    at_time: client.LogOffsetInfo | None = None
    """For ToTime only; offset -1 without a record at or after the time."""
    log_error: CoterieError | None = None
    """The error of reading the log offsets."""
    commit_error: CoterieError | None = None
    """The error of reading the committed offset."""


@dataclass(frozen=True, slots=True)
class ResetRow:
    """One partition of one group in a reset. `partition` is -1 in the row with the
    error of a topic whose partitions are unknown."""

    group_id: GroupId
    topic: TopicName
    partition: int
    prior: client.CommittedOffset | None = None
    new: client.CommittedOffset | None = None
    """The offset to commit; None with an error, and for a deletion."""
    log_start: LogOffset | None = None
    log_end: LogOffset | None = None
    notes: tuple[Note, ...] = ()
    error: CoterieError | None = None

    @property
    def at(self) -> TopicPartition:
        """The partition by name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_write(self) -> bool:
        """Whether the row has an offset to commit."""
        return self.new is not None and self.new != self.prior

    @property
    def delta(self) -> int | None:
        """The new offset minus the prior one; None without a prior offset."""
        if self.prior is None or self.new is None:
            return None
        return self.new.offset - self.prior.offset

    @property
    def lag_after(self) -> int | None:
        """The lag at the new offset, if the log end is known."""
        if self.new is None or self.log_end is None:
            return None
        return max(0, self.log_end - max(self.new.offset, self.log_start or 0))

    def with_prior(self, prior: client.CommittedOffset | None) -> ResetRow:
        """Return the row with another prior offset."""
        return replace(self, prior=prior)


def plan_rows(
    group_id: GroupId,
    scenario: Scenario,
    offsets: Mapping[TopicPartition, PartitionOffsets],
) -> tuple[ResetRow, ...]:
    """Return the rows of one group, ordered by topic and partition."""
    return tuple(
        _plan_row(group_id, partition, scenario, offsets[partition])
        for partition in sorted(offsets)
    )


def drop_metadata(rows: Iterable[ResetRow]) -> tuple[ResetRow, ...]:
    """Return the rows without metadata and epochs, as kafka-consumer-groups.sh writes
    them.

    Kafka Streams stores its stream time in the metadata; a reset to earlier offsets
    invalidates it.
    """
    return tuple(
        row
        if row.new is None
        else replace(row, new=client.CommittedOffset(row.new.offset))
        for row in rows
    )


def _plan_row(
    group_id: GroupId,
    partition: TopicPartition,
    scenario: Scenario,
    offsets: PartitionOffsets,
) -> ResetRow:
    prior = offsets.committed
    start = None if offsets.start is None else offsets.start.offset
    end = None if offsets.end is None else offsets.end.offset
    row = ResetRow(group_id, *partition, prior=prior, log_start=start, log_end=end)
    if offsets.commit_error is not None:
        return replace(row, error=offsets.commit_error)
    try:
        target = _target(scenario, partition, offsets)
    except CoterieError as error:
        return replace(row, error=error)
    new = offset_to_commit(target, prior)
    if isinstance(scenario, ToCommits):
        new = scenario.offsets[partition]
    elif isinstance(scenario, ToExact) and scenario.metadata is not None:
        new = replace(new, metadata=scenario.metadata)
    notes = {
        Note.NO_COMMIT: prior is None,
        Note.UNCHANGED: new == prior,
        Note.OUT_OF_RANGE: (end is not None and new.offset > end)
        or (start is not None and new.offset < start),
        Note.SKIPS: prior is not None and new.offset > prior.offset,
        Note.DATA_LOSS: prior is not None and prior.offset < (start or 0),
    }
    applying = tuple(note for note, applies in notes.items() if applies)
    return replace(row, new=new, notes=target.notes + applying)


@dataclass(frozen=True, slots=True)
class _Target:
    """An offset to commit, with the leader epoch that the log returned for it."""

    offset: LogOffset
    leader_epoch: int | None = None
    notes: tuple[Note, ...] = ()


def _target(  # noqa: C901, PLR0912 (one case for each scenario)
    scenario: Scenario, partition: TopicPartition, offsets: PartitionOffsets
) -> _Target:
    """Return the target offset of a scenario. Raises CoterieError when it has none."""

    def in_log(found: client.LogOffsetInfo | None, *notes: Note) -> _Target:
        info = _read_log_offset(found, offsets)
        return _Target(info.offset, info.leader_epoch, notes)

    match scenario:
        case ToEarliest():
            target = in_log(offsets.start)
        case ToLatest():
            target = in_log(offsets.end)
        case ToTime():
            is_found = _read_log_offset(offsets.at_time, offsets).offset >= 0
            target = (
                in_log(offsets.at_time)
                if is_found
                else in_log(offsets.end, Note.NO_LATER_RECORD)
            )
        case ToCurrent():
            committed = offsets.committed
            target = _Target(committed.offset) if committed else in_log(offsets.end)
        case ToCommits() | ToExact():
            error = offsets.log_error
            # The coordinator would reject a commit for a missing partition.
            if error and code_of(error) is client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
            given = scenario.offsets[partition]
            target = _Target(
                given.offset if isinstance(given, client.CommittedOffset) else given
            )
        case ToOffset(offset):
            target = _clamp(offset, offsets)
        case ToRows(rows):
            target = _clamp(rows[partition], offsets)
        case ShiftBy(records):
            if offsets.committed is None:
                raise OperationRefused(
                    "there is no committed offset to shift from: choose an offset, a"
                    " time, earliest or latest"
                )
            target = _clamp(offsets.committed.offset + records, offsets)
        case _:
            assert_never(scenario)
    return target


def _read_log_offset(
    info: client.LogOffsetInfo | None, offsets: PartitionOffsets
) -> client.LogOffsetInfo:
    if offsets.log_error is not None:
        raise offsets.log_error
    assert info is not None, "the offset was not requested"
    return info


def _clamp(offset: LogOffset, offsets: PartitionOffsets) -> _Target:
    start = _read_log_offset(offsets.start, offsets)
    end = _read_log_offset(offsets.end, offsets)
    if start.offset <= offset <= end.offset:
        return _Target(offset)
    nearest = end if offset > end.offset else start
    return _Target(nearest.offset, nearest.leader_epoch, (Note.CLAMPED,))


def offset_to_commit(
    target: _Target, prior: client.CommittedOffset | None
) -> client.CommittedOffset:
    """Return the commit for a target, with the metadata of the prior commit and a
    leader epoch.

    The epoch lets a consumer detect log truncation (KIP-320). The log's epoch is used
    when it is known. For a move backwards the prior epoch still holds: it is not older
    than the records before it. For a move forwards, the prior epoch would look like a
    truncation, so the commit has no epoch.
    """
    if prior is None:
        return client.CommittedOffset(target.offset, target.leader_epoch)
    if target.offset == prior.offset:
        return prior
    epoch = target.leader_epoch
    if epoch is None and target.offset < prior.offset:
        epoch = prior.leader_epoch
    return client.CommittedOffset(target.offset, epoch, prior.metadata)


@dataclass(frozen=True, slots=True)
class GroupReset:
    """The reset of one group: its rows, or the error of the whole group."""

    group_id: GroupId
    rows: tuple[ResetRow, ...] = ()
    current: CurrentGroup | None = None
    """The group when it was read; None when it could not be read."""
    error: CoterieError | None = None

    @property
    def writes(self) -> Mapping[TopicPartition, client.CommittedOffset]:
        """The offsets to commit."""
        return {
            row.at: row.new for row in self.rows if row.is_write and row.new is not None
        }


async def plan_resets(
    admin: client.AdminClient,
    scenarios: Mapping[GroupId, Scenario],
    scope: Scope = ALL_COMMITTED,
) -> tuple[GroupReset, ...]:
    """Return the reset of each group, in the order given.

    `scope` selects the partitions, except for scenarios that name them. A group without
    selected partitions has no rows and no error. The logs are read by two calls, and by
    one for each time, whatever the number of groups.
    """
    groups = await read_current_groups(admin, scenarios)
    scope_partitions = await resolve_partitions(admin, scope or ())
    resets: dict[GroupId, GroupReset] = {}
    partitions: dict[GroupId, set[TopicPartition]] = {}
    by_time: dict[int, set[TopicPartition]] = {}
    for group_id, scenario in scenarios.items():
        try:
            current = groups.one(group_id)
            refuse_active(current)
        except CoterieError as error:
            known = groups.values.get(group_id)
            resets[group_id] = GroupReset(group_id, current=known, error=error)
            continue
        if isinstance(scenario, ToRows | ToExact | ToCommits):
            selected = set(scenario.offsets)
        elif scope is ALL_COMMITTED:
            selected = {*current.committed, *current.offsets.errors}
        else:
            selected = set(scope_partitions.partitions)
        partitions[group_id] = selected
        if isinstance(scenario, ToTime):
            by_time.setdefault(scenario.timestamp_ms, set()).update(selected)
    everything = {at for some in partitions.values() for at in some}
    starts, ends, *at_times = await asyncio.gather(
        _list_offsets(admin, everything, client.EARLIEST),
        _list_offsets(admin, everything, client.LATEST),
        *(
            _list_offsets(admin, some, client.AtTime(at_ms))
            for at_ms, some in by_time.items()
        ),
    )
    times = dict(zip(by_time, at_times, strict=True))
    for group_id, selected in partitions.items():
        scenario, current = scenarios[group_id], groups.values[group_id]
        at_time: client.Results[TopicPartition, client.LogOffsetInfo] = client.Results()
        if isinstance(scenario, ToTime):
            at_time = times[scenario.timestamp_ms]
        offsets = {
            at: PartitionOffsets(
                committed=current.committed.get(at),
                start=starts.values.get(at),
                end=ends.values.get(at),
                at_time=at_time.values.get(at),
                log_error=starts.errors.get(at)
                or ends.errors.get(at)
                or at_time.errors.get(at),
                commit_error=current.offsets.errors.get(at),
            )
            for at in selected
        }
        rows = plan_rows(group_id, scenario, offsets)
        if not isinstance(scenario, ToRows | ToExact | ToCommits):
            rows += tuple(
                ResetRow(group_id, topic, -1, error=error)
                for topic, error in scope_partitions.errors
            )
        resets[group_id] = GroupReset(group_id, rows, current)
    return tuple(resets[group_id] for group_id in scenarios)


async def _list_offsets(
    admin: client.AdminClient,
    partitions: Collection[TopicPartition],
    spec: client.OffsetSpec,
) -> client.Results[TopicPartition, client.LogOffsetInfo]:
    if not partitions:
        return client.Results()
    return await admin.logs.list_offsets(dict.fromkeys(sorted(partitions), spec))


async def write_offsets(
    admin: client.AdminClient,
    group_id: GroupId,
    offsets: Mapping[TopicPartition, client.CommittedOffset],
    *,
    is_share: bool = False,
) -> client.Results[TopicPartition, None]:
    """Commit offsets for a group, or with `is_share` set the start offsets of a share
    group; an error of the whole group is the error of each partition."""
    if not offsets:
        return client.Results()
    try:
        if is_share:
            starts = {at: each.offset for at, each in offsets.items()}
            return await admin.share_groups.alter_offsets(group_id, starts)
        return await admin.group_offsets.alter(group_id, offsets)
    except CoterieError as error:
        return client.Results({}, dict.fromkeys(offsets, error))
