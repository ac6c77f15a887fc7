"""Resets on a cluster: read what a scenario needs, plan its rows, write them.

Only groups without members are reset (C-61, E29-07); a group that does not exist is
one of them, and the write makes it. Commits are read before the ends of the logs.
What goes wrong with one group, topic or partition stays with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

from coterie.client.admin.offset_values import (
    EARLIEST,
    LATEST,
    AtTime,
    CommittedOffset,
    LogOffsetFound,
    OffsetSpec,
)
from coterie.client.admin.results import Results
from coterie.errors import CoterieError
from coterie.operations.admin import AltersOffsets, GroupReader
from coterie.operations.reset import (
    PartitionSeen,
    ResetRow,
    Scenario,
    ToCommits,
    ToExact,
    ToRows,
    ToTime,
    plan_rows,
)
from coterie.operations.scope import (
    ALL_COMMITTED,
    Scope,
    ScopeFound,
    find_partitions,
)
from coterie.operations.seen import GroupSeen, refuse_active, see_groups
from coterie.types import GroupId, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupReset:
    """What a reset comes to for one group: rows, or an error for the whole group."""

    group_id: GroupId
    rows: tuple[ResetRow, ...] = ()
    seen: GroupSeen | None = None
    """The group as it stood; None when it could not be read."""
    error: CoterieError | None = None

    @property
    def writes(self) -> Mapping[TopicPartition, CommittedOffset]:
        """What is to be committed: the rows that change something."""
        return {
            row.at: row.new for row in self.rows if row.is_write and row.new is not None
        }


async def plan_resets(
    admin: GroupReader,
    scenarios: Mapping[GroupId, Scenario],
    scope: Scope = ALL_COMMITTED,
) -> tuple[GroupReset, ...]:
    """What each group's scenario comes to, in the order of the groups given.

    `scope` says which partitions; rows and exact offsets are their own scope.
    A group without any partition has no rows and no error.
    """
    groups = await see_groups(admin, scenarios)
    topics = await find_partitions(admin, scope or ())
    resets: dict[GroupId, GroupReset] = {}
    asked: list[_Asked] = []
    for group_id, scenario in scenarios.items():
        try:
            seen = groups.one(group_id)
            refuse_active(seen)
        except CoterieError as error:
            known = groups.values.get(group_id)
            resets[group_id] = GroupReset(group_id, seen=known, error=error)
        else:
            partitions = _partitions(seen, scenario, scope, topics)
            asked.append(_Asked(seen, scenario, partitions))
    logs = await _Logs.read(admin, asked)
    for each in asked:
        rows = plan_rows(each.group_id, each.scenario, logs.seen_by(each))
        rows += _rows_of_lost_topics(each, topics)
        resets[each.group_id] = GroupReset(each.group_id, rows, each.seen)
    return tuple(resets[group_id] for group_id in scenarios)


async def write_offsets(
    admin: AltersOffsets,
    group_id: GroupId,
    offsets: Mapping[TopicPartition, CommittedOffset],
) -> Results[TopicPartition, None]:
    """Commit for a group; an error that concerns all of it is every partition's."""
    if not offsets:
        return Results()
    try:
        return await admin.alter_group_offsets(group_id, offsets)
    except CoterieError as error:
        return Results({}, dict.fromkeys(offsets, error))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A group that may be reset, and what is asked of it."""

    seen: GroupSeen
    scenario: Scenario
    partitions: frozenset[TopicPartition]

    @property
    def group_id(self) -> GroupId:
        return self.seen.group_id


def _partitions(
    seen: GroupSeen, scenario: Scenario, scope: Scope, topics: ScopeFound
) -> frozenset[TopicPartition]:
    if isinstance(scenario, ToRows | ToExact | ToCommits):
        return frozenset(scenario.offsets)
    if scope is ALL_COMMITTED:
        return frozenset((*seen.committed, *seen.offsets.errors))
    return frozenset(topics.partitions)


def _rows_of_lost_topics(asked: _Asked, topics: ScopeFound) -> tuple[ResetRow, ...]:
    """A row for each topic whose partitions are not known."""
    if isinstance(asked.scenario, ToRows | ToExact | ToCommits):
        return ()
    return tuple(
        ResetRow(asked.group_id, topic, -1, error=error)
        for topic, error in topics.errors
    )


_Found: TypeAlias = Results[TopicPartition, LogOffsetFound]


@dataclass(frozen=True, slots=True)
class _Logs:
    """The offsets of all logs that some group's scenario is about."""

    starts: _Found
    ends: _Found
    at_times: Mapping[int, _Found]
    """By the time in ms."""

    @classmethod
    async def read(cls, admin: GroupReader, asked: Collection[_Asked]) -> Self:
        """Two questions, and one for each time, whatever the number of groups."""
        everything: set[TopicPartition] = set()
        by_time: dict[int, set[TopicPartition]] = {}
        for each in asked:
            everything |= each.partitions
            if isinstance(each.scenario, ToTime):
                at_ms = each.scenario.timestamp_ms
                by_time.setdefault(at_ms, set()).update(each.partitions)
        starts, ends, *at_times = await asyncio.gather(
            _list_offsets(admin, everything, EARLIEST),
            _list_offsets(admin, everything, LATEST),
            *(
                _list_offsets(admin, partitions, AtTime(at_ms))
                for at_ms, partitions in by_time.items()
            ),
        )
        return cls(starts, ends, dict(zip(by_time, at_times, strict=True)))

    def seen_by(self, asked: _Asked) -> Mapping[TopicPartition, PartitionSeen]:
        """What was read of each partition of a group."""
        at_time: _Found = Results()
        if isinstance(asked.scenario, ToTime):
            at_time = self.at_times[asked.scenario.timestamp_ms]
        return {
            partition: PartitionSeen(
                committed=asked.seen.committed.get(partition),
                start=self.starts.values.get(partition),
                end=self.ends.values.get(partition),
                at_time=at_time.values.get(partition),
                log_error=self.starts.errors.get(partition)
                or self.ends.errors.get(partition)
                or at_time.errors.get(partition),
                commit_error=asked.seen.offsets.errors.get(partition),
            )
            for partition in asked.partitions
        }


async def _list_offsets(
    admin: GroupReader, partitions: Collection[TopicPartition], spec: OffsetSpec
) -> _Found:
    if not partitions:
        return Results()
    return await admin.list_offsets(dict.fromkeys(sorted(partitions), spec))
