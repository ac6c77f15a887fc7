"""What is always true of a shard's state, as assertions. A test calls `check` after
every step; a step that breaks one is a bug.
"""

from __future__ import annotations

from collections import Counter

from coterie.coordinator.classic.check import check as check_classic_group
from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.consumer.check import check as check_consumer_group
from coterie.coordinator.consumer.topic_index import TopicIndex
from coterie.coordinator.offsets.store import Pending, Stored
from coterie.coordinator.records.group_metadata import GroupMetadataValue
from coterie.coordinator.result import Ticket
from coterie.coordinator.state import State
from coterie.types import GroupId


def check(state: State) -> None:
    """Assert every sentence of this file. Walks the whole state."""
    for group_id, group in state.classic_groups.items():
        assert group.group_id == group_id
        check_classic_group(group)
    for group_id, consumer_group in state.consumer_groups.items():
        assert consumer_group.group_id == group_id
        check_consumer_group(consumer_group)
    both = state.classic_groups.keys() & state.consumer_groups.keys()
    assert not both, f"groups of two types: {both}"
    _check_topic_index(state)
    _check_tickets(state)
    _check_records(state)
    _check_offsets(state)


def _check_topic_index(state: State) -> None:
    """From topics back to groups leads what leads from groups to topics."""
    index = TopicIndex()
    for group_id, group in state.consumer_groups.items():
        for member in group.members.values():
            index.subscribe(group_id, None, member)
        for resolved in group.regexes.values():
            index.resolve(group_id, None, resolved)
    assert state.topic_index == index


def _check_tickets(state: State) -> None:
    """A request is parked in one place only."""
    tickets: Counter[Ticket] = Counter()
    for group in state.classic_groups.values():
        tickets.update(group.joins.values())
        tickets.update(group.syncs.values())
    assert all(count == 1 for count in tickets.values())


def _check_records(state: State) -> None:
    """What the log says of a group is what a settled group is."""
    for group_id, record in state.group_records.items():
        value = record.value
        assert isinstance(value, GroupMetadataValue)
        group = state.classic_groups.get(group_id)
        assert group is not None, group_id
        if group.state is GroupState.STABLE:
            assert group.generation == value.generation
            assert [*group.members] == [each.member_id for each in value.members]


def _check_offsets(state: State) -> None:
    stored, pending = state.offsets.stored, state.offsets.pending
    for group_id in {*stored, *pending.groups()}:
        assert state.group(group_id) is not None, "a group with offsets exists"
        _check_stored(stored, group_id)
    _check_pending(pending)


def _check_stored(stored: Stored, group_id: GroupId) -> None:
    of_group = stored.group(group_id)
    assert bool(of_group) == (group_id in stored), "no group is kept without offsets"
    assert all(of_group.values()), "no topic is kept without offsets"


def _check_pending(pending: Pending) -> None:
    by_group: dict[GroupId, set[int]] = {}
    for producer_id, transaction in pending.transactions.items():
        assert transaction.groups, "no transaction is kept without offsets"
        for group_id, offsets in transaction.groups.items():
            assert offsets, "no group is kept without offsets"
            by_group.setdefault(group_id, set()).add(producer_id)
    assert by_group == {
        group_id: {*pending.producers(group_id)} for group_id in pending.groups()
    }
