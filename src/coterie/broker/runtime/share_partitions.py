"""The share partitions in use: loading, acquisition locks, and waiting fetches.

A share partition is made from its stored state when a fetch first needs it. Acquired
records, their locks and the sessions are in memory only. What a member acknowledges is
staged as an update of the state; the state machine completes it, and the response is
sent, once it is durable.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.catalog.catalog import TopicChange
from coterie.broker.coordinator.result import CancelTimer, Timer
from coterie.broker.coordinator.share_partition.acknowledge import (
    Acknowledgement,
    acknowledge,
)
from coterie.broker.coordinator.share_partition.partition import (
    ShareLimits,
    SharePartition,
)
from coterie.broker.coordinator.share_partition.state import (
    UNINITIALIZED,
    ShareKey,
    StateUpdate,
)
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.decoding import LOOP_BATCH_BYTES
from coterie.broker.runtime.partitions import Partition
from coterie.broker.runtime.share_state import ShareStates
from coterie.broker.runtime.timers import Timers, TimerTable
from coterie.errors import ApiError, MalformedFrame
from coterie.types import GroupId, LogOffset, MemberId, ShareGroupConfigs
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import record_times

Acknowledged: TypeAlias = Callable[[ErrorCode, str | None], None]
Wake: TypeAlias = Callable[[], None]

_MS: Final = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}
_DURATION_PART: Final = re.compile(r"([0-9]+(?:[.,][0-9]*)?)([DHMS])")
_BY_DURATION: Final = "by_duration:"


class OpenFailure(NamedTuple):
    """The reason that a share partition could not be opened."""

    code: ErrorCode


class SharePartitions:
    """The share partitions of a process that are in use, by key."""

    def __init__(self, data: DataPlane, states: ShareStates) -> None:
        self._data = data
        self._states = states
        self._open: dict[ShareKey, SharePartition] = {}
        self._opening: set[ShareKey] = set()
        self._failed: dict[ShareKey, ErrorCode] = {}
        self._wakes: dict[ShareKey, set[Wake]] = defaultdict(set)
        self._clock = data.timekeeping.steady
        self._timers = Timers(data.timekeeping.scheduler, self._clock)
        self._locks = TimerTable(self._timers, self._expire)
        states.dropped = self._drop
        data.catalog.watch(self._topic_changed)

    def stop(self) -> None:
        """End no lock any more."""
        self._timers.stop()

    def configs(self, group_id: GroupId) -> ShareGroupConfigs:
        """Return the configuration of a share group."""
        return self._data.catalog.group_configs.share(group_id)

    def limits(self, group_id: GroupId) -> ShareLimits:
        """Return the limits of a share group's deliveries."""
        configs = self.configs(group_id)
        return ShareLimits(
            configs.record_lock_duration_ms,
            configs.delivery_count_limit,
            configs.partition_max_record_locks,
            configs.renew_acknowledge_enable,
        )

    # Opening.

    def open(
        self, key: ShareKey, source: Partition
    ) -> SharePartition | OpenFailure | None:
        """Return a share partition; None while it is loaded, after which the fetches
        that wait for it are woken. `source` is the partition of its records."""
        share = self._open.get(key)
        if share is not None:
            return share
        if self._states.is_loaded(key):
            try:
                share = self._open[key] = self._make(key, source)
            except ApiError as error:
                return OpenFailure(error.code)
            return share
        if key in self._failed:
            return OpenFailure(self._failed[key])
        if key not in self._opening:
            self._opening.add(key)
            self._states.load(key, partial(self._loaded, key))
        return None

    def _loaded(self, key: ShareKey, code: ErrorCode) -> None:
        assert key in self._opening
        self._opening.discard(key)
        if code is not ErrorCode.NONE:
            self._failed[key] = code
        self.wake(key)
        self._failed.pop(key, None)

    def _make(self, key: ShareKey, source: Partition) -> SharePartition:
        """Return a share partition with its stored state.

        Raises ApiError UNKNOWN_SERVER_ERROR if it was never initialized, as Kafka, or
        OFFSET_NOT_AVAILABLE if no record is young enough to start at.
        """
        assert key not in self._open
        state = self._states.state(key)
        if state is None:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        start = state.start_offset
        if start == UNINITIALIZED:
            start = self._reset_offset(key, source)
        # AlterShareGroupOffsets accepts any number.
        return SharePartition(max(start, 0), state.batches)

    def _reset_offset(self, key: ShareKey, source: Partition) -> LogOffset:
        policy = self.configs(key.group_id).auto_offset_reset
        bounds = source.bounds()
        assert bounds.log_start_offset <= bounds.flushed_offset
        if policy == "earliest":
            return bounds.log_start_offset
        if not policy.startswith(_BY_DURATION):
            return bounds.flushed_offset
        duration_ms = parse_duration_ms(policy.removeprefix(_BY_DURATION))
        since_ms = self._data.wall_clock() - duration_ms
        header = self._data.log.find_timestamp(source.log_partition, since_ms)
        if header is None:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        first = self._first_since(source.log_partition, header.base_offset, since_ms)
        return max(first, bounds.log_start_offset)

    def _first_since(
        self, log_partition: LogPartition, base_offset: LogOffset, since_ms: int
    ) -> LogOffset:
        """Return the first offset in a batch with that timestamp or a later one; the
        base offset of a batch that cannot be decoded in the event loop."""
        [batch, *_] = self._data.log.read(log_partition, base_offset, 1)
        with suppress(MalformedFrame):
            for offset, timestamp_ms in record_times(batch, LOOP_BATCH_BYTES):
                if timestamp_ms >= since_ms:
                    return offset
        return base_offset

    # Waiting fetches.

    def watch(self, key: ShareKey, wake: Wake) -> None:
        """Call `wake` whenever records of a share partition may be acquired."""
        assert wake not in self._wakes[key]
        self._wakes[key].add(wake)

    def unwatch(self, key: ShareKey, wake: Wake) -> None:
        """End `watch`."""
        wakes = self._wakes.get(key)
        if wakes is not None:
            wakes.discard(wake)
            if not wakes:
                del self._wakes[key]

    def wake(self, key: ShareKey) -> None:
        """Wake the fetches that wait for a share partition."""
        for wake in tuple(self._wakes.get(key, ())):
            wake()

    # Changes.

    def acquired(self, key: ShareKey) -> None:
        """Set the timer of the locks after records were acquired."""
        self._set_timer(key, self._open[key])

    def acknowledge(
        self,
        key: ShareKey,
        member: MemberId,
        acknowledgements: Sequence[Acknowledgement],
        done: Acknowledged,
    ) -> None:
        """Acknowledge records; call `done` once that is durable, or with the error."""
        share = self._open.get(key)
        if share is None:
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
            return
        limits = self.limits(key.group_id)
        try:
            update = acknowledge(share, member, acknowledgements, limits, self._clock())
        except ApiError as error:
            done(error.code, error.message)
            return
        if update is None:
            done(ErrorCode.NONE, None)
            return
        self._write(key, share, update, lambda code: done(code, None))

    def release(self, key: ShareKey, member: MemberId) -> None:
        """Release the records that a member has acquired."""
        share = self._open.get(key)
        if share is None:
            return
        update = share.release(member, self.limits(key.group_id))
        if update is not None:
            self._write(key, share, update, lambda _: None)

    def of_group(self, group_id: GroupId) -> dict[ShareKey, SharePartition]:
        """Return the share partitions of a group that are in use."""
        return {
            key: share for key, share in self._open.items() if key.group_id == group_id
        }

    def close_group(self, group_id: GroupId) -> None:
        """Drop the share partitions of a group that no session uses; they are loaded
        again when needed."""
        for key in self.of_group(group_id):
            self._close(key)

    def _write(
        self,
        key: ShareKey,
        share: SharePartition,
        update: StateUpdate,
        done: Callable[[ErrorCode], None],
    ) -> None:
        assert self._open.get(key) is share
        write = share.last_write
        assert write >= 0

        def written(code: ErrorCode) -> None:
            if code is ErrorCode.NONE and self._open.get(key) is share:
                share.written(write)
                done(code)
                self.wake(key)
            else:
                done(code)

        self._states.write(key, update, written)

    # Locks.

    def _set_timer(self, key: ShareKey, share: SharePartition) -> None:
        deadline_ms = share.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > 0
        timer_key = ("lock", key.group_id, key.topic_id.hex(), str(key.partition))
        if deadline_ms is None:
            self._locks.change(CancelTimer(timer_key))
        else:
            self._locks.change(Timer(timer_key, deadline_ms, key))

    def _expire(self, key: ShareKey) -> None:
        """Release the records whose locks have ended."""
        share = self._open.get(key)
        if share is None:
            return
        update = share.expire(self._clock(), self.limits(key.group_id))
        self._set_timer(key, share)
        if update is not None:
            self._write(key, share, update, lambda _: None)
            self.wake(key)

    # Drops.

    def _drop(self, key: ShareKey | None) -> None:
        for each in list(self._open) if key is None else [key]:
            self._close(each)

    def _close(self, key: ShareKey) -> None:
        share = self._open.pop(key, None)
        if share is not None:
            timer_key = ("lock", key.group_id, key.topic_id.hex(), str(key.partition))
            self._locks.change(CancelTimer(timer_key))
            self.wake(key)

    def _topic_changed(self, change: TopicChange) -> None:
        before, after = change
        if before is not None and after is None:
            for key in [k for k in self._open if k.topic_id == before.topic_id]:
                self._close(key)


def parse_duration_ms(text: str) -> int:
    """Return the length of an ISO 8601 duration of days to seconds, as "P1DT2H"."""
    parts = _DURATION_PART.findall(text.upper())
    assert parts, text
    return int(
        sum(float(number.replace(",", ".")) * _MS[unit] for number, unit in parts)
    )
