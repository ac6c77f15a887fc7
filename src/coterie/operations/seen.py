"""Groups as they stand before something is written: state, members and offsets.

Committed offsets are asked for as stable ones, so that a partition in an open
transaction is an error and not an old offset (KIP-447).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from coterie.client.admin.group_values import GroupDescription, GroupState
from coterie.client.admin.offset_values import CommittedOffset, GroupOffsets
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError, OperationRefused
from coterie.operations.admin import GroupReader
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode


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
    admin: GroupReader,
    group_ids: Iterable[GroupId],
    also: Mapping[GroupId, Collection[TopicPartition]] | None = None,
) -> Results[GroupId, GroupSeen]:
    """The groups of those ids with all their offsets; one that does not exist too.

    `also` names partitions that are looked at even if nothing is committed for them
    yet: an open transaction may be about to.
    """
    wanted = tuple(dict.fromkeys(group_ids))
    if not wanted:
        return Results()
    described = await admin.describe_groups(wanted)
    asked = [each for each in wanted if not _is_broken(described.errors.get(each))]
    found = await _offsets(admin, dict.fromkeys(asked, None))
    more = {
        each: sorted(set(partitions) - set(found.values[each].offsets))
        for each, partitions in (also or {}).items()
        if each in found.values
    }
    named = await _offsets(admin, {each: more[each] for each in more if more[each]})
    errors = {
        **{each: described.errors[each] for each in wanted if each not in asked},
        **found.errors,
        **named.errors,
    }
    seen = {
        each: GroupSeen(
            each,
            described.values.get(each),
            _merged(found.values[each], named.values.get(each)),
        )
        for each in asked
        if each not in errors
    }
    return Results(seen, errors)


async def _offsets(
    admin: GroupReader, wanted: Mapping[GroupId, Collection[TopicPartition] | None]
) -> Results[GroupId, GroupOffsets]:
    """What groups committed; one that is not there committed nothing."""
    if not wanted:
        return Results()
    found = await admin.list_groups_offsets(wanted, require_stable=True)
    missing = [each for each, error in found.errors.items() if not _is_broken(error)]
    return Results(
        {**found.values, **dict.fromkeys(missing, GroupOffsets({}))},
        {each: error for each, error in found.errors.items() if each not in missing},
    )


def _merged(found: GroupOffsets, named: GroupOffsets | None) -> GroupOffsets:
    if named is None:
        return found
    return GroupOffsets(
        {**found.offsets, **named.offsets}, {**found.errors, **named.errors}
    )


def _is_broken(error: CoterieError | None) -> bool:
    """Whether it is more than that there is no such group."""
    if error is None:
        return False
    is_missing = isinstance(error, ApiError) and error.code is (
        ErrorCode.GROUP_ID_NOT_FOUND
    )
    return not is_missing


def refuse_active(seen: GroupSeen) -> None:
    """Raises OperationRefused when the group may have members (C-61, E29-07)."""
    if seen.state.is_active:
        raise OperationRefused(
            f"Assignments can only be reset if the group '{seen.group_id}' is inactive,"
            f" but the current state is {seen.state.value}."
        )
