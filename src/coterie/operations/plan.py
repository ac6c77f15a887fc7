"""The plan file: what is to be done to which groups, and what was seen of them.

Whoever writes such a file (`coterie groups plan`, the pipeline's clean-up, a person)
says what a group looked like; `apply` reads the group again and refuses what changed
since. docs/plan-files.md shows one; these classes are its schema, field by field.

A plan is one JSON object. Fields that a reader does not know are passed over; a
`schema_version` that is newer than ours is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import msgspec

from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import SettingError
from coterie.operations.documents import decode_document, encode_document
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition

SCHEMA: Final = "coterie.plan"
SCHEMA_VERSION: Final = 1

_NotNegative = msgspec.Meta(ge=0)


class Action(Enum):
    """What is done to a group."""

    RESET = "reset"
    """Commit what a scenario came to."""
    SET = "set"
    """Commit exact offsets."""
    CLONE = "clone"
    """Commit what another group had committed when the plan was made."""
    DELETE_OFFSETS = "delete-offsets"
    """Forget some committed offsets."""
    DELETE_GROUP = "delete-group"
    """Forget the group and all its offsets."""
    REMOVE_MEMBERS = "remove-members"
    """Make members leave."""
    RESTORE = "restore"
    """Bring back what a snapshot kept; `undo` makes these."""


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """A committed offset, or that there is none."""

    topic: TopicName
    partition: Annotated[int, _NotNegative]
    offset: Annotated[LogOffset, _NotNegative] | None
    """None: no commit. Among what is seen it is told only of partitions that the
    action is about; among what is wanted it means that the commit is deleted."""
    leader_epoch: int | None = None
    metadata: str = ""

    @property
    def at(self) -> TopicPartition:
        """Its partition by name."""
        return TopicPartition(self.topic, self.partition)

    @property
    def committed(self) -> CommittedOffset | None:
        """As the admin client has it."""
        if self.offset is None:
            return None
        return CommittedOffset(self.offset, self.leader_epoch, self.metadata)


def entry_of(at: TopicPartition, committed: CommittedOffset | None) -> OffsetEntry:
    """An entry from the admin client's values."""
    if committed is None:
        return OffsetEntry(at.topic, at.partition, None)
    return OffsetEntry(
        at.topic,
        at.partition,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
    )


def entries_of(
    offsets: Mapping[TopicPartition, CommittedOffset | None],
) -> tuple[OffsetEntry, ...]:
    """Entries in the order of topics and partitions."""
    return tuple(entry_of(at, offsets[at]) for at in sorted(offsets))


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A group as it stood when the plan was made. What is null is not compared."""

    exists: bool
    state: str | None = None
    """Kafka's word: Empty, Stable and so on; Dead when it does not exist."""
    type: str | None = None
    """classic or consumer."""
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    generation_id: int | None = None
    members: tuple[str, ...] = ()
    """Member ids, sorted."""
    offsets: tuple[OffsetEntry, ...] = ()
    """All of its committed offsets, in the order of topics and partitions."""


@dataclass(frozen=True, slots=True)
class MemberEntry:
    """A member to be removed: by its member id, or by its instance id if static."""

    member_id: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlanItem:
    """One action on one group."""

    item_id: str
    """Unique in its plan, and the same whenever the plan is made again."""
    action: Action
    group_id: GroupId
    seen: SeenGroup
    offsets: tuple[OffsetEntry, ...] = ()
    """What the group is to have committed; partitions that are not named stay."""
    members: tuple[MemberEntry, ...] = ()
    """Who is removed; remove-members only."""
    source: GroupId | None = None
    """Whose offsets these were; clone only."""
    reason: str = ""
    """Why, for those who review the plan."""

    @property
    def wanted(self) -> Mapping[TopicPartition, CommittedOffset | None]:
        """What is to be committed for each partition; None: nothing any more."""
        return {entry.at: entry.committed for entry in self.offsets}


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan file."""

    schema: str = field(default=SCHEMA, kw_only=True)
    schema_version: int = field(default=SCHEMA_VERSION, kw_only=True)
    plan_id: str
    """Any word that is not used twice; results and snapshots refer to it."""
    made_at: str
    """UTC, as in 2026-11-21T10:00:00.000Z."""
    cluster_id: str | None
    """Where the groups live; null on brokers before 0.10.1."""
    items: tuple[PlanItem, ...]
    """One for each group, in the order in which they are applied."""
    command: str = ""
    """What made the plan."""


def item_id_of(action: Action, group_id: GroupId) -> str:
    """The id of an item: the action and the group."""
    return f"{action.value}:{group_id}"


def encode_plan(plan: Plan) -> bytes:
    """A plan as its file, for people to review."""
    return encode_document(plan)


def decode_plan(data: bytes) -> Plan:
    """The plan of a file. Raises SettingError, which says what is wrong where."""
    plan = decode_document(data, Plan, SCHEMA, SCHEMA_VERSION)
    twice = [group for group, n in Counter(_groups(plan)).items() if n > 1]
    if twice:
        raise SettingError(
            f"group {twice[0]!r} has two items: what the first does would make the"
            " second look out of date, so make two plans"
        )
    return plan


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises SettingError."""
    try:
        return decode_plan(path.read_bytes())
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}") from error
    except SettingError as error:
        raise SettingError(f"{path}: {error}") from error


def _groups(plan: Plan) -> list[GroupId]:
    return [item.group_id for item in plan.items]
