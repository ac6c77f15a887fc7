"""Groups as they stand before something is written: state, members and offsets.

Committed offsets are asked for as stable ones, so that a partition in an open
transaction is an error and not an old offset (KIP-447).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from coterie.client.admin.group_values import GroupDescription, GroupState
from coterie.client.admin.offset_values import CommittedOffset, GroupOffsets
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError, OperationRefused
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode


class SeesGroups(Protocol):
    """That much of the admin client."""

    async def describe_groups(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, GroupDescription]:
        """The groups of those ids."""
        ...

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
    ) -> Results[GroupId, GroupOffsets]:
        """The committed offsets of groups; None: all of them."""
        ...


@dataclass(frozen=True, slots=True)
class GroupSeen:
    """One group as it stood when it was read."""

    group_id: GroupId
    description: GroupDescription | None
    """None when the group does not exist."""
    offsets: GroupOffsets

    @property
    def state(self) -> GroupState:
        """Its state; Dead when it does not exist."""
        if self.description is None:
            return GroupState.DEAD
        return self.description.state

    @property
    def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The offsets it has, sorted."""
        return {
            partition: offset
            for partition, offset in sorted(self.offsets.offsets.items())
            if offset is not None
        }


async def see_groups(
    admin: SeesGroups, group_ids: Iterable[GroupId]
) -> Results[GroupId, GroupSeen]:
    """The groups of those ids with all their offsets; one that does not exist too."""
    wanted = tuple(dict.fromkeys(group_ids))
    if not wanted:
        return Results()
    described = await admin.describe_groups(wanted)
    errors = {
        group_id: error
        for group_id, error in described.errors.items()
        if not _is_missing(error)
    }
    asked = [group_id for group_id in wanted if group_id not in errors]
    found = await admin.list_groups_offsets(
        dict.fromkeys(asked, None), require_stable=True
    )
    seen: dict[GroupId, GroupSeen] = {}
    for group_id in asked:
        error = found.errors.get(group_id)
        if error is not None and not _is_missing(error):
            errors[group_id] = error
            continue
        offsets = GroupOffsets({}) if error else found.values[group_id]
        seen[group_id] = GroupSeen(group_id, described.values.get(group_id), offsets)
    return Results(seen, errors)


def refuse_active(seen: GroupSeen) -> None:
    """Raises OperationRefused when the group may have members (C-61, E29-07)."""
    if seen.state.is_active:
        raise OperationRefused(
            f"Assignments can only be reset if the group '{seen.group_id}' is inactive,"
            f" but the current state is {seen.state.value}."
        )


def _is_missing(error: CoterieError) -> bool:
    return isinstance(error, ApiError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND
