"""The groups and members in the state of a coordinator that loaded a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from coterie.broker.coordinator.state import State
from coterie.wire import messages as m
from coterie.wire.codec import decode
from tests.testing.log_generator.generated_log import (
    partition_folders,
    replay_partition,
)

Summary: TypeAlias = tuple[str, str, int | None, int]
"""Type, state, epoch or generation, members."""
Assigned: TypeAlias = set[tuple[str, int]]
"""Topic ids, or names in classic groups, and partitions."""


def coordinator_state(
    folder: Path,
) -> tuple[dict[str, Summary], dict[tuple[str, str], Assigned]]:
    """Return the summary of each group, and each member's assigned partitions."""
    groups: dict[str, Summary] = {}
    members: dict[tuple[str, str], Assigned] = {}
    for path in partition_folders(folder):
        state = replay_partition(path).state
        groups |= dict(_groups(state))
        members |= dict(_members(state))
    return groups, members


def assigned_partitions(assigned: Iterable[Mapping[str, Any]]) -> Assigned:
    """Return the assigned partitions in a row of current_members."""
    return {(each["topic_id"] or each["topic"], each["partition"]) for each in assigned}


def _groups(state: State) -> Iterator[tuple[str, Summary]]:
    for name, classic in state.classic_groups.items():
        if classic.is_simple:
            yield name, ("simple", "Empty", None, 0)
        else:
            label = "Stable" if classic.members else "Empty"
            size = len(classic.members)
            yield name, ("classic", label, classic.generation, size)
    for name, group in state.consumer_groups.items():
        label = group.state.value
        yield name, ("consumer", label, group.epoch, len(group.members))


def _members(state: State) -> Iterator[tuple[tuple[str, str], Assigned]]:
    for name, classic in state.classic_groups.items():
        for each in classic.members.values():
            value, _ = decode(m.ConsumerProtocolAssignment, 1, each.assignment, 2)
            yield (
                (name, each.member_id),
                {
                    (topic.topic, partition)
                    for topic in value.assigned_partitions
                    for partition in topic.partitions
                },
            )
    for name, group in state.consumer_groups.items():
        for member in group.members.values():
            held = member.assigned.items()
            parts = {(topic.hex(), each) for topic, some in held for each in some}
            yield (name, member.member_id), parts
