"""What the data plane does by itself from time to time: retention, compaction, and
forgetting producers.

It goes in steps, some in each turn of the loop, and waits for each turn's changes to be
durable before the next, so that thousands of partitions never hold up a request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from coterie.errors import LogError
from coterie.log.log import LogPartition
from coterie.runtime.compactor import compaction
from coterie.runtime.data import DataPlane, Handle
from coterie.runtime.partitions import Partition
from coterie.runtime.retention import retained_from
from coterie.runtime.transactions import TransactionPlane
from coterie.types import LogOffset
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)
STEPS_PER_TURN: Final = 50


class Housekeeping:
    """Runs every `log.retention.check.interval.ms`. `compacts_before` says of a
    partition from where on its records must all stay, or None."""

    def __init__(
        self,
        data: DataPlane,
        transactions: TransactionPlane,
        compacts_before: Callable[[LogPartition], LogOffset | None] = lambda _: None,
    ) -> None:
        self._data = data
        self._compacts_before = compacts_before
        self._transactions = transactions
        self._timer: Handle | None = None
        self._is_over = False

    def start(self) -> None:
        """Begin, one interval from now."""
        interval_ms = self._data.catalog.settings.log_retention_check_interval_ms
        self._later(interval_ms / 1000, self._round())

    def stop(self) -> None:
        """Do nothing more."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, delay: float, work: Iterator[None]) -> None:
        assert delay >= 0
        if not self._is_over:
            self._timer = self._data.scheduler.call_later(
                delay, lambda: self._turn(work)
            )

    def _turn(self, work: Iterator[None]) -> None:
        """A few steps; then the rest once those are durable. After a failed flush the
        round is over: a step may build on those before it."""
        has_more = len(list(islice(work, STEPS_PER_TURN))) == STEPS_PER_TURN

        def durable(error: ErrorCode) -> None:
            if has_more and error is ErrorCode.NONE:
                self._later(0, work)
            elif not self._is_over:
                self.start()

        self._data.when_durable(durable)

    def _round(self) -> Iterator[None]:
        self._transactions.forget_unused()
        for partition in self._data.partitions():
            try:
                yield from self._look_after(partition)
            except LogError as error:
                _LOGGER.warning("housekeeping of %s-%d: %s", *partition.name, error)

    def _look_after(self, partition: Partition) -> Iterator[None]:
        data = self._data
        catalog = data.catalog
        now_ms = data.clock()
        topic = partition.name.topic
        partition.expire_producers(now_ms - catalog.settings.producer_id_expiration_ms)
        settings = catalog.settings_of(topic)
        start = retained_from(data.log, partition, settings, now_ms)
        if start is not None:
            data.truncate(partition, start)
        yield
        if not catalog.settings.log_cleaner_enable:
            return
        steps = compaction(
            data.log,
            partition,
            settings,
            now_ms=now_ms,
            before=self._compacts_before(partition.where),
        )
        for _ in steps:
            yield
            if catalog.topic_id(topic) != partition.where.topic_id:
                return  # deleted meanwhile
