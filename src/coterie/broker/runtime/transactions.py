"""The transaction coordinator: it stages a transaction's new state with its markers.

One flush makes both durable, so that after a restart a transaction is either open with
no marker written, or complete with all of them. Transactions that are open at a restart
stay open until their timeout.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from functools import partial
from typing import Final

from coterie.broker.catalog.entries import EntryKind
from coterie.broker.catalog.transactions import Claim, Markers, Transaction, Transition
from coterie.broker.runtime.data import Appended, DataPlane
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.system import after_reads
from coterie.errors import ApiError, LogError
from coterie.types import OFFSETS_TOPIC, ProducerId, TopicPartition
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)


RETRY_MS: Final = 1_000
"""The delay before an abort is retried after a failed flush."""


UNREADABLE_RETRY_MS: Final = 60_000
"""The delay before an abort is retried after a failed read."""


class TransactionPlane:
    """The transaction coordinator of all transactional ids.

    `runtime` writes the markers of `__consumer_offsets`.
    """

    def __init__(self, data: DataPlane, runtime: Runtime) -> None:
        self._data = data
        self._runtime = runtime
        self._timers: set[str] = set()
        data.on_reload(self._reloaded)

    def start(self) -> None:
        """Start the timeouts of the transactions that are open in the log."""
        for transaction in self._data.catalog.transactions.ongoing():
            self._schedule_timeout(transaction)

    def _reloaded(self) -> None:
        """Start the timeouts again: a failed flush may have undone an abort."""
        for transaction in self._data.catalog.transactions.ongoing():
            self._schedule_timeout(transaction, after_ms=RETRY_MS)

    def fresh_producer_id(self) -> ProducerId:
        """Return an unused producer id; a new block of ids is staged when needed."""
        producer_id, entries = self._data.catalog.allocate_producer_id()
        self._data.stage(entries)
        assert producer_id >= 0
        return producer_id

    def initialise(self, claim: Claim, timeout_ms: int) -> Transaction:
        """Stage the producer id and epoch of a transactional producer (InitProducerId).

        Raises ApiError INVALID_TRANSACTION_TIMEOUT, INVALID_REQUEST for an empty
        transactional id, PRODUCER_FENCED, or POLICY_VIOLATION as `Catalog.check_room`.
        """
        catalog = self._data.catalog
        if not claim.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= catalog.settings.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        if catalog.transactions.get(claim.transactional_id) is None:
            catalog.check_room(EntryKind.TRANSACTION)
        step = catalog.transactions.init_producer_id(
            claim,
            timeout_ms=timeout_ms,
            fresh_producer_id=self.fresh_producer_id,
            now_ms=self._data.clock(),
        )
        transaction = self._apply(step)
        if step.error is not None:
            raise ApiError(step.error)
        return transaction

    def add_partitions(
        self, claim: Claim, partitions: Collection[TopicPartition]
    ) -> None:
        """Add partitions to the producer's transaction (staged).

        Raises ApiError INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        if not claim.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        now_ms = self._data.clock()
        transactions = self._data.catalog.transactions
        self._apply(transactions.add_partitions(claim, partitions, now_ms))

    def includes(self, claim: Claim, partition: TopicPartition) -> bool:
        """Return whether the producer's open transaction includes a partition.

        Raises ApiError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        return self._data.catalog.transactions.verify(claim, partition)

    def end(self, claim: Claim, *, committed: bool, bumps_epoch: bool) -> Transaction:
        """Commit or abort a transaction (staged).

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
        return self._apply(step)

    def remove_unused(self) -> None:
        """Remove ids unused for `transactional.id.expiration.ms` (staged)."""
        catalog = self._data.catalog
        assert len(self._timers) >= len(catalog.transactions.ongoing())
        expiration_ms = catalog.settings.transactional_id_expiration_ms
        unused = catalog.transactions.expired_entries(
            self._data.clock() - expiration_ms
        )
        self._data.stage(unused)

    def _apply(self, step: Transition) -> Transaction:
        assert step.is_change or step.markers is None
        if step.markers is not None:
            self._check_readable(step.markers)
        if step.is_change:
            self._data.stage([step.transaction.to_entry()])
        if step.markers is not None:
            self._write_markers(step.markers)
        if step.transaction.is_ongoing:
            self._schedule_timeout(step.transaction)
        return step.transaction

    def _check_readable(self, markers: Markers) -> None:
        """Read the producer state of each partition, before anything is staged.

        Raises ApiError COORDINATOR_NOT_AVAILABLE when the log cannot be read.
        """
        for name in markers.partitions:
            partition = self._data.partition(name.topic, name.partition)
            if partition is None or name.topic == OFFSETS_TOPIC:
                continue
            try:
                partition.last_stable_offset()
            except LogError as error:
                _LOGGER.error("a transaction with %s-%d cannot end: %s", *name, error)
                raise ApiError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)
                ) from None

    def _write_markers(self, markers: Markers) -> None:
        data = self._data
        written = []
        assert markers.producer_epoch >= 0
        for name in sorted(markers.partitions):
            if name.topic == OFFSETS_TOPIC:
                self._runtime.end_transaction(
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
                now_ms=data.wall_clock(),
            )
            written.append(Appended(partition, -1, -1, -1, size_bytes))
        data.settle(written, lambda _: None)

    def _schedule_timeout(self, transaction: Transaction, *, after_ms: int = 0) -> None:
        """Set the timer of a transactional id, if it has none.

        A later transaction of the same id keeps the timer, which is set again when it
        fires too early.
        """
        assert transaction.is_ongoing
        if transaction.transactional_id in self._timers:
            return
        self._timers.add(transaction.transactional_id)
        timed_out = partial(self._timed_out, transaction.transactional_id)
        delay_ms = max(transaction.expires_at_ms - self._data.clock(), after_ms)
        scheduler = self._data.timekeeping.scheduler
        # An EndTxn that waits in a socket was sent in time.
        wake = partial(after_reads, scheduler, timed_out)
        scheduler.call_later(delay_ms / 1000, wake)

    def _abort(self, transactional_id: str, step: Transition) -> None:
        """Abort a transaction that timed out; try again later if that fails."""
        try:
            self._apply(step)
        except ApiError:
            ongoing = self._data.catalog.transactions.get(transactional_id)
            if ongoing is not None and ongoing.is_ongoing:
                self._schedule_timeout(ongoing, after_ms=UNREADABLE_RETRY_MS)
        else:
            _LOGGER.info("transaction of %r timed out: aborted", transactional_id)

    def _timed_out(self, transactional_id: str) -> None:
        assert transactional_id in self._timers
        self._timers.discard(transactional_id)
        transactions = self._data.catalog.transactions
        step = transactions.expire(
            transactional_id, self.fresh_producer_id, self._data.clock()
        )
        transaction = transactions.get(transactional_id)
        if step is not None:
            self._abort(transactional_id, step)
            return
        if transaction is not None and transaction.is_ongoing:
            self._schedule_timeout(transaction)
