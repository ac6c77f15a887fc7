"""A poll of a cluster: the lag, the time lag and the rebalances of its groups.

    poller = Poller(admin, PollOptions(Selection(), interval_ms=30_000))
    poll = await poller.poll()

Whatever the number of groups, a poll is one round of requests: ListGroups to each
broker, descriptions and committed offsets in batches, log starts and ends once for all
groups. Queries for time lags are bounded by `log_times`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, NamedTuple

from coterie import client
from coterie.errors import CoterieError, code_of
from coterie.operations.exporter.log_times import LogTimes
from coterie.operations.exporter.rebalances import RebalanceCounts
from coterie.operations.hidden_topics import may_hide_topics
from coterie.operations.lag import (
    GroupLag,
    PartitionLag,
    each_partition,
    group_lag,
    lag_position,
)
from coterie.operations.selection import Selection, SelectionResult, select_groups
from coterie.operations.time_lag import NO_LAG, LagPosition, TimeLag
from coterie.operations.topic_ids import read_topic_ids
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition

_UNKNOWN: Final = TimeLag()


class TopicFilter(Container[TopicName]):
    """Topics by globs: those that match any pattern, or all without patterns, except
    those that match an excluded one."""

    def __init__(self, globs: tuple[str, ...] = (), excludes: tuple[str, ...] = ()):
        self._globs = globs
        self._excludes = excludes
        self._matches = lru_cache(maxsize=10_000)(self._match)

    def __contains__(self, topic: object) -> bool:
        return isinstance(topic, str) and self._matches(topic)

    @property
    def matches_all(self) -> bool:
        """Whether every topic matches."""
        return not (self._globs or self._excludes)

    def _match(self, topic: TopicName) -> bool:
        if any(fnmatchcase(topic, each) for each in self._excludes):
            return False
        return not self._globs or any(fnmatchcase(topic, each) for each in self._globs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOptions:
    """The groups and topics to poll, and how.

    `cluster_name` replaces the cluster id in metrics.
    """

    selection: Selection
    topics: TopicFilter
    interval_ms: int
    with_time_lag: bool = True
    committed_only: bool = False
    cluster_name: str | None = None


class PolledPartition(NamedTuple):
    """The lag of a group on a partition, and in time."""

    at: TopicPartition
    lag: PartitionLag
    time_lag: TimeLag | None
    """None when time lags are not polled."""


class PolledGroup(NamedTuple):
    """A group, its partitions sorted, and its rebalances since it was first polled."""

    listing: client.GroupListing
    lag: GroupLag
    partitions: tuple[PolledPartition, ...]
    rebalances: int | None
    """None when the group could not be described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """The result of a poll. An item that could not be read is counted in `failed`."""

    cluster_name: str
    groups: tuple[PolledGroup, ...]
    log_starts: dict[TopicPartition, LogOffset]
    log_ends: dict[TopicPartition, LogOffset]
    failed: dict[str, int]
    """The number of nodes, groups and partitions with an error."""
    measured_ms: int
    """The time (ms since 1970) after the log ends were read; time lags end there."""
    duration_ms: int
    cpu_s: float
    """CPU time of the thread that polled."""
    missing: tuple[GroupId, ...] = ()
    """Named groups that do not exist; empty while a node does not list its groups."""
    may_hide_topics: bool = False
    """Whether the principal may not describe some topics, whose partitions are then
    missing (`operations.hidden_topics`); as of the first poll with a group."""


class Poller:
    """Polls one cluster, and keeps what the next poll compares with."""

    def __init__(
        self,
        admin: client.AdminClient,
        options: PollOptions,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._admin = admin
        self._options = options
        self._now_ms = now_ms
        self._times = LogTimes(
            options.interval_ms, committed_only=options.committed_only
        )
        self._rebalances = RebalanceCounts()
        self._hides_topics: bool | None = None

    async def poll(self) -> Poll:
        """Poll once. Raises CoterieError when the cluster cannot be reached."""
        options, admin = self._options, self._admin
        began_s, cpu_began_s = time.monotonic(), time.thread_time()
        cluster = await admin.brokers.describe()
        selected = await select_groups(admin, options.selection, must_list=True)
        if selected.node_errors and not selected.groups:
            raise next(iter(selected.node_errors.values()))
        from_ms = self._now_ms()
        report = await group_lag(
            admin,
            selected.ids,
            topics=_topics(options),
            committed_only=options.committed_only,
        )
        to_ms = self._now_ms()
        if self._hides_topics is None and selected.ids:
            self._hides_topics = await may_hide_topics(admin, selected.ids)
        rows = {each.group_id: _rows(each, options.topics) for each in report.groups}
        starts, ends = _log_offsets(rows)
        lags: dict[LagPosition, TimeLag] = {}
        if options.with_time_lag:
            topic_ids = await read_topic_ids(admin, (at.topic for at in ends))
            self._times.add_ends(ends, topic_ids, from_ms, to_ms)
            positions = {
                row.position
                for own in rows.values()
                for row in own.values()
                if row.position is not None
            }
            lags = await self._times.time_lags(admin, positions, to_ms)
        listed = {each.group_id: each for each in selected.groups}
        groups = []
        for group in report.groups:
            own = rows.pop(group.group_id)
            if _is_gone(group, listed[group.group_id]):
                continue
            if own or group.error or options.topics.matches_all:
                partitions = self._partitions(own, lags)
                rebalances = self._count_rebalances(group)
                listing = listed[group.group_id]
                groups.append(PolledGroup(listing, group, partitions, rebalances))
        if not selected.node_errors:
            self._rebalances.keep(selected.ids)
        return Poll(
            cluster_name=options.cluster_name or cluster.cluster_id or "",
            groups=tuple(groups),
            log_starts=starts,
            log_ends=ends,
            failed=_failed(selected, groups),
            measured_ms=to_ms,
            duration_ms=round((time.monotonic() - began_s) * 1000),
            cpu_s=time.thread_time() - cpu_began_s,
            missing=() if selected.node_errors else selected.missing,
            may_hide_topics=bool(self._hides_topics),
        )

    def _partitions(
        self,
        rows: Mapping[TopicPartition, _Row],
        lags: Mapping[LagPosition, TimeLag],
    ) -> tuple[PolledPartition, ...]:
        with_time_lag = self._options.with_time_lag
        return tuple(
            PolledPartition(
                at, rows[at].lag, _time_lag(rows[at], lags) if with_time_lag else None
            )
            for at in sorted(rows)
        )

    def _count_rebalances(self, group: GroupLag) -> int | None:
        if group.description is None:
            return None
        self._rebalances.add(group.description)
        return self._rebalances.counts[group.group_id]


class _Row(NamedTuple):
    lag: PartitionLag
    position: LagPosition | None
    """None when the lag is 0 or unknown."""


def _rows(group: GroupLag, topics: TopicFilter) -> dict[TopicPartition, _Row]:
    """Return the rows of the partitions of a group."""
    return {
        at: _Row(row, lag_position(row) if row.lag else None)
        for at, row in each_partition(group.rows).items()
        if at.topic in topics
    }


def _log_offsets(
    rows: Mapping[GroupId, Mapping[TopicPartition, _Row]],
) -> tuple[dict[TopicPartition, LogOffset], dict[TopicPartition, LogOffset]]:
    """Return the log starts and the log ends."""
    starts: dict[TopicPartition, LogOffset] = {}
    ends: dict[TopicPartition, LogOffset] = {}
    for own in rows.values():
        for at, row in own.items():
            if row.lag.log_start is not None:
                starts[at] = row.lag.log_start
            if row.lag.log_end is not None:
                ends[at] = row.lag.log_end
    return starts, ends


def _is_gone(group: GroupLag, listing: client.GroupListing) -> bool:
    """Return whether a group was deleted after it was listed. Older brokers do not find
    groups of newer types, which exist."""
    error = group.error
    return code_of(error) is client.ErrorCode.GROUP_ID_NOT_FOUND and listing.type in {
        None,
        client.GroupType.CLASSIC,
        client.GroupType.CONSUMER,
    }


def _time_lag(row: _Row, lags: Mapping[LagPosition, TimeLag]) -> TimeLag:
    if row.position is not None:
        return lags[row.position]
    return _UNKNOWN if row.lag.lag is None else NO_LAG


def _topics(options: PollOptions) -> Container[TopicName] | None:
    """Return the topics whose offsets are read; None means all."""
    return None if options.topics.matches_all else options.topics


def _failed(selected: SelectionResult, groups: list[PolledGroup]) -> dict[str, int]:
    failed = sum(1 for each in groups if each.lag.error is not None)
    return {
        "node": len(selected.node_errors),
        "group": len(selected.errors) + failed,
        "partition": sum(
            1
            for each in groups
            if each.lag.error is None
            for part in each.partitions
            if part.lag.error is not None
        ),
    }


def error_name(error: Exception) -> str:
    """Return a name for an error that is the same each time, for a label: its code for
    an error of Kafka, else its class."""
    code = getattr(error, "code", None)
    if isinstance(error, CoterieError) and code is not None:
        return str(getattr(code, "name", code))
    return type(error).__name__
