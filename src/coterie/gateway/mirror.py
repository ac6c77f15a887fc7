"""Repeat the commits of this node's groups upstream, so that tools there show lag and
going back to the upstream coordinator loses no more than the seconds of an interval.

A pass compares the offsets of each shard with a copy of those that it repeated, and
commits only the partitions that differ, as a simple consumer does (generation -1). Only
durable offsets are repeated, and only while the node owns the shard. Deleted offsets
are deleted upstream, too, if they were repeated by this node.

Upstream refuses a commit for a group that has members there.
The mirror then leaves the group alone until its offsets change here again.

Of the groups of a shard that the node has just taken over there is no copy. For these
the mirror first fetches the offsets upstream, and only moves them forward: they are
newer if consumers have gone back for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from coterie.broker import (
    CoordinatorPartition,
    Packed,
    Runtime,
    Shard,
    response_partition,
    unpack,
)
from coterie.client import AdminClient, CommittedOffset, Results
from coterie.errors import (
    ApiError,
    CoterieError,
    LogError,
    UnsupportedByBroker,
    code_of,
)
from coterie.types import GroupId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

CHUNK: Final = 500
"""The most groups of which changes are collected before they are sent."""
IN_FLIGHT_MAX: Final = 16
"""The most groups whose requests are in flight."""
_SLICE: Final = 100
"""Groups that are compared in one iteration of the event loop."""
_LIVE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
"""Codes for a group that has members upstream."""
_DONE: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND}
)
"""Codes for a topic or a group that is deleted upstream: nothing is left to repeat."""

_Copy: TypeAlias = dict[TopicName, dict[int, Packed]]
"""The offsets of a group that were repeated."""


class _LiveUpstream(Exception):
    """The group has members upstream."""


@dataclass(slots=True)
class _Change:
    """The difference between a group's offsets and those that were repeated."""

    group_id: GroupId
    commits: dict[TopicPartition, CommittedOffset]
    deletions: list[TopicPartition]
    copy: _Copy


@dataclass(slots=True)
class _Mirrored:
    """The offsets of a shard that were repeated, while this node owns it."""

    shard: Shard
    unknown: set[GroupId]
    """Groups of another owner, before the first commit of this node's mirror."""
    groups: dict[GroupId, _Copy] = field(default_factory=dict)


class Mirror:
    """The mirror of a node. `admin` is a client of upstream, and `counts` what was done
    there."""

    def __init__(
        self,
        runtime: Runtime,
        admin: AdminClient,
        interval_s: float,
        counts: Counter[str],
    ) -> None:
        self._counts = counts
        self._runtime = runtime
        self._admin = admin
        self._interval_s = interval_s
        self._mirrored: dict[int, _Mirrored] = {}
        self._live: set[GroupId] = set()
        self._in_flight = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Repeat commits at each interval, until `close`."""
        self._task = asyncio.create_task(self._run())

    async def finish(self, limit_s: float) -> None:
        """Make a last pass of at most `limit_s` before a node is drained."""
        await self.close()
        try:
            async with asyncio.timeout(limit_s):
                await self.mirror_all()
        except TimeoutError:
            _LOGGER.warning(
                "some commits of the last %.0f s are not repeated upstream",
                self._interval_s,
            )

    async def close(self) -> None:
        """Stop at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.mirror_all()
            except Exception:
                _LOGGER.exception("a pass of the mirror failed")

    async def mirror_all(self) -> None:
        """Repeat the changes of all shards of this node."""
        for partition in self._runtime.shards:
            if self._runtime.readable_shard(partition.index) is None:
                self._mirrored.pop(partition.index, None)
            else:
                await self._mirror_shard(partition)

    async def _mirror_shard(self, partition: CoordinatorPartition) -> None:
        mirrored = self._mirrored.get(partition.index)
        if mirrored is None or mirrored.shard is not partition.shard:
            unknown = set(partition.shard.state.offsets.stored)
            mirrored = _Mirrored(partition.shard, unknown)
            self._mirrored[partition.index] = mirrored
        for group_ids in _slices(_group_ids(mirrored), CHUNK):
            changes = []
            for some in _slices(group_ids, _SLICE):
                changes += [*_changes(mirrored, some)]
                await asyncio.sleep(0)
            if changes and await _is_durable(partition):
                await self._send(partition, mirrored, changes)
            if not self._is_owner(partition, mirrored):
                return

    async def _send(
        self,
        partition: CoordinatorPartition,
        mirrored: _Mirrored,
        changes: list[_Change],
    ) -> None:
        failures: list[tuple[GroupId, BaseException]] = []
        try:
            failures += await self._keep_forward(mirrored, changes)
        except CoterieError as error:
            self._failed([(change.group_id, error) for change in changes])
            return
        unknown = dict(failures)
        changes = [each for each in changes if each.group_id not in unknown]
        results = await asyncio.gather(
            *(self._send_one(partition, mirrored, change) for change in changes),
            return_exceptions=True,
        )
        for change, result in zip(changes, results, strict=True):
            if result is None or isinstance(result, _LiveUpstream):
                self._repeated(mirrored, change, is_live=result is not None)
            else:
                failures.append((change.group_id, result))
        if failures:
            self._failed(failures)

    def _failed(self, failures: Sequence[tuple[GroupId, BaseException]]) -> None:
        self._counts["failed"] += len(failures)
        group_id, error = failures[0]
        is_bug = not isinstance(error, CoterieError)
        _LOGGER.warning(
            "changes of %d groups are repeated upstream only in the next pass; group "
            "%s: %s",
            len(failures),
            group_id,
            error,
            exc_info=error if is_bug else None,
        )

    async def _keep_forward(
        self, mirrored: _Mirrored, changes: Sequence[_Change]
    ) -> list[tuple[GroupId, CoterieError]]:
        """Leave out the offsets of unknown groups that are as far upstream, or
        farther. Return the groups whose offsets upstream cannot be fetched, with the
        errors."""
        unknown = [each for each in changes if each.group_id in mirrored.unknown]
        failures: list[tuple[GroupId, CoterieError]] = []
        if not unknown:
            return failures
        wanted = {each.group_id: list(each.commits) for each in unknown}
        fetched = await self._admin.group_offsets.fetch_many(wanted)
        for change in unknown:
            try:
                theirs = fetched.one(change.group_id).all()
            except CoterieError as error:
                failures.append((change.group_id, error))
            else:
                change.commits = dict(_ahead(change.commits, theirs))
        return failures

    async def _send_one(
        self, partition: CoordinatorPartition, mirrored: _Mirrored, change: _Change
    ) -> None:
        async with self._in_flight:
            if not self._is_owner(partition, mirrored):
                raise LogError(f"{partition.name} was released")
            group_id = change.group_id
            if change.commits:
                done = await self._admin.group_offsets.alter(group_id, change.commits)
                _check(done)
                self._counts["committed"] += len(done.values)
            if change.deletions:
                await self._delete(group_id, change.deletions)

    async def _delete(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> None:
        try:
            done = await self._admin.group_offsets.delete(group_id, partitions)
        except UnsupportedByBroker as error:
            _LOGGER.warning("group %s: deletions are not repeated: %s", group_id, error)
            return
        except ApiError as error:
            if error.code in _LIVE:
                raise _LiveUpstream from error
            if error.code not in _DONE:
                raise
            return
        _check(done)
        self._counts["deleted"] += len(done.values)

    def _repeated(self, mirrored: _Mirrored, change: _Change, *, is_live: bool) -> None:
        group_id = change.group_id
        mirrored.unknown.discard(group_id)
        if change.copy:
            mirrored.groups[group_id] = change.copy
        else:
            mirrored.groups.pop(group_id, None)
        if is_live and group_id not in self._live:
            self._live.add(group_id)
            _LOGGER.warning(
                "group %s has members upstream: its commits are not repeated there",
                group_id,
            )
        elif not is_live and group_id in self._live:
            self._live.remove(group_id)
            _LOGGER.info("group %s: commits are repeated upstream again", group_id)

    def _is_owner(self, partition: CoordinatorPartition, mirrored: _Mirrored) -> bool:
        is_readable = self._runtime.readable_shard(partition.index) is not None
        return is_readable and partition.shard is mirrored.shard


def _group_ids(mirrored: _Mirrored) -> list[GroupId]:
    stored = mirrored.shard.state.offsets.stored
    return [*stored, *(each for each in mirrored.groups if each not in stored)]


def _slices(group_ids: Sequence[GroupId], size: int) -> Iterator[Sequence[GroupId]]:
    for start in range(0, len(group_ids), size):
        yield group_ids[start : start + size]


def _changes(mirrored: _Mirrored, group_ids: Sequence[GroupId]) -> Iterator[_Change]:
    stored = mirrored.shard.state.offsets.stored
    for group_id in group_ids:
        before = mirrored.groups.get(group_id, {})
        now = stored.group(group_id)
        if before == now:
            continue
        commits, deletions = compare(before, now)
        copy = {topic: dict(of_topic) for topic, of_topic in now.items()}
        if commits or deletions:
            yield _Change(group_id, commits, deletions, copy)
        else:
            mirrored.groups[group_id] = copy  # committed again as it was


def compare(
    before: Mapping[TopicName, Mapping[int, Packed]],
    now: Mapping[TopicName, Mapping[int, Packed]],
) -> tuple[dict[TopicPartition, CommittedOffset], list[TopicPartition]]:
    """Return the offsets to commit and the partitions to delete, so that `before`
    becomes `now`. Times of commits do not count."""
    commits: dict[TopicPartition, CommittedOffset] = {}
    deletions: list[TopicPartition] = []
    for topic in now.keys() | before.keys():
        old, new = before.get(topic, {}), now.get(topic, {})
        if old == new:
            continue
        for partition, packed in new.items():
            known = old.get(partition)
            if known is None or (
                known is not packed
                and response_partition(known) != response_partition(packed)
            ):
                commits[TopicPartition(topic, partition)] = _offset(packed)
        deletions += [TopicPartition(topic, each) for each in old.keys() - new.keys()]
    return commits, sorted(deletions)


def _offset(packed: Packed) -> CommittedOffset:
    value = unpack(packed)
    epoch = None if value.leader_epoch < 0 else value.leader_epoch
    return CommittedOffset(value.offset, epoch, value.metadata)


def _ahead(
    ours: Mapping[TopicPartition, CommittedOffset],
    theirs: Mapping[TopicPartition, CommittedOffset | None],
) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
    for partition, offset in ours.items():
        there = theirs.get(partition)
        if there is None or offset.offset > there.offset:
            yield partition, offset


def _check(done: Results[TopicPartition, None]) -> None:
    """Raise the error of a partition that was not changed, if it matters."""
    for error in done.errors.values():
        code = code_of(error)
        if code in _LIVE:
            raise _LiveUpstream from error
        if code not in _DONE:
            raise error


async def _is_durable(partition: CoordinatorPartition) -> bool:
    """Wait until the shard's writes are durable; return False when one failed."""
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def durable(error: LogError | None) -> None:
        if not done.done():
            done.set_result(error is None)

    partition.flusher.when_durable(durable)
    return await done
