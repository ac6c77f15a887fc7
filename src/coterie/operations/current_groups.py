"""The current groups before a write: state, members and committed offsets.

A share group has start offsets in the place of committed ones (KIP-932): they are read,
planned and restored in the same way, without metadata and leader epochs.

Stable offsets are requested, so a partition with an open transaction is an error
instead of an old offset (KIP-447).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from coterie import client
from coterie.errors import CoterieError, OperationRefused, code_of
from coterie.types import GroupId, TopicPartition


@dataclass(frozen=True, slots=True)
class CurrentGroup:
    """The state of one group at the time of the read."""

    group_id: GroupId
    description: client.GroupDescription | None
    """None when the group does not exist."""
    offsets: client.GroupOffsets

    @property
    def state(self) -> client.GroupState:
        """The group's state; Dead when it does not exist."""
        return (
            client.GroupState.DEAD
            if self.description is None
            else self.description.state
        )

    @property
    def is_share(self) -> bool:
        """Whether this is a share group."""
        return (
            self.description is not None
            and self.description.type is client.GroupType.SHARE
        )

    @property
    def committed(self) -> Mapping[TopicPartition, client.CommittedOffset]:
        """The committed offsets, or the start offsets of a share group, sorted."""
        return {
            partition: offset
            for partition, offset in sorted(self.offsets.offsets.items())
            if offset is not None
        }


async def read_current_groups(
    admin: client.AdminClient,
    group_ids: Iterable[GroupId],
    also: Mapping[GroupId, Collection[TopicPartition]] | None = None,
) -> client.Results[GroupId, CurrentGroup]:
    """Read groups, missing ones included, with all their committed offsets.

    `also` names partitions to read even without a commit: an open transaction may be
    about to commit them.
    """
    wanted = tuple(dict.fromkeys(group_ids))
    if not wanted:
        return client.Results()
    described = await admin.groups.describe(wanted)
    errors = {
        each: error
        for each, error in described.errors.items()
        if not _is_missing_group(error)
    }
    readable = [each for each in wanted if each not in errors]
    share_ids = [
        each
        for each in readable
        if each in described.values
        and described.values[each].type is client.GroupType.SHARE
    ]
    others = dict.fromkeys(readable, None)
    for each in share_ids:
        del others[each]
    all_offsets = await _read_offsets(admin, others)
    if share_ids:
        starts = await _read_starts(admin, share_ids)
        all_offsets = client.Results(
            {**all_offsets.values, **starts.values},
            {**all_offsets.errors, **starts.errors},
        )
    named = {
        group_id: sorted(set(partitions) - set(all_offsets.values[group_id].offsets))
        for group_id, partitions in (also or {}).items()
        if group_id in all_offsets.values and group_id in others
    }
    more = await _read_offsets(
        admin, {each: partitions for each, partitions in named.items() if partitions}
    )
    errors |= {**all_offsets.errors, **more.errors}
    groups = {}
    for group_id in readable:
        if group_id in errors:
            continue
        offsets = all_offsets.values[group_id]
        if (extra := more.values.get(group_id)) is not None:
            offsets = client.GroupOffsets(
                {**offsets.offsets, **extra.offsets}, {**offsets.errors, **extra.errors}
            )
        description = described.values.get(group_id)
        groups[group_id] = CurrentGroup(group_id, description, offsets)
    return client.Results(groups, errors)


async def _read_offsets(
    admin: client.AdminClient,
    wanted: Mapping[GroupId, Collection[TopicPartition] | None],
) -> client.Results[GroupId, client.GroupOffsets]:
    """Fetch committed offsets; a missing group has none."""
    if not wanted:
        return client.Results()
    fetched = await admin.group_offsets.fetch_many(wanted, require_stable=True)
    missing = [each for each, err in fetched.errors.items() if _is_missing_group(err)]
    return client.Results(
        {**fetched.values, **dict.fromkeys(missing, client.GroupOffsets({}))},
        {each: err for each, err in fetched.errors.items() if each not in missing},
    )


async def _read_starts(
    admin: client.AdminClient, group_ids: Iterable[GroupId]
) -> client.Results[GroupId, client.GroupOffsets]:
    """Fetch the start offsets of share groups."""
    fetched = await admin.share_groups.fetch_offsets(dict.fromkeys(group_ids))
    starts = {
        each: offsets.as_commits(with_epochs=False)
        for each, offsets in fetched.values.items()
    }
    return client.Results(starts, fetched.errors)


def _is_missing_group(error: CoterieError) -> bool:
    return code_of(error) is client.ErrorCode.GROUP_ID_NOT_FOUND


def refuse_active(group: CurrentGroup) -> None:
    """Raise OperationRefused when the group may have members (C-61, E29-07)."""
    if group.state.is_active:
        # The message is that of Kafka's ConsumerGroupCommand.
        raise OperationRefused(
            f"Assignments can only be reset if the group '{group.group_id}' is "
            f"inactive, but the current state is {group.state.value}."
        )
