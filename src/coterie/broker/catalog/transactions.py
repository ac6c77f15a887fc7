"""The state and the decisions of the transaction coordinator, without I/O (KIP-98).

Kafka prepares the end of a transaction, sends markers to brokers and completes it when
all have responded. Here all partitions share one log, so that the new state and every
marker become durable in one flush: there are no prepare states, and
CONCURRENT_TRANSACTIONS is never returned. A decision is a `Transition`: the new state
of the transaction, and the markers that must become durable with it.

In transactions version 2 (KIP-890: EndTxn v5, Produce v12, TxnOffsetCommit v5) each end
bumps the producer epoch, so that late writes of the ended transaction are fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coterie.broker.catalog.entries import Entry, EntryKind
from coterie.errors import ApiError
from coterie.types import ProducerId, TopicPartition
from coterie.wire.error_codes import ErrorCode

EPOCH_MAX: Final = 2**15 - 1
EPOCH_EXHAUSTED: Final = EPOCH_MAX - 1
"""The epoch from which on a producer gets a new id; the last epoch is for fencing only.
"""
NO_PRODUCER_ID: Final = -1


class TransactionState(StrEnum):
    """The states of a transaction (Kafka's TransactionState)."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional producer and its latest transaction.

    `last_producer_id` and `last_producer_epoch` are the client's before the latest
    bump, to recognize a retried request. `started_ms` is the begin of the latest
    transaction; -1 before the first one.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    last_producer_id: ProducerId = NO_PRODUCER_ID
    last_producer_epoch: int = -1
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1

    @property
    def is_ongoing(self) -> bool:
        """Whether the transaction has begun and not ended."""
        return self.state is TransactionState.ONGOING

    @property
    def expires_at_ms(self) -> int:
        """The time at which an ongoing transaction times out."""
        assert self.is_ongoing
        return self.started_ms + self.timeout_ms

    def to_entry(self) -> Entry:
        """Return the catalog entry."""
        partitions: dict[str, list[int]] = {}
        for topic, partition in sorted(self.partitions):
            partitions.setdefault(topic, []).append(partition)
        value = {
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "last_producer_id": self.last_producer_id,
            "last_producer_epoch": self.last_producer_epoch,
            "timeout_ms": self.timeout_ms,
            "updated_ms": self.updated_ms,
            "state": str(self.state),
            "partitions": partitions,
            "started_ms": self.started_ms,
        }
        return Entry(EntryKind.TRANSACTION, self.transactional_id, value)

    @classmethod
    def from_value(cls, transactional_id: str, value: Mapping[str, Any]) -> Transaction:
        """Return the transaction of a catalog entry's value."""
        fields = dict(value)
        fields["state"] = TransactionState(fields["state"])
        fields["partitions"] = frozenset(
            TopicPartition(topic, partition)
            for topic, indexes in fields["partitions"].items()
            for partition in indexes
        )
        return cls(transactional_id=transactional_id, **fields)


class Markers(NamedTuple):
    """The transaction markers to append, one to each partition."""

    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]


class Transition(NamedTuple):
    """The result of a request: the new state of the transaction, the markers to append.

    `is_change` is false for a retried request, for which no entry is written. `error`
    is the response to a request that has an effect although it is refused.
    """

    transaction: Transaction
    markers: Markers | None = None
    is_change: bool = True
    error: ErrorCode | None = None


class Claim(NamedTuple):
    """The transactional id, producer id and epoch in a request."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int


class Transactions:
    """The transactional producers, by transactional id."""

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the producer of a transactional id, or None."""
        return self._by_id.get(transactional_id)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_id.values())

    def ongoing(self) -> list[Transaction]:
        """Return the ongoing transactions."""
        return [found for found in self._by_id.values() if found.is_ongoing]

    def replay(self, transactional_id: str, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry."""
        self._by_id.pop(transactional_id, None)
        if value is not None:
            found = Transaction.from_value(transactional_id, value)
            self._by_id[transactional_id] = found

    def init_producer_id(
        self,
        claim: Claim,
        *,
        timeout_ms: int,
        fresh_producer_id: Callable[[], ProducerId],
        now_ms: int,
    ) -> Transition:
        """Return a producer with a new epoch; abort its ongoing transaction.

        The claim's producer id and epoch are -1 when the client has none yet. In Kafka
        the client retries after the abort; here the abort and the new epoch are one
        transition. The abort has an epoch of its own, which a producer that names its
        epoch gets, and which fences any other. As in Kafka, where epochs are compared
        when the client retries, the request of a fenced producer has the abort too.

        Raises ApiError PRODUCER_FENCED.
        """
        found = self._by_id.get(claim.transactional_id)
        if found is None:
            return Transition(
                Transaction(
                    transactional_id=claim.transactional_id,
                    producer_id=fresh_producer_id(),
                    producer_epoch=0,
                    timeout_ms=timeout_ms,
                    updated_ms=now_ms,
                )
            )
        _check_owner(found, claim)
        markers = None
        if found.is_ongoing:
            aborted = _abort(found, fresh_producer_id, now_ms)
            found, markers = aborted.transaction, aborted.markers
        try:
            bumped = _bump_at_init(found, claim, fresh_producer_id)
        except ApiError as error:
            if markers is None:
                raise
            return Transition(found, markers, error=error.code)
        bumped = replace(bumped, timeout_ms=timeout_ms)
        bumped = replace(
            bumped, state=TransactionState.EMPTY, partitions=frozenset(), started_ms=-1
        )
        return Transition(replace(bumped, updated_ms=now_ms), markers)

    def add_partitions(
        self, claim: Claim, partitions: Collection[TopicPartition], now_ms: int
    ) -> Transition:
        """Add partitions to the transaction; begin one if none is ongoing.

        Raises ApiError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        found = self._claimed(claim)
        if not found.is_ongoing:
            begun = replace(
                found,
                state=TransactionState.ONGOING,
                partitions=frozenset(partitions),
                started_ms=now_ms,
                updated_ms=now_ms,
            )
            return Transition(begun)
        if found.partitions.issuperset(partitions):
            return Transition(found, is_change=False)
        wanted = found.partitions.union(partitions)
        return Transition(replace(found, partitions=wanted, updated_ms=now_ms))

    def verify(self, claim: Claim, partition: TopicPartition) -> bool:
        """Return whether the producer's ongoing transaction includes the partition.

        Raises ApiError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
        """
        found = self._claimed(claim)
        return found.is_ongoing and partition in found.partitions

    def end(
        self,
        claim: Claim,
        *,
        committed: bool,
        bumps_epoch: bool,
        fresh_producer_id: Callable[[], ProducerId],
        now_ms: int,
    ) -> Transition:
        """Commit or abort the transaction; `bumps_epoch` in transactions version 2.

        Raises ApiError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
        INVALID_TXN_STATE.
        """
        found = self._by_id.get(claim.transactional_id)
        if bumps_epoch and found is not None and _repeats_end(found, claim):
            _check_same_end(found, committed)
            return Transition(found, is_change=False)
        found = self._claimed(claim)
        if found.is_ongoing:
            return _end(found, committed, bumps_epoch, fresh_producer_id, now_ms)
        if bumps_epoch and not committed:
            # KIP-890: a client may abort when the result of its first write is unknown,
            # so the epoch is bumped even if no transaction has begun.
            return _end(found, False, True, fresh_producer_id, now_ms)
        if found.state is TransactionState.EMPTY or bumps_epoch:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        _check_same_end(found, committed)
        return Transition(found, is_change=False)

    def expire(
        self,
        transactional_id: str,
        fresh_producer_id: Callable[[], ProducerId],
        now_ms: int,
    ) -> Transition | None:
        """Abort a transaction that timed out, and fence its producer."""
        found = self._by_id.get(transactional_id)
        if found is None or not found.is_ongoing or found.expires_at_ms > now_ms:
            return None
        return _abort(found, fresh_producer_id, now_ms)

    def expired_entries(self, before_ms: int) -> list[Entry]:
        """Return entries that delete the transactional ids not used since `before_ms`.

        Those with an ongoing transaction are kept.
        """
        return [
            Entry(EntryKind.TRANSACTION, found.transactional_id, None)
            for found in self._by_id.values()
            if not found.is_ongoing and found.updated_ms < before_ms
        ]

    def _claimed(self, claim: Claim) -> Transaction:
        found = self._by_id.get(claim.transactional_id)
        if found is None or found.producer_id != claim.producer_id:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != claim.producer_epoch:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return found


def _check_owner(found: Transaction, claim: Claim) -> None:
    """Raise ApiError PRODUCER_FENCED unless a producer id in the claim is the current
    or the previous one (KIP-360)."""
    if claim.producer_id in {NO_PRODUCER_ID, found.producer_id}:
        return
    is_retry = claim.producer_id == found.last_producer_id
    if not (is_retry and claim.producer_epoch >= EPOCH_EXHAUSTED):
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def _bump_at_init(
    found: Transaction, claim: Claim, fresh_producer_id: Callable[[], ProducerId]
) -> Transaction:
    """Return the producer with its next epoch, or with a new producer id when the
    epochs are exhausted."""
    named = claim.producer_id != NO_PRODUCER_ID
    is_current = not named or claim.producer_epoch == found.producer_epoch
    if found.producer_epoch >= EPOCH_EXHAUSTED and is_current:
        return replace(
            found,
            producer_id=fresh_producer_id(),
            producer_epoch=0,
            last_producer_id=found.producer_id if named else NO_PRODUCER_ID,
            last_producer_epoch=found.producer_epoch if named else -1,
        )
    if is_current:
        return replace(
            found,
            producer_epoch=found.producer_epoch + 1,
            last_producer_id=NO_PRODUCER_ID,
            last_producer_epoch=found.producer_epoch if named else -1,
        )
    if claim.producer_epoch == found.last_producer_epoch:
        return found  # a retry: the response to the first request was lost
    raise ApiError(ErrorCode.PRODUCER_FENCED)


def _abort(
    found: Transaction, fresh_producer_id: Callable[[], ProducerId], now_ms: int
) -> Transition:
    """Return an abort that the producer has not requested. Its next epoch fences writes
    with the current one, as in transactions version 2 of Kafka's
    `TransactionCoordinator.endTransaction`."""
    return _end(found, False, True, fresh_producer_id, now_ms)


def _end(
    found: Transaction,
    committed: bool,
    bumps_epoch: bool,
    fresh_producer_id: Callable[[], ProducerId],
    now_ms: int,
) -> Transition:
    ended = replace(
        found,
        state=TransactionState.COMPLETE_COMMIT
        if committed
        else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
    # A fenced producer may have the last epoch already.
    epoch = min(found.producer_epoch + bumps_epoch, EPOCH_MAX)
    markers = Markers(found.producer_id, epoch, committed, found.partitions)
    if epoch == EPOCH_MAX and bumps_epoch:
        ended = replace(ended, producer_id=fresh_producer_id(), producer_epoch=0)
    elif bumps_epoch:
        ended = replace(ended, producer_epoch=epoch)
    if bumps_epoch:
        ended = replace(
            ended,
            last_producer_id=found.producer_id,
            last_producer_epoch=found.producer_epoch,
        )
    return Transition(ended, markers)


def _repeats_end(found: Transaction, claim: Claim) -> bool:
    """Return whether the request repeats the latest EndTxn: it has the producer id and
    epoch from before that request."""
    is_complete = found.state in {
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    }
    return (
        is_complete
        and claim.producer_id == found.last_producer_id
        and claim.producer_epoch == found.last_producer_epoch
    )


def _check_same_end(found: Transaction, committed: bool) -> None:
    ended = found.state is TransactionState.COMPLETE_COMMIT
    if ended != committed:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
