"""Plan files and their result files: schemas, encoding and durable writes.

`coterie groups plan`, the pipeline's clean-up and any other program can write a plan.
It contains the expected state of each group; `apply` reads the group again and refuses
an item whose group has changed. docs/plan-files.md shows the files; the classes here
are their schemas, field by field.

Every JSON document starts with the name and the version of its schema. Readers ignore
unknown fields and refuse a newer `schema_version`. A result file has JSON lines: a
head, then one line for each attempt of an item, of which the last one counts.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec

from coterie import client, portable_os
from coterie.errors import CoterieError, SettingError
from coterie.files import decode_text, write_error
from coterie.operations.topic_ids import TopicIds
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition

Document = TypeVar("Document")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Head:
    schema: str
    schema_version: int


def decode_document(
    data: bytes, kind: type[Document], schema: str, version: int
) -> Document:
    """Decode a document of a schema in that version or an older one. Raises
    SettingError, with the position of the problem."""
    try:
        text = decode_text(data)
        head = msgspec.json.decode(text, type=_Head)
        if head.schema != schema:
            raise SettingError(f"this is a {head.schema!r}, not a {schema!r}")
        if not 1 <= head.schema_version <= version:
            raise SettingError(
                f"its schema version is {head.schema_version}, and this coterie reads 1"
                f" to {version}: use the coterie that wrote it, or a newer one"
            )
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"not a {schema!r}: {error}") from error


def encode_document(document: object) -> bytes:
    """Encode a document, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def encode_line(document: object) -> bytes:
    """Encode a line of a JSON lines file."""
    return msgspec.json.encode(document) + b"\n"


def utc_text(at_ms: int) -> str:
    """Format a time (ms since 1970) as 2026-11-21T10:00:00.000Z."""
    at = _EPOCH + timedelta(milliseconds=at_ms)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def append_durably(path: Path, data: bytes, *, is_new: bool = False) -> None:
    """Append lines to a file and sync them to the disk.

    A new file must not exist yet; only its owner can read it. A last line without its
    end is removed: a crash cut it short, and a line appended to it could not be read.
    Lines that cannot be written completely are removed, and so is a new file.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | portable_os.BINARY
    flags |= os.O_EXCL if is_new else 0
    descriptor = os.open(path, flags, 0o600)
    try:
        try:
            _append(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError:
        if is_new:  # closed before: Windows does not delete open files
            path.unlink(missing_ok=True)
        raise
    if is_new:  # sync the directory entry, too
        portable_os.sync_directory(path.parent)


def _append(descriptor: int, data: bytes) -> None:
    size = _remove_torn_line(descriptor)
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _remove_torn_line(descriptor: int) -> int:
    """Truncate a file to the end of its last whole line; return its size then."""
    end = size = os.fstat(descriptor).st_size
    while end and portable_os.pread(descriptor, 1, end - 1) != b"\n":
        end -= 1
    if end < size:
        os.ftruncate(descriptor, end)
    return end


PLAN_SCHEMA: Final = "coterie.plan"
PLAN_SCHEMA_VERSION: Final = 1

_NotNegative = msgspec.Meta(ge=0)


class Action(Enum):
    """An action on a group."""

    RESET = "reset"
    """Commit the offsets of a reset scenario."""
    SET = "set"
    """Commit given offsets."""
    CLONE = "clone"
    """Commit the offsets that another group had when the plan was made."""
    DELETE_OFFSETS = "delete-offsets"
    """Delete some committed offsets."""
    DELETE_GROUP = "delete-group"
    """Delete the group with its offsets."""
    REMOVE_MEMBERS = "remove-members"
    """Remove members."""
    RESTORE = "restore"
    """Commit the offsets of a snapshot; created by `undo`."""


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """A committed offset of a partition, or its absence."""

    topic: TopicName
    partition: Annotated[int, _NotNegative]
    offset: Annotated[LogOffset, _NotNegative] | None
    """None is no commit: in `PlanItem.offsets`, the commit is deleted; in
    `ExpectedGroup.offsets`, the partition had none."""
    leader_epoch: int | None = None
    metadata: str = ""

    @property
    def at(self) -> TopicPartition:
        """The partition by name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def committed(self) -> client.CommittedOffset | None:
        """The offset as a value of the admin client."""
        if self.offset is None:
            return None
        return client.CommittedOffset(self.offset, self.leader_epoch, self.metadata)


def entries_of(
    offsets: Mapping[TopicPartition, client.CommittedOffset | None],
) -> tuple[OffsetEntry, ...]:
    """Return the admin client's committed offsets as plan entries, sorted."""
    return tuple(
        OffsetEntry(*at, None)
        if offset is None
        else OffsetEntry(*at, offset.offset, offset.leader_epoch, offset.metadata)
        for at, offset in sorted(offsets.items(), key=lambda item: item[0])
    )


@dataclass(frozen=True, slots=True)
class ExpectedGroup:
    """The state of a group when the plan was made. Null fields are not compared."""

    exists: bool
    state: str | None = None
    """Kafka's name: Empty, Stable and so on; Dead when the group does not exist."""
    type: str | None = None
    """classic, consumer, streams or share; share for a group that does not exist means
    that the write creates a share group."""
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    generation_id: int | None = None
    members: tuple[str, ...] = ()
    """Member ids, sorted."""
    offsets: tuple[OffsetEntry, ...] = ()
    """All committed offsets, sorted."""


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A member to remove: by member id or, if static, by instance id."""

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One action on one group."""

    item_id: str
    """Unique in the plan, and the same whenever the plan is made again."""
    action: Action
    group_id: GroupId
    seen: ExpectedGroup
    offsets: tuple[OffsetEntry, ...] = ()
    """The offsets to commit; other partitions stay."""
    members: tuple[MemberEntry, ...] = ()
    """The members to remove; remove-members only."""
    topic_ids: TopicIds = field(default_factory=dict)
    """The ids of the topics of `offsets`, where known; null for a topic that did not
    exist."""
    source: GroupId | None = None
    """The group whose offsets are cloned; clone only."""
    reason: str = ""
    """The reason, for review."""

    @property
    def wanted(self) -> Mapping[TopicPartition, client.CommittedOffset | None]:
        """The offset to commit for each partition; None deletes it."""
        return {entry.at: entry.committed for entry in self.offsets}


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan file."""

    schema: str = field(default=PLAN_SCHEMA, kw_only=True)
    schema_version: int = field(default=PLAN_SCHEMA_VERSION, kw_only=True)
    plan_id: str
    """A unique id; results and snapshots refer to it."""
    made_at: str
    """UTC, as in 2026-11-21T10:00:00.000Z."""
    cluster_id: str | None
    """The cluster of the groups; null on brokers before 0.10.1."""
    items: tuple[PlanItem, ...]
    """At most one for each group, in the order of their application."""
    command: str = ""
    """The command that made the plan."""


def item_id_of(action: Action, group_id: GroupId) -> str:
    """Return the id of an item: the action and the group."""
    return f"{action.value}:{group_id}"


def encode_plan(plan: Plan) -> bytes:
    """Encode a plan as a file for review."""
    return encode_document(plan)


def decode_plan(data: bytes) -> Plan:
    """Decode a plan file. Raises SettingError, with the position of the problem."""
    plan = decode_document(data, Plan, PLAN_SCHEMA, PLAN_SCHEMA_VERSION)
    counts = Counter(item.group_id for item in plan.items)
    twice = [group_id for group_id, count in counts.items() if count > 1]
    if twice:
        raise SettingError(
            f"group {twice[0]!r} has two items, and the first would outdate the second:"
            " make two plans"
        )
    return plan


def read_plan(path: Path) -> Plan:
    """Read a plan file. Raises SettingError."""
    try:
        return decode_plan(path.read_bytes())
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error


class Verdict(Enum):
    """The outcome of an item."""

    READY = "ready"
    """The item can be applied; a check returns it."""
    DONE = "done"
    ALREADY = "already"
    """The group was already in the planned state; nothing was written."""
    REFUSED = "refused"
    """The group has changed since the plan; nothing was written."""
    PARTIAL = "partial"
    """A part was written."""
    FAILED = "failed"
    """Nothing was written."""

    @property
    def is_good(self) -> bool:
        """Whether the group is in the planned state."""
        return self in {Verdict.DONE, Verdict.ALREADY}

    @property
    def is_bad(self) -> bool:
        """Whether the item, or a part of it, was not written as planned."""
        return self in {Verdict.REFUSED, Verdict.FAILED, Verdict.PARTIAL}


@dataclass(frozen=True, slots=True)
class ItemResult:
    """The outcome of an item, with its reasons."""

    item: PlanItem
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Changes of the group, or errors; one sentence each."""
    errors: Mapping[TopicPartition | MemberEntry, CoterieError] = field(
        default_factory=dict
    )
    """The errors of partitions and members that failed."""
    is_answered: bool = True
    """Whether the cluster responded; without a response, writes may have happened."""
    prior: Mapping[TopicPartition, client.CommittedOffset] | None = None
    """The committed offsets just before; None when they were not read."""
    warnings: tuple[str, ...] = ()
    """What may have been changed besides, one sentence each."""

    @property
    def has_written(self) -> bool:
        """Whether the group was changed, so that `undo` has something to restore."""
        return self.verdict in {Verdict.DONE, Verdict.PARTIAL}


RESULTS_SCHEMA: Final = "coterie.plan-results"
RESULTS_SCHEMA_VERSION: Final = 1
RESULTS_SUFFIX: Final = ".results.jsonl"
"""The end of the name of a result file, after the name of its plan file."""


@dataclass(frozen=True, slots=True)
class ResultHead:
    """The first line of a result file."""

    schema: str = field(default=RESULTS_SCHEMA, kw_only=True)
    schema_version: int = field(default=RESULTS_SCHEMA_VERSION, kw_only=True)
    plan_id: str


@dataclass(frozen=True, slots=True)
class ResultLine:
    """The outcome of one attempt of an item."""

    item_id: str
    action: Action
    group_id: GroupId
    verdict: Verdict
    reasons: tuple[str, ...]
    at: str
    """UTC."""
    snapshot_id: str
    """The snapshot of its prior offsets, if anything was written."""


class ResultFile:
    """The results of one plan. Raises SettingError for a file of another plan.

    The result of a line that was cut short is unknown: its item has the previous result
    or none, and the next run compares the group with the plan again.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self._plan_id = plan.plan_id
        self._head = encode_line(ResultHead(self._plan_id))
        self._is_new = not path.exists()
        data = b"" if self._is_new else self._read()
        # A crash can cut the head short; a file of any other kind is left alone.
        self._has_head = b"\n" in data or not self._head.startswith(data)
        lines = self._decode(data) if self._has_head else ()
        self.last = {line.item_id: line for line in lines}
        """The last result of each item."""

    def is_done(self, item_id: str) -> bool:
        """Return whether an item is completed and can be skipped."""
        return item_id in self.last and self.last[item_id].verdict.is_good

    def result_of(self, item: PlanItem) -> ItemResult:
        """Return the last result of an item."""
        line = self.last[item.item_id]
        return ItemResult(item, line.verdict, line.reasons)

    def begin(self) -> None:
        """Create the file with its header line unless it exists.

        Called before anything is applied. Raises SettingError, and OutputError for a
        full disk.
        """
        if not self._has_head:
            self._append(self._head)
            self._is_new = False
            self._has_head = True

    def add(self, result: ItemResult, at_ms: int, snapshot_id: str) -> None:
        """Append a result and sync it to the disk."""
        item = result.item
        line = ResultLine(
            item.item_id,
            item.action,
            item.group_id,
            result.verdict,
            result.reasons,
            utc_text(at_ms),
            snapshot_id,
        )
        self.begin()
        self._append(encode_line(line))
        self.last[item.item_id] = line

    def _append(self, data: bytes) -> None:
        try:
            append_durably(self.path, data, is_new=self._is_new)
        except OSError as error:
            raise write_error(self.path, error) from error

    def _read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise SettingError(f"{self.path}: {error.strerror}") from error

    def _decode(self, data: bytes) -> tuple[ResultLine, ...]:
        try:
            head, *lines = data.split(b"\n")
            plan_id = decode_document(
                head, ResultHead, RESULTS_SCHEMA, RESULTS_SCHEMA_VERSION
            ).plan_id
            if plan_id != self._plan_id:
                raise SettingError(
                    f"these are the results of plan {plan_id}, not of {self._plan_id}:"
                    " name another file with --results"
                )
            return tuple(
                msgspec.json.decode(line, type=ResultLine) for line in lines[:-1]
            )
        except (SettingError, msgspec.DecodeError) as error:
            raise SettingError(f"{self.path}: {error}") from error
