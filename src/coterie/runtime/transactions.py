"""Drives transactions: stages a decision's new state and all its markers in one step.

One flush makes them durable together, so a restart sees a transaction either open with
none of its markers or ended with all of them. Open transactions are still open after a
restart, and time out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from coterie.catalog.topics import OFFSETS_TOPIC
from coterie.catalog.transactions import Claim, Markers, Step, Transaction
from coterie.errors import ApiError
from coterie.runtime.data import Appended, DataPlane
from coterie.types import ProducerId, TopicPartition
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)


RETRY_MS: Final = 1_000
"""How long an abort waits that could not be made durable."""


class GroupTransactions(Protocol):
    """What transactions need of the runtime that drives the coordinator's shards."""

    def end_transaction(
        self, shard: int, producer_id: ProducerId, producer_epoch: int, commit: bool
    ) -> None:
        """Stage a marker in a shard's partition and replay it."""


class TransactionPlane:
    """The transaction coordinator of all transactional ids."""

    def __init__(self, data: DataPlane, groups: GroupTransactions) -> None:
        self._data = data
        self._groups = groups
        self._timers: set[str] = set()
        data.on_reload(self._watch_again)

    def start(self) -> None:
        """Watch over the transactions that a restart found open."""
        for found in self._data.catalog.transactions.ongoing():
            self._watch(found)

    def _watch_again(self) -> None:
        """A flush failed, and with it perhaps what ended a transaction."""
        for found in self._data.catalog.transactions.ongoing():
            self._watch(found, after_ms=RETRY_MS)

    def fresh_producer_id(self) -> ProducerId:
        """A producer id never given out before (its block is staged)."""
        producer_id, entries = self._data.catalog.take_producer_id()
        self._data.stage(entries)
        assert producer_id >= 0
        return producer_id

    def initialise(self, claim: Claim, timeout_ms: int) -> Transaction:
        """InitProducerId of a transactional producer (staged).

        Raises ApiError INVALID_TRANSACTION_TIMEOUT, INVALID_REQUEST for an empty
        transactional id, or PRODUCER_FENCED.
        """
        catalog = self._data.catalog
        if not claim.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= catalog.settings.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        step = catalog.transactions.initialise(
            claim,
            timeout_ms=timeout_ms,
            fresh_producer_id=self.fresh_producer_id,
            now_ms=self._data.clock(),
        )
        return self._take(step)

    def add_partitions(
        self, claim: Claim, partitions: Iterable[TopicPartition]
    ) -> None:
        """Let the producer's transaction write to partitions (staged).

        Raises ApiError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        if not claim.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        now_ms = self._data.clock()
        transactions = self._data.catalog.transactions
        self._take(transactions.add_partitions(claim, partitions, now_ms))

    def includes(self, claim: Claim, partition: TopicPartition) -> bool:
        """Whether the producer's open transaction may write to the partition.

        Raises ApiError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        return self._data.catalog.transactions.verify(claim, partition)

    def end(self, claim: Claim, *, committed: bool, bumps_epoch: bool) -> Transaction:
        """Commit or abort (staged).

        Raises ApiError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
        INVALID_TXN_STATE.
        """
        if not claim.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        step = self._data.catalog.transactions.end(
            claim,
            committed=committed,
            bumps_epoch=bumps_epoch,
            fresh_producer_id=self.fresh_producer_id,
            now_ms=self._data.clock(),
        )
        return self._take(step)

    def forget_unused(self) -> None:
        """Drop the transactional ids without a sign of life for long (staged)."""
        catalog = self._data.catalog
        assert len(self._timers) >= len(catalog.transactions.ongoing())
        expiration_ms = catalog.settings.transactional_id_expiration_ms
        unused = catalog.transactions.unused(self._data.clock() - expiration_ms)
        self._data.stage(unused)

    def _take(self, step: Step) -> Transaction:
        assert step.is_change or step.markers is None
        if step.is_change:
            self._data.stage([step.transaction.to_entry()])
        if step.markers is not None:
            self._write(step.markers)
        if step.transaction.is_ongoing:
            self._watch(step.transaction)
        return step.transaction

    def _write(self, markers: Markers) -> None:
        data = self._data
        written = []
        assert markers.producer_epoch >= 0
        for name in sorted(markers.partitions):
            if name.topic == OFFSETS_TOPIC:
                self._groups.end_transaction(
                    name.partition,
                    markers.producer_id,
                    markers.producer_epoch,
                    markers.committed,
                )
                continue
            partition = data.partition(name.topic, name.partition)
            if partition is None:
                continue  # the topic was deleted while the transaction was open
            assert markers.producer_id >= 0
            size_bytes = partition.append_marker(
                markers.producer_id,
                markers.producer_epoch,
                committed=markers.committed,
                now_ms=data.clock(),
            )
            written.append(Appended(partition, -1, -1, -1, size_bytes))
        data.settle(written, _nobody)

    def _watch(self, transaction: Transaction, *, after_ms: int = 0) -> None:
        """Set one timer for a transactional id; a new transaction finds it set and it
        is set again when it comes up early."""
        assert transaction.is_ongoing
        if transaction.transactional_id in self._timers:
            return
        self._timers.add(transaction.transactional_id)
        delay_ms = transaction.expires_at_ms - self._data.clock()
        self._data.scheduler.call_later(
            max(delay_ms, after_ms) / 1000, self._timer_of(transaction.transactional_id)
        )

    def _timer_of(self, transactional_id: str) -> Callable[[], None]:
        def fired() -> None:
            assert transactional_id in self._timers
            self._timers.discard(transactional_id)
            transactions = self._data.catalog.transactions
            step = transactions.expire(transactional_id, self._data.clock())
            if step is not None:
                _LOGGER.info("transaction of %r timed out: aborted", transactional_id)
                self._take(step)
                return
            found = transactions.get(transactional_id)
            if found is not None and found.is_ongoing:
                self._watch(found)

        return fired


def _nobody(_: ErrorCode) -> None:
    """Nobody waits for this beside the client, whose answer waits on its own."""
