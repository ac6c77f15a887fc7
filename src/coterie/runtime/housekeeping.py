"""What the data plane does by itself from time to time: retention, and forgetting.

It goes through the partitions a slice at a time and lets the loop turn in between, so
that thousands of partitions never hold up a request.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Final

from coterie.errors import LogError
from coterie.runtime.data import DataPlane, Handle
from coterie.runtime.partitions import Partition
from coterie.runtime.retention import retained_from
from coterie.runtime.transactions import TransactionPlane
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)
PARTITIONS_PER_TURN: Final = 50


class Housekeeping:
    """Runs every `log.retention.check.interval.ms`."""

    def __init__(self, data: DataPlane, transactions: TransactionPlane) -> None:
        self._data = data
        self._transactions = transactions
        self._timer: Handle | None = None

    def start(self) -> None:
        """Begin, one interval from now."""
        interval_ms = self._data.catalog.settings.log_retention_check_interval_ms
        self._timer = self._data.scheduler.call_later(interval_ms / 1000, self._begin)

    def stop(self) -> None:
        """Do nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def run(self) -> None:
        """Do it all now, in one go."""
        self._transactions.forget_unused()
        self._look_after(self._data.partitions())

    def _begin(self) -> None:
        self._transactions.forget_unused()
        self._turn(self._data.partitions())

    def _turn(self, partitions: Iterator[Partition]) -> None:
        some = list(islice(partitions, PARTITIONS_PER_TURN))
        if not some:
            self.start()
            return
        self._look_after(iter(some))
        self._timer = self._data.scheduler.call_later(0, lambda: self._turn(partitions))

    def _look_after(self, partitions: Iterator[Partition]) -> None:
        data = self._data
        now_ms = data.clock()
        expiration_ms = data.catalog.settings.producer_id_expiration_ms
        for partition in partitions:
            topic = partition.name.topic
            if data.catalog.topic_id(topic) != partition.where.topic_id:
                continue  # deleted since the round began
            partition.expire_producers(now_ms - expiration_ms)
            settings = data.catalog.settings_of(topic)
            try:
                start = retained_from(data.log, partition, settings, now_ms)
            except LogError as error:
                _LOGGER.warning("retention of %s-%d: %s", *partition.name, error)
                continue
            if start is not None:
                data.truncate(partition, start)
        data.when_durable(_nobody)


def _nobody(_: ErrorCode) -> None:
    """Nobody waits: what is staged is only to be flushed."""
