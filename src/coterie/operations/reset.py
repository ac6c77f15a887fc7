"""Where a group is to read next: a scenario, and the rows it comes to.

Rules of this file: it is pure, so whoever calls it has read the offsets, and time is
an argument; what Apache's tool answers for a scenario is what we answer (C-60, C-62),
with these differences: one partition's error leaves the others alone; a row whose
offset stays is not written again; what was committed with an offset is kept where it
still says something true (`committed_at`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias, assert_never

from coterie.client.admin.offset_values import CommittedOffset, LogOffsetFound
from coterie.errors import ApiError, CoterieError, OperationRefused
from coterie.operations.times import read_datetime_ms, time_before
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class ToEarliest:
    """The start of the log."""


@dataclass(frozen=True, slots=True)
class ToLatest:
    """The end of the log."""


@dataclass(frozen=True, slots=True)
class ToCurrent:
    """The committed offset; the end of the log where there is none, which makes a
    commit. It is not clamped."""


@dataclass(frozen=True, slots=True)
class ToOffset:
    """One offset for every partition, clamped."""

    offset: LogOffset


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records onwards, or back if negative; clamped. Needs a commit."""

    records: int


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first record that is at least as late (ms since 1970); the end of the log
    where there is none."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ToRows:
    """Its own offset for each partition, as a file said; clamped. Its partitions are
    the scope."""

    offsets: Mapping[TopicPartition, LogOffset]


@dataclass(frozen=True, slots=True)
class ToExact:
    """Its own offset for each partition, not clamped. `metadata`: what is committed
    beside them; None: what is there already. Its partitions are the scope."""

    offsets: Mapping[TopicPartition, LogOffset]
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class ToCommits:
    """Exactly this for each partition, metadata and epoch included; not clamped. Its
    partitions are the scope."""

    offsets: Mapping[TopicPartition, CommittedOffset]


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


def to_datetime(text: str) -> ToTime:
    """The scenario of `--to-datetime`. Raises SettingError."""
    return ToTime(read_datetime_ms(text))


def by_duration(text: str, now_ms: int) -> ToTime:
    """The scenario of `--by-duration`: so long before now. Raises SettingError."""
    return ToTime(time_before(text, now_ms))


class Note(Enum):
    """What an operator should know of a row before it is written."""

    UNCHANGED = "unchanged"
    """The offset is committed already; nothing is written."""
    NO_COMMIT = "no-commit"
    """The group has no offset there yet; one is made."""
    CLAMPED = "clamped"
    """The log does not reach the offset; the nearest that it has is taken (C-62)."""
    NO_LATER_RECORD = "no-later-record"
    """No record is that late; the end of the log is taken."""
    OUT_OF_RANGE = "out-of-range"
    """The log does not reach the offset, and it is taken all the same."""
    SKIPS = "skips"
    """The group will not read the records between the prior offset and the new one."""
    DELETED = "deleted"
    """The committed offset is forgotten."""
    DATA_LOSS = "data-loss"
    """Records that the group has not read are gone from the log already."""


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """What was read of one partition before a reset."""

    committed: CommittedOffset | None = None
    start: LogOffsetFound | None = None
    end: LogOffsetFound | None = None
    at_time: LogOffsetFound | None = None
    """For ToTime only; offset -1: no record is that late."""
    log_error: CoterieError | None = None
    """Why the offsets of its log are not known."""
    commit_error: CoterieError | None = None
    """Why its committed offset is not known."""


@dataclass(frozen=True, slots=True)
class ResetRow:
    """One partition of one group in a reset. `partition` is -1 in the row that says
    why the partitions of a topic are not known."""

    group_id: GroupId
    topic: TopicName
    partition: int
    prior: CommittedOffset | None = None
    new: CommittedOffset | None = None
    """What is to be committed; None with an error, and where it is deleted."""
    log_start: LogOffset | None = None
    log_end: LogOffset | None = None
    notes: tuple[Note, ...] = ()
    error: CoterieError | None = None

    @property
    def at(self) -> TopicPartition:
        """Its partition by name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def is_write(self) -> bool:
        """Whether there is something to write."""
        return self.new is not None and self.new != self.prior

    @property
    def delta(self) -> int | None:
        """How many offsets onwards the group moves; None without a prior offset."""
        if self.prior is None or self.new is None:
            return None
        return self.new.offset - self.prior.offset

    @property
    def lag_after(self) -> int | None:
        """The records from the new offset to the end of the log, if that is known."""
        if self.new is None or self.log_end is None:
            return None
        return max(0, self.log_end - max(self.new.offset, self.log_start or 0))

    @property
    def note(self) -> str:
        """The notes as one word each, or why the row is no good."""
        if self.error is not None:
            return str(self.error)
        return ",".join(note.value for note in self.notes)


def plan_rows(
    group_id: GroupId,
    scenario: Scenario,
    seen: Mapping[TopicPartition, PartitionSeen],
) -> tuple[ResetRow, ...]:
    """The rows of one group, in the order of topics and partitions. Pure."""
    return tuple(
        _plan_row(group_id, partition, scenario, seen[partition])
        for partition in sorted(seen)
    )


def drop_metadata(rows: Iterable[ResetRow]) -> tuple[ResetRow, ...]:
    """The rows as Apache's tool writes them: every offset anew, with nothing kept.

    Kafka Streams keeps its stream time there, which a jump backwards makes wrong.
    """
    return tuple(
        row if row.new is None else replace(row, new=CommittedOffset(row.new.offset))
        for row in rows
    )


def _plan_row(
    group_id: GroupId,
    partition: TopicPartition,
    scenario: Scenario,
    seen: PartitionSeen,
) -> ResetRow:
    row = ResetRow(
        group_id,
        partition.topic,
        partition.partition,
        prior=seen.committed,
        log_start=None if seen.start is None else seen.start.offset,
        log_end=None if seen.end is None else seen.end.offset,
    )
    if seen.commit_error is not None:
        return replace(row, error=seen.commit_error)
    try:
        target = _target(scenario, partition, seen)
    except CoterieError as error:
        return replace(row, error=error)
    new = committed_at(target, seen.committed)
    if isinstance(scenario, ToCommits):
        new = scenario.offsets[partition]
    elif isinstance(scenario, ToExact) and scenario.metadata is not None:
        new = replace(new, metadata=scenario.metadata)
    row = replace(row, new=new)
    return replace(row, notes=_notes(row, target))


@dataclass(frozen=True, slots=True)
class _Target:
    """An offset to commit; the epoch of its record, when the log said it; and how it
    came about."""

    offset: LogOffset
    leader_epoch: int | None = None
    notes: tuple[Note, ...] = ()


def _target(  # noqa: PLR0911 (one way for each scenario)
    scenario: Scenario, partition: TopicPartition, seen: PartitionSeen
) -> _Target:
    """Where a scenario leads. Raises CoterieError when it leads nowhere."""
    match scenario:
        case ToEarliest():
            return _found(_known(seen.start, seen))
        case ToLatest():
            return _found(_known(seen.end, seen))
        case ToTime():
            return _at_time(seen)
        case ToCurrent():
            return _current(seen)
        case ToCommits(commits):
            return _exact(commits[partition].offset, seen)
        case ToExact(exact):
            return _exact(exact[partition], seen)
        case ToOffset(offset):
            return _clamp(offset, seen)
        case ToRows(offsets):
            return _clamp(offsets[partition], seen)
        case ShiftBy(records):
            return _shift(records, seen)
        case _:
            assert_never(scenario)


def _current(seen: PartitionSeen) -> _Target:
    if seen.committed is None:
        return _found(_known(seen.end, seen))
    return _Target(seen.committed.offset)


def _exact(offset: LogOffset, seen: PartitionSeen) -> _Target:
    """As it is, if there is such a partition: the coordinator would refuse it."""
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if isinstance(seen.log_error, ApiError) and seen.log_error.code is gone:
        raise seen.log_error
    return _Target(offset)


def _shift(records: int, seen: PartitionSeen) -> _Target:
    if seen.committed is None:
        raise OperationRefused(
            "there is no committed offset to shift from: choose an offset, a time,"
            " earliest or latest"
        )
    return _clamp(seen.committed.offset + records, seen)


def _known(found: LogOffsetFound | None, seen: PartitionSeen) -> LogOffsetFound:
    if seen.log_error is not None:
        raise seen.log_error
    assert found is not None, "an offset of the log was not asked for"
    return found


def _found(found: LogOffsetFound, *notes: Note) -> _Target:
    return _Target(found.offset, found.leader_epoch, notes)


def _at_time(seen: PartitionSeen) -> _Target:
    found = _known(seen.at_time, seen)
    if found.offset >= 0:
        return _found(found)
    return _found(_known(seen.end, seen), Note.NO_LATER_RECORD)


def _clamp(offset: LogOffset, seen: PartitionSeen) -> _Target:
    start, end = _known(seen.start, seen), _known(seen.end, seen)
    if offset > end.offset:
        return _found(end, Note.CLAMPED)
    if offset < start.offset:
        return _found(start, Note.CLAMPED)
    return _Target(offset)


def committed_at(target: _Target, prior: CommittedOffset | None) -> CommittedOffset:
    """What is committed there: with the metadata of the prior commit, and an epoch.

    The epoch lets a consumer notice that the log was cut off (KIP-320). The log's own
    is taken when it is known. When the group moves back, the prior one still holds:
    it is not older than the records before it. When it moves onwards, the prior one
    would look like a log that was cut off, so there is none.
    """
    if prior is None:
        return CommittedOffset(target.offset, target.leader_epoch)
    if target.offset == prior.offset:
        return prior
    epoch = target.leader_epoch
    if epoch is None and target.offset < prior.offset:
        epoch = prior.leader_epoch
    return CommittedOffset(target.offset, epoch, prior.metadata)


def _notes(row: ResetRow, target: _Target) -> tuple[Note, ...]:
    """How the row came about, and what is to be known of it."""
    assert row.new is not None
    offset, start, end = row.new.offset, row.log_start, row.log_end
    told = {
        Note.NO_COMMIT: row.prior is None,
        Note.UNCHANGED: row.new == row.prior,
        Note.OUT_OF_RANGE: (end is not None and offset > end)
        or (start is not None and offset < start),
        Note.SKIPS: (row.delta or 0) > 0,
        Note.DATA_LOSS: row.prior is not None and row.prior.offset < (start or 0),
    }
    return target.notes + tuple(note for note, holds in told.items() if holds)
