"""A poll of a cluster: the lag, the time lag and the rebalances of its groups.

    poller = Poller(admin, PollPlan(Selection(), interval_ms=30_000))
    poll = await poller.poll()

Whatever the number of groups, a poll is one round of requests: ListGroups to each
broker, descriptions and committed offsets in batches, log starts and ends once for all
groups. Queries for time lags are bounded by `log_times`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from coterie.client.admin.groups import GroupListing
from coterie.errors import CoterieError
from coterie.operations.exporter.log_times import LogTimes
from coterie.operations.exporter.rebalances import RebalanceCounts
from coterie.operations.lag import (
    GroupLag,
    GroupLagReport,
    PartitionLag,
    group_lag,
)
from coterie.operations.selection import Selection, SelectionResult, select_groups
from coterie.operations.time_lag import LagPosition, TimeLag
from coterie.types import LogOffset, TopicName, TopicPartition

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient


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
class PollPlan:
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

    listing: GroupListing
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
    duration_ms: int
    cpu_s: float
    """CPU time of the thread that polled."""


class Poller:
    """Polls one cluster, and keeps what the next poll compares with."""

    def __init__(
        self,
        admin: AdminClient,
        plan: PollPlan,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._admin = admin
        self._plan = plan
        self._now_ms = now_ms
        self._times = LogTimes(plan.interval_ms)
        self._rebalances = RebalanceCounts()

    async def poll(self) -> Poll:
        """Poll once. Raises CoterieError when the cluster cannot be reached."""
        plan, admin = self._plan, self._admin
        began_s, cpu_began_s = time.monotonic(), time.thread_time()
        cluster = await admin.describe_cluster()
        selected = await select_groups(admin, plan.selection, must_list=True)
        if selected.node_errors and not selected.groups:
            raise next(iter(selected.node_errors.values()))
        from_ms = self._now_ms()
        report = await group_lag(
            admin,
            selected.ids,
            topics=_topics(plan),
            committed_only=plan.committed_only,
        )
        to_ms = self._now_ms()
        starts, ends = _log_offsets(report)
        if plan.with_time_lag:
            self._times.add_ends(ends, from_ms, to_ms)
            behind = {
                each
                for row in report.rows
                if row.lag and (each := _position(row)) is not None
            }
            await self._times.refine(admin, behind, to_ms)
        listed = {each.group_id: each for each in selected.groups}
        groups = []
        for count, group in enumerate(report.groups):
            polled = self._polled(listed[group.group_id], group, to_ms)
            if polled.partitions or polled.lag.error or plan.topics.matches_all:
                groups.append(polled)
            if count % 500 == 0:
                await asyncio.sleep(0)  # a cancelled poll ends here
        if not selected.node_errors:
            self._rebalances.keep(selected.ids)
        return Poll(
            cluster_name=plan.cluster_name or cluster.cluster_id or "",
            groups=tuple(groups),
            log_starts=starts,
            log_ends=ends,
            failed=_failed(selected, groups),
            duration_ms=round((time.monotonic() - began_s) * 1000),
            cpu_s=time.thread_time() - cpu_began_s,
        )

    def _polled(
        self, listing: GroupListing, group: GroupLag, now_ms: int
    ) -> PolledGroup:
        rebalances: int | None = None
        if group.description is not None:
            self._rebalances.add(group.description)
            rebalances = self._rebalances.counts[group.group_id]
        topics = self._plan.topics
        partitions: dict[TopicPartition, PolledPartition] = {}
        for row in group.rows:
            at = row.topic_partition
            # While a group rebalances, two members may claim a partition.
            if at is None or at in partitions or at.topic not in topics:
                continue
            time_lag: TimeLag | None = None
            if self._plan.with_time_lag:
                position = _position(row)
                time_lag = TimeLag()
                if position is not None:
                    time_lag = self._times.time_lag(position, now_ms)
            partitions[at] = PolledPartition(at, row, time_lag)
        ordered = tuple(partitions[each] for each in sorted(partitions))
        return PolledGroup(listing, group, ordered, rebalances)


def _log_offsets(
    report: GroupLagReport,
) -> tuple[dict[TopicPartition, LogOffset], dict[TopicPartition, LogOffset]]:
    """Return the log starts and the log ends of a report."""
    starts: dict[TopicPartition, LogOffset] = {}
    ends: dict[TopicPartition, LogOffset] = {}
    for row in report.rows:
        if (at := row.topic_partition) is not None:
            if row.log_start is not None:
                starts[at] = row.log_start
            if row.log_end is not None:
                ends[at] = row.log_end
    return starts, ends


def _topics(plan: PollPlan) -> Container[TopicName] | None:
    """Return the topics whose offsets are read; None means all."""
    return None if plan.topics.matches_all else plan.topics


def _position(row: PartitionLag) -> LagPosition | None:
    at = row.topic_partition
    if at is None or row.lag is None or row.log_end is None:
        return None
    return LagPosition(at, row.log_end - row.lag, row.log_end)


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
