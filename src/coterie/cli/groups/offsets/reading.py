"""Reads the offsets of the groups that a command is about."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coterie.cli.groups.meant import meant_groups
from coterie.cli.groups.partitions import read_scope
from coterie.cli.output.values import Failure
from coterie.cli.running import Run
from coterie.client.admin.offset_values import GroupOffsets
from coterie.errors import ApiError
from coterie.operations.scope import ALL_COMMITTED, Scope, is_in_scope
from coterie.operations.seen import GroupSeen, see_groups
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class ReadGroups:
    """Groups with the offsets that were asked for, and what could not be read."""

    groups: tuple[GroupSeen, ...]
    failures: tuple[Failure, ...]


async def read_groups(run: Run) -> ReadGroups:
    """The offsets of the groups that are meant, of the partitions that are meant."""
    scope = read_scope(run.options)
    meant = await meant_groups(run)
    found = await see_groups(run.admin, meant.ids)
    missing = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
    errors = {
        **found.errors,
        **{key: missing for key, each in found.values.items() if _is_missing(each)},
    }
    return ReadGroups(
        tuple(
            _narrowed(found.values[each], scope)
            for each in meant.ids
            if each not in errors
        ),
        (
            *meant.failures,
            *(Failure.of("group", each, errors[each]) for each in sorted(errors)),
        ),
    )


def _is_missing(group: GroupSeen) -> bool:
    return group.description is None and not group.committed


def _narrowed(group: GroupSeen, scope: Scope) -> GroupSeen:
    """The group with the offsets that are meant only."""
    if scope is ALL_COMMITTED:
        return group

    def is_meant(at: TopicPartition) -> bool:
        return is_in_scope(at, scope)

    offsets = GroupOffsets(
        {at: each for at, each in group.offsets.offsets.items() if is_meant(at)},
        {at: each for at, each in group.offsets.errors.items() if is_meant(at)},
    )
    return replace(group, offsets=offsets)
