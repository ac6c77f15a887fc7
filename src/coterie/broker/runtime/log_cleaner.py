"""Retention and compaction of partitions, and expiration of idle producers.

It runs every `log.retention.check.interval.ms`, a few steps in each turn of the event
loop, and waits until the changes of one turn are durable before the next, so that
thousands of partitions never delay a request.

The rules are those of Kafka's `LogCleaner` and `UnifiedLog`, with two differences.
Retention removes batches one by one where Kafka removes segments. Compaction keeps the
last batch where Kafka keeps the active segment: a reader in a gap always finds a batch
after it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from itertools import islice, pairwise
from typing import Any, Final

from coterie.broker.catalog.configs import TopicSettings
from coterie.broker.log.compaction import Steps, compact
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.decoding import Outcome
from coterie.broker.runtime.partitions import COMPACTED_SPACE, Partition, partition_key
from coterie.broker.runtime.system import TimerHandle
from coterie.broker.runtime.transactions import TransactionPlane
from coterie.errors import CoterieError
from coterie.types import LogOffset
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)


def retained_from(
    log: Log, partition: Partition, settings: TopicSettings, now_ms: int
) -> LogOffset | None:
    """Return the log start offset that retention requires; None to keep it.

    A batch is too old by its greatest timestamp; the first batch that is young enough
    ends the scan. Unflushed batches are not considered.
    """
    if not settings.delete:
        return None
    keeps_all_time = settings.retention_ms < 0
    excess_bytes = 0
    if settings.retention_bytes >= 0:
        excess_bytes = (
            log.size_bytes(partition.log_partition) - settings.retention_bytes
        )
    if keeps_all_time and excess_bytes <= 0:
        return None
    oldest_ms = now_ms - settings.retention_ms
    start = None
    for header in log.headers(
        partition.log_partition, partition.bounds().log_start_offset
    ):
        is_old = not keeps_all_time and header.max_timestamp_ms < oldest_ms
        if not is_old and excess_bytes < header.size_bytes:
            break
        assert start is None or header.base_offset >= start
        excess_bytes -= header.size_bytes
        start = header.last_offset + 1
        assert start <= partition.bounds().flushed_offset
    return start


HEADERS_PER_STEP: Final = 500


def compaction(
    log: Log,
    partition: Partition,
    settings: TopicSettings,
    *,
    now_ms: int,
    before: LogOffset | None = None,
) -> Steps[None]:
    """Compact a partition if it is due, one batch a step, and stage the result.

    Compaction is due when enough of the log is dirty (`min.cleanable.dirty.ratio`) or
    some of it is too old (`max.compaction.lag.ms`). Batches younger than
    `min.compaction.lag.ms` are kept, and so is everything from `before` on: a shard
    that loads from a snapshot needs every tombstone since then.

    The caller must abandon the iteration when the flush of a step fails: a later step
    may drop a tombstone only because an earlier one dropped the records it deletes.
    """
    if not settings.compact:
        return
    yield from partition.catch_up()
    key = partition_key(partition.log_partition)
    stored = log.get(COMPACTED_SPACE, key)
    start = 0 if stored is None else int.from_bytes(stored, "big")
    end = yield from _compaction_end(log, partition, settings, start, now_ms)
    if before is not None:
        end = min(end, before)
    if end <= start:
        return
    assert end <= partition.last_stable_offset()
    end = yield from compact(
        log,
        partition.log_partition,
        start=start,
        end=end,
        tombstones_before_ms=now_ms - settings.delete_retention_ms,
    )
    log.put(COMPACTED_SPACE, key, end.to_bytes(8, "big"))


def _compaction_end(
    log: Log, partition: Partition, settings: TopicSettings, start: int, now_ms: int
) -> Steps[LogOffset]:
    """Return the offset to compact up to; `start` when compaction is not due.

    It scans the batches after `start`, `HEADERS_PER_STEP` a step.
    """
    newest_ms = now_ms - settings.min_compaction_lag_ms
    stable = partition.last_stable_offset()
    oldest_ms, size_bytes, end = -1, 0, -1
    offset = max(start, partition.bounds().log_start_offset)
    while headers := list(
        islice(log.headers(partition.log_partition, offset), HEADERS_PER_STEP + 1)
    ):
        for header, following in pairwise(headers):
            if header.last_offset >= stable or header.max_timestamp_ms > newest_ms:
                break
            oldest_ms = oldest_ms if end >= 0 else header.max_timestamp_ms
            size_bytes += header.size_bytes
            end = offset = header.last_offset + 1
            assert following.base_offset >= end
        else:
            if len(headers) > HEADERS_PER_STEP:
                yield None
                continue
        break
    is_overdue = oldest_ms < now_ms - settings.max_compaction_lag_ms
    total_bytes = log.size_bytes(partition.log_partition)
    is_dirty = size_bytes >= settings.min_cleanable_dirty_ratio * total_bytes
    return end if end >= 0 and (is_overdue or is_dirty) else start


def _log_failure(partition: Partition, error: Exception) -> None:
    if isinstance(error, CoterieError):
        _LOGGER.error("cleaning of %s-%d failed: %s", *partition.name, error)
    else:
        _LOGGER.error("cleaning of %s-%d: a bug", *partition.name, exc_info=error)


def _resume(work: Steps[None], outcome: Outcome | None) -> Callable[[], Any] | None:
    """Continue with the worker's result or error, if there is one."""
    if outcome is None:
        return next(work)
    try:
        result = outcome()
    except Exception as error:
        return work.throw(error)
    return work.send(result)


STEPS_PER_TURN: Final = 50


class LogCleaner:
    """The periodic retention and compaction of all partitions. They run every
    `log.retention.check.interval.ms`.

    `compaction_bound` returns the offset from which compaction has to keep every record
    of a partition, or None.
    """

    def __init__(
        self,
        data: DataPlane,
        transactions: TransactionPlane,
        compaction_bound: Callable[[LogPartition], LogOffset | None] = lambda _: None,
    ) -> None:
        self._data = data
        self._compaction_bound = compaction_bound
        self._transactions = transactions
        self._timer: TimerHandle | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Start the first round one interval from now."""
        interval_ms = self._data.catalog.settings.log_retention_check_interval_ms
        self._schedule(interval_ms / 1000, self._round())

    def stop(self) -> None:
        """Cancel the current round."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(
        self, delay: float, work: Steps[None], outcome: Outcome | None = None
    ) -> None:
        assert delay >= 0
        if not self._is_stopped:
            self._timer = self._data.timekeeping.checks.call_later(
                delay, lambda: self._run_steps(work, outcome)
            )

    def _run_steps(self, work: Steps[None], outcome: Outcome | None) -> None:
        """Run some steps, the first one with the worker's outcome; schedule the next
        ones once these are durable.

        A failed flush ends the round, because a step may depend on earlier ones.
        """
        has_more, decode = True, None
        try:
            decode = _resume(work, outcome)
            for _ in range(STEPS_PER_TURN):
                if decode is not None:
                    break
                decode = next(work)
        except StopIteration:
            has_more = False
        except Exception:
            _LOGGER.exception("a bug in the log cleaner: the round ends early")
            has_more = False

        def durable(error: ErrorCode) -> None:
            if not has_more or error is not ErrorCode.NONE:
                if not self._is_stopped:
                    self.start()
            elif decode is None:
                self._schedule(0, work)
            else:
                self._data.run_in_worker(
                    decode, lambda outcome: self._schedule(0, work, outcome)
                )

        self._data.when_durable(durable)

    def _round(self) -> Steps[None]:
        """Clean every partition. One that fails is logged, if it is the first with an
        error of that type, and the others are cleaned."""
        failures: Counter[type[Exception]] = Counter()
        for partition in self._data.partitions():
            try:
                yield from self._clean(partition)
            except Exception as error:
                failures[type(error)] += 1
                if failures[type(error)] == 1:
                    _log_failure(partition, error)
        for kind, count in failures.items():
            if count > 1:
                _LOGGER.warning(
                    "cleaning of %d partitions failed with %s", count, kind.__name__
                )
        self._transactions.remove_unused()

    def _clean(self, partition: Partition) -> Steps[None]:
        data = self._data
        catalog = data.catalog
        now_ms = data.wall_clock()
        topic = partition.name.topic
        partition.expire_producers(now_ms - catalog.settings.producer_id_expiration_ms)
        settings = catalog.settings_of(topic)
        start = retained_from(data.log, partition, settings, now_ms)
        if start is not None:
            data.truncate(partition, start)
        yield None
        if not catalog.settings.log_cleaner_enable:
            return
        steps = compaction(
            data.log,
            partition,
            settings,
            now_ms=now_ms,
            before=self._compaction_bound(partition.log_partition),
        )
        yield from self._while_topic_exists(steps, partition)

    def _while_topic_exists(
        self, steps: Steps[None], partition: Partition
    ) -> Steps[None]:
        """Run the steps, each with the result of the one before, until they end or the
        topic is deleted."""
        topic, topic_id = partition.name.topic, partition.log_partition.topic_id
        result: Any = None
        while self._data.catalog.topic_id(topic) == topic_id:
            try:
                step = steps.send(result)
            except StopIteration:
                return
            result = yield step
