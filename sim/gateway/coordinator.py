"""Upstream's coordinator of applications' transactions, which writes the markers.

A transaction ends at a marker in each of its partitions, which is written again until
it is durable, and now and then twice. The producer's next transaction begins when all
markers are durable. With transactions of version 2 (KIP-890) each one has its own
producer epoch, which its marker increments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from coterie.errors import ApiError
from coterie.gateway.upstream.transactions import Application
from coterie.types import ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import Producer
from sim.transactions import Transaction

WriteMarker: TypeAlias = Callable[[int, Producer, bool, Callable[[], None]], None]
"""A function that writes a marker into a shard's partition, with whether it commits,
and calls its last argument once the marker is durable."""


class AppTransaction(Transaction):
    """A transaction of an application.

    `shards` are those whose owner has not replayed the marker yet.
    """

    def __init__(self, producer_id: ProducerId, producer_epoch: int) -> None:
        super().__init__(producer_id, producer_epoch)
        self.added: set[int] = set()
        """All shards with a partition in the transaction."""
        self.unmarked: set[int] = set()
        """The shards without a durable marker."""
        self.is_ended_by_another = False
        """Whether an EndTxn of an earlier transaction has ended it."""

    def is_marked(self, shard: int) -> bool:
        """Return whether the marker in a shard's partition is durable."""
        return not self.is_open and shard not in self.unmarked

    def add(self, shard: int) -> None:
        """Add a shard's partition."""
        for shards in (self.shards, self.added, self.unmarked):
            shards.add(shard)


class AppProducer:
    """A transactional id, as the coordinator knows it."""

    def __init__(self, producer_id: ProducerId) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.transaction: AppTransaction | None = None
        """The transaction that is open or whose markers are being written."""


class TransactionCoordinator:
    """The coordinator of all applications' transactions."""

    def __init__(self, write_marker: WriteMarker, *, bumps_epoch: bool) -> None:
        self._write_marker = write_marker
        self.bumps_epoch = bumps_epoch
        """Whether each transaction has a producer epoch of its own."""
        self.producers: dict[str, AppProducer] = {}
        self.transactions: list[AppTransaction] = []
        """The transactions that are not over."""

    def producer(self, transactional_id: str) -> AppProducer:
        """Return the producer of a transactional id."""
        if transactional_id not in self.producers:
            found = AppProducer(1 + len(self.producers))
            self.producers[transactional_id] = found
        return self.producers[transactional_id]

    def begin(self, transactional_id: str) -> AppTransaction | None:
        """Begin a transaction; None while the markers of the last one are written."""
        producer = self.producer(transactional_id)
        if producer.transaction is not None:
            return None
        found = AppTransaction(producer.producer_id, producer.epoch)
        producer.transaction = found
        self.forget_ended()
        self.transactions.append(found)
        return found

    def forget_ended(self) -> None:
        """Drop the transactions that are over."""
        self.transactions = [each for each in self.transactions if not each.is_over]

    def add_partition(self, application: Application, shard: int) -> ApiError | None:
        """Add a shard's partition to a transaction; return a refusal."""
        producer = self.producers[application.transactional_id]
        code = ErrorCode.NONE
        if application.producer_epoch != producer.epoch:
            code = ErrorCode.PRODUCER_FENCED
        elif producer.transaction is None:
            code = ErrorCode.INVALID_TXN_STATE
        elif not producer.transaction.is_open:
            code = ErrorCode.CONCURRENT_TRANSACTIONS
        else:
            producer.transaction.add(shard)
        return ApiError(code) if code else None

    def verify(self, producer_id: ProducerId, producer_epoch: int, shard: int) -> bool:
        """Return whether a partition is in the producer's open transaction."""
        return any(
            each.producer_id == producer_id
            and each.producer_epoch == producer_epoch
            and each.is_open
            and shard in each.added
            for each in self.transactions
        )

    def end(self, transactional_id: str, *, commits: bool, fences: bool) -> None:
        """End the open transaction, if there is one, and write its markers. With
        `fences` the producer gets a new epoch in any case.
        """
        producer = self.producer(transactional_id)
        transaction = producer.transaction
        if transaction is None or not transaction.is_open:
            return
        transaction.commits = commits
        if fences or self.bumps_epoch:
            producer.epoch += 1
        marker = Producer(producer.producer_id, producer.epoch)
        if not transaction.added:
            producer.transaction = None

        def marked(shard: int) -> None:
            transaction.unmarked.discard(shard)
            if not transaction.unmarked:
                producer.transaction = None

        for shard in sorted(transaction.added):
            self._write_marker(shard, marker, commits, partial(marked, shard))

    def end_again(self, transactional_id: str, epoch: int, *, commits: bool) -> None:
        """Handle an EndTxn that arrives a second time. Without an epoch for each
        transaction it ends the next one (KIP-890)."""
        producer = self.producer(transactional_id)
        transaction = producer.transaction
        if producer.epoch != epoch or transaction is None or not transaction.is_open:
            return
        transaction.is_ended_by_another = True
        self.end(transactional_id, commits=commits, fences=False)

    def fence(self, transactional_id: str) -> None:
        """Give a producer a new epoch, as InitProducerId does."""
        self.producer(transactional_id).epoch += 1
