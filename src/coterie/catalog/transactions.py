"""The transaction coordinator's decisions and state, pure.

Kafka prepares an end of transaction, sends markers to brokers and completes it when all
have answered. Here all partitions share one log, so the new state and every marker are
one flush: there are no prepare states, and CONCURRENT_TRANSACTIONS never has to be
answered. A decision is a `Step`: the transaction as it will be, and the markers that
have to become durable with it.

With transactions version 2 (KIP-890: EndTxn v5, Produce v12, TxnOffsetCommit v5) each
end bumps the producer's epoch, so a late write of the ended transaction is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coterie.catalog.entries import Entry, Kind
from coterie.errors import ApiError
from coterie.types import ProducerId, TopicPartition
from coterie.wire.error_codes import ErrorCode

EPOCH_MAX: Final = 2**15 - 1
EPOCH_EXHAUSTED: Final = EPOCH_MAX - 1
"""From this epoch on a producer gets a new id; the one above is left for fencing."""
NO_PRODUCER: Final = -1


class TransactionState(StrEnum):
    """Where a transactional producer stands, in Kafka's words."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional producer and its newest transaction.

    `last_producer_id` and `last_producer_epoch` are what the client had before the
    newest change, to know a repeated request again. `started_ms` is -1 unless ongoing.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    last_producer_id: ProducerId = NO_PRODUCER
    last_producer_epoch: int = -1
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = -1

    @property
    def is_ongoing(self) -> bool:
        """Whether something may be written in it that has not been ended."""
        return self.state is TransactionState.ONGOING

    @property
    def expires_at_ms(self) -> int:
        """When an ongoing transaction is aborted for taking too long."""
        assert self.is_ongoing
        return self.started_ms + self.timeout_ms

    def to_entry(self) -> Entry:
        """Its catalog entry."""
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
        return Entry(Kind.TRANSACTION, self.transactional_id, value)

    @classmethod
    def from_value(cls, transactional_id: str, value: Mapping[str, Any]) -> Transaction:
        """Read the value of a catalog entry."""
        fields = dict(value)
        fields["state"] = TransactionState(fields["state"])
        fields["partitions"] = frozenset(
            TopicPartition(topic, partition)
            for topic, indexes in fields["partitions"].items()
            for partition in indexes
        )
        return cls(transactional_id=transactional_id, **fields)


class Markers(NamedTuple):
    """The end-of-transaction markers to write, one to each partition."""

    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]


class Step(NamedTuple):
    """A decision: the transaction as it will be, and the markers that go with it.

    `is_change` is false when a request was a repetition and nothing is to be written.
    """

    transaction: Transaction
    markers: Markers | None = None
    is_change: bool = True


class Claim(NamedTuple):
    """Who a request says it comes from."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: int


class Transactions:
    """All transactional producers by transactional id."""

    def __init__(self) -> None:
        self._by_id: dict[str, Transaction] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, transactional_id: str) -> Transaction | None:
        """The producer of that transactional id, if there is one."""
        return self._by_id.get(transactional_id)

    def ongoing(self) -> list[Transaction]:
        """The transactions that are open."""
        return [found for found in self._by_id.values() if found.is_ongoing]

    def replay(self, transactional_id: str, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry."""
        self._by_id.pop(transactional_id, None)
        if value is not None:
            found = Transaction.from_value(transactional_id, value)
            self._by_id[transactional_id] = found

    def initialise(
        self,
        claim: Claim,
        *,
        timeout_ms: int,
        fresh_producer_id: Callable[[], ProducerId],
        now_ms: int,
    ) -> Step:
        """Give a producer its id and a new epoch; abort what an older one left open.

        A claim's producer id and epoch are -1 when the client has none yet. Kafka lets
        the client ask again after the abort; here the abort is done in the same step.
        Raises ApiError PRODUCER_FENCED.
        """
        found = self._by_id.get(claim.transactional_id)
        if found is None:
            return Step(
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
            if claim.producer_id != NO_PRODUCER and (
                claim.producer_epoch != found.producer_epoch
            ):
                raise ApiError(ErrorCode.PRODUCER_FENCED)
            found, markers = _fence(found, now_ms)
            claim = claim._replace(producer_epoch=found.producer_epoch)
        found = replace(found, timeout_ms=timeout_ms)
        bumped = _bump_at_init(found, claim, fresh_producer_id)
        bumped = replace(
            bumped, state=TransactionState.EMPTY, partitions=frozenset(), started_ms=-1
        )
        return Step(replace(bumped, updated_ms=now_ms), markers)

    def add_partitions(
        self, claim: Claim, partitions: Iterable[TopicPartition], now_ms: int
    ) -> Step:
        """Let a transaction write to partitions; it begins if none is open.

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
            return Step(begun)
        wanted = found.partitions.union(partitions)
        if wanted == found.partitions:
            return Step(found, is_change=False)
        return Step(replace(found, partitions=wanted, updated_ms=now_ms))

    def verify(self, claim: Claim, partition: TopicPartition) -> bool:
        """Whether the open transaction of this producer includes the partition.

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
    ) -> Step:
        """Commit or abort. `bumps_epoch` in transactions version 2.

        Raises ApiError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
        INVALID_TXN_STATE.
        """
        found = self._by_id.get(claim.transactional_id)
        if bumps_epoch and found is not None and _repeats_end(found, claim):
            _check_same_end(found, committed)
            return Step(found, is_change=False)
        found = self._claimed(claim)
        if found.is_ongoing:
            return _end(found, committed, bumps_epoch, fresh_producer_id, now_ms)
        if bumps_epoch and not committed:
            # KIP-890: a client that cannot know whether its first write arrived aborts,
            # and the epoch moves on even if nothing had begun.
            return _end(found, False, True, fresh_producer_id, now_ms)
        if found.state is TransactionState.EMPTY or bumps_epoch:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        _check_same_end(found, committed)
        return Step(found, is_change=False)

    def expire(self, transactional_id: str, now_ms: int) -> Step | None:
        """Abort a transaction that is open for too long and fence its producer."""
        found = self._by_id.get(transactional_id)
        if found is None or not found.is_ongoing or found.expires_at_ms > now_ms:
            return None
        fenced, markers = _fence(found, now_ms)
        return Step(fenced, markers)

    def unused(self, before_ms: int) -> list[Entry]:
        """Entries that forget the producers without a sign of life since then."""
        return [
            Entry(Kind.TRANSACTION, found.transactional_id, None)
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
    """KIP-360: a client that names an id must name the one it has or just had."""
    if claim.producer_id in {NO_PRODUCER, found.producer_id}:
        return
    is_retry = claim.producer_id == found.last_producer_id
    if not (is_retry and claim.producer_epoch >= EPOCH_EXHAUSTED):
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def _bump_at_init(
    found: Transaction, claim: Claim, fresh_producer_id: Callable[[], ProducerId]
) -> Transaction:
    """The producer under its next epoch, or under a new id when epochs run out."""
    named = claim.producer_id != NO_PRODUCER
    is_current = not named or claim.producer_epoch == found.producer_epoch
    if found.producer_epoch >= EPOCH_EXHAUSTED and is_current:
        return replace(
            found,
            producer_id=fresh_producer_id(),
            producer_epoch=0,
            last_producer_id=found.producer_id if named else NO_PRODUCER,
            last_producer_epoch=found.producer_epoch if named else -1,
        )
    if is_current:
        return replace(
            found,
            producer_epoch=found.producer_epoch + 1,
            last_producer_id=NO_PRODUCER,
            last_producer_epoch=found.producer_epoch if named else -1,
        )
    if claim.producer_epoch == found.last_producer_epoch:
        return found  # the answer to the first try was lost
    raise ApiError(ErrorCode.PRODUCER_FENCED)


def _fence(found: Transaction, now_ms: int) -> tuple[Transaction, Markers]:
    """Abort under the next epoch, so that whoever had this one can write no more."""
    epoch = min(found.producer_epoch + 1, EPOCH_MAX)
    markers = Markers(found.producer_id, epoch, False, found.partitions)
    fenced = replace(
        found,
        producer_epoch=epoch,
        last_producer_epoch=-1,
        state=TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        started_ms=-1,
        updated_ms=now_ms,
    )
    return fenced, markers


def _end(
    found: Transaction,
    committed: bool,
    bumps_epoch: bool,
    fresh_producer_id: Callable[[], ProducerId],
    now_ms: int,
) -> Step:
    ended = replace(
        found,
        state=TransactionState.COMPLETE_COMMIT
        if committed
        else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        started_ms=-1,
        updated_ms=now_ms,
    )
    epoch = found.producer_epoch + 1 if bumps_epoch else found.producer_epoch
    assert epoch <= EPOCH_MAX
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
    return Step(ended, markers)


def _repeats_end(found: Transaction, claim: Claim) -> bool:
    """Whether the claim is the one the newest end bumped away."""
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
