"""The transaction coordinator: epochs, fencing, transactions versions 1 and 2."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from coterie.broker.catalog.transactions import (
    EPOCH_EXHAUSTED,
    EPOCH_MAX,
    Claim,
    Markers,
    Transaction,
    Transactions,
    TransactionState,
    Transition,
)
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

PARTITION = TopicPartition("a", 0)
OTHER = TopicPartition("b", 1)


class World:
    """The transactions of one transactional id, and a source of producer ids."""

    def __init__(self, *, bumps_epoch: bool = False) -> None:
        self.transactions = Transactions()
        self.now_ms = 1_000
        self.bumps_epoch = bumps_epoch
        self._ids = count(100)

    def take(self, step: Transition) -> Transition:
        entry = step.transaction.to_entry()
        self.transactions.replay(entry.name, entry.value)
        return step

    def initialise(self, producer_id: int = -1, epoch: int = -1) -> Transition:
        step = self.transactions.init_producer_id(
            Claim("t", producer_id, epoch),
            timeout_ms=500,
            fresh_producer_id=lambda: next(self._ids),
            now_ms=self.now_ms,
        )
        return self.take(step)

    @property
    def current(self) -> Transaction:
        found = self.transactions.get("t")
        assert found is not None
        return found

    @property
    def claim(self) -> Claim:
        return Claim("t", self.current.producer_id, self.current.producer_epoch)

    def add(
        self, *partitions: TopicPartition, claim: Claim | None = None
    ) -> Transition:
        step = self.transactions.add_partitions(
            claim or self.claim, partitions or [PARTITION], self.now_ms
        )
        return self.take(step)

    def expire(self, now_ms: int) -> Transition | None:
        return self.transactions.expire("t", lambda: next(self._ids), now_ms)

    def end(self, *, committed: bool, claim: Claim | None = None) -> Transition:
        step = self.transactions.end(
            claim or self.claim,
            committed=committed,
            bumps_epoch=self.bumps_epoch,
            fresh_producer_id=lambda: next(self._ids),
            now_ms=self.now_ms,
        )
        return self.take(step)

    def with_epoch(self, epoch: int) -> None:
        entry = self.current.to_entry()
        assert entry.value is not None
        self.transactions.replay("t", {**entry.value, "producer_epoch": epoch})


def code_of(caught: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return caught.value.code


def test_a_new_producer_gets_an_id_and_the_first_epoch() -> None:
    step = World().initialise()
    assert (step.transaction.producer_id, step.transaction.producer_epoch) == (100, 0)


def test_a_repeated_init_producer_id_bumps_the_epoch() -> None:
    world = World()
    world.initialise()
    assert world.initialise().transaction.producer_epoch == 1


def test_init_producer_id_aborts_the_open_transaction_of_the_previous_epoch() -> None:
    world = World()
    world.initialise()
    world.add(PARTITION, OTHER)
    step = world.initialise()
    assert step.markers == Markers(100, 1, False, frozenset({PARTITION, OTHER}))
    assert step.transaction.producer_epoch == 2
    assert step.transaction.state is TransactionState.EMPTY


def test_a_current_epoch_in_init_producer_id_is_bumped() -> None:
    world = World()
    world.initialise()
    assert world.initialise(100, 0).transaction.producer_epoch == 1


def test_a_retried_init_producer_id_gets_the_same_epoch() -> None:
    world = World()
    world.initialise()
    world.initialise(100, 0)
    assert world.initialise(100, 0).transaction.producer_epoch == 1


@pytest.mark.parametrize("named", [(100, 0), (99, 5)])
def test_a_producer_with_an_older_epoch_is_fenced(named: tuple[int, int]) -> None:
    world = World()
    world.initialise()
    world.initialise()
    world.initialise()
    with pytest.raises(ApiError) as caught:
        world.initialise(*named)
    assert code_of(caught) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_aborts_the_transaction_of_a_newer_epoch() -> None:
    # The request is refused all the same, as Kafka refuses the client's retry.
    world = World()
    world.initialise()
    world.initialise()
    world.add()
    assert world.claim == Claim("t", 100, 1)
    step = world.initialise(100, 0)
    assert step.error is ErrorCode.PRODUCER_FENCED
    assert step.markers == Markers(100, 2, False, frozenset({PARTITION}))
    assert world.current.state is TransactionState.COMPLETE_ABORT
    # Without an open transaction there is nothing to abort.
    with pytest.raises(ApiError) as caught:
        world.initialise(100, 0)
    assert code_of(caught) is ErrorCode.PRODUCER_FENCED
    world.initialise(100, 1)
    assert world.claim == Claim("t", 100, 2)


def test_an_exhausted_epoch_assigns_a_new_producer_id() -> None:
    world = World()
    world.initialise()
    world.with_epoch(EPOCH_EXHAUSTED)
    step = world.initialise()
    assert (step.transaction.producer_id, step.transaction.producer_epoch) == (101, 0)


@pytest.mark.bug("KAFKA-18660")
def test_an_abort_with_the_last_epoch_assigns_a_new_producer_id() -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.with_epoch(EPOCH_MAX)
    step = world.end(committed=False)
    assert (step.transaction.producer_id, step.transaction.producer_epoch) == (101, 0)


@pytest.mark.bug("KAFKA-19367", "KAFKA-20090")
@pytest.mark.parametrize("times_out", [False, True])
def test_an_unrequested_abort_with_the_last_epoch_assigns_a_new_producer_id(
    times_out: bool,
) -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.add()
    world.with_epoch(EPOCH_EXHAUSTED)
    late = world.claim
    step = world.expire(2_000) if times_out else world.initialise()
    assert step is not None
    world.take(step)
    assert step.markers == Markers(100, EPOCH_MAX, False, frozenset({PARTITION}))
    assert world.current.producer_id == 101
    assert not world.current.is_ongoing
    if times_out:  # the client's own abort was late
        assert not world.end(committed=False, claim=late).is_change


def test_a_transaction_begins_with_its_first_partition() -> None:
    world = World()
    world.initialise()
    world.add()
    assert world.current.is_ongoing
    assert world.current.expires_at_ms == 1_500


def test_a_partition_added_again_changes_nothing() -> None:
    world = World()
    world.initialise()
    world.add()
    assert not world.add().is_change


def test_verification_succeeds_for_partitions_of_the_transaction_only() -> None:
    world = World()
    world.initialise()
    world.add()
    assert world.transactions.verify(world.claim, PARTITION)
    assert not world.transactions.verify(world.claim, OTHER)


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        (Claim("x", 100, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Claim("t", 99, 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (Claim("t", 100, 1), ErrorCode.PRODUCER_FENCED),
    ],
)
@pytest.mark.parametrize("bumps_epoch", [False, True])
def test_a_wrong_producer_id_or_epoch_is_refused(
    claim: Claim, code: ErrorCode, bumps_epoch: bool
) -> None:
    world = World(bumps_epoch=bumps_epoch)
    world.initialise()
    with pytest.raises(ApiError) as caught:
        world.add(claim=claim)
    assert code_of(caught) is code
    with pytest.raises(ApiError) as caught:
        world.end(committed=True, claim=claim)
    assert code_of(caught) is code


@pytest.mark.parametrize("committed", [True, False])
def test_ending_a_transaction_writes_a_marker_to_every_partition(
    committed: bool,
) -> None:
    world = World()
    world.initialise()
    world.add(PARTITION, OTHER)
    step = world.end(committed=committed)
    assert step.markers == Markers(100, 0, committed, frozenset({PARTITION, OTHER}))
    assert not world.current.is_ongoing
    assert world.current.producer_epoch == 0


@pytest.mark.parametrize("committed", [True, False])
def test_a_retried_end_txn_succeeds_and_writes_nothing(committed: bool) -> None:
    world = World()
    world.initialise()
    world.add()
    world.end(committed=committed)
    step = world.end(committed=committed)
    assert (step.is_change, step.markers) == (False, None)


@pytest.mark.parametrize("bumps_epoch", [False, True])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_cannot_be_ended_with_the_other_outcome(
    committed: bool, bumps_epoch: bool
) -> None:
    world = World(bumps_epoch=bumps_epoch)
    world.initialise()
    world.add()
    claim = world.claim
    world.end(committed=committed)
    with pytest.raises(ApiError) as caught:
        world.end(committed=not committed, claim=claim)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("bumps_epoch", [False, True])
def test_a_commit_without_a_transaction_is_refused(bumps_epoch: bool) -> None:
    world = World(bumps_epoch=bumps_epoch)
    world.initialise()
    with pytest.raises(ApiError) as caught:
        world.end(committed=True)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_transactions_v2_bump_the_epoch_at_each_end(committed: bool) -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.add()
    step = world.end(committed=committed)
    assert step.markers == Markers(100, 1, committed, frozenset({PARTITION}))
    assert world.current.producer_epoch == 1


def test_transaction_v2_accepts_a_repeated_end_with_the_previous_epoch() -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.add()
    claim = world.claim
    world.end(committed=True)
    step = world.end(committed=True, claim=claim)
    assert (step.is_change, step.transaction.producer_epoch) == (False, 1)


def test_transaction_v2_aborts_an_empty_transaction_and_bumps_the_epoch() -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    step = world.end(committed=False)
    assert step.transaction.producer_epoch == 1
    assert step.markers is not None
    assert step.markers.partitions == frozenset()


def test_transactions_v2_assign_a_new_id_after_the_last_epoch() -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.with_epoch(EPOCH_EXHAUSTED)
    world.add()
    claim = world.claim
    step = world.end(committed=True)
    assert step.markers is not None
    assert step.markers.producer_epoch == EPOCH_EXHAUSTED + 1
    assert (step.transaction.producer_id, step.transaction.producer_epoch) == (101, 0)
    assert not world.end(committed=True, claim=claim).is_change


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    world = World()
    world.initialise()
    world.add()
    claim = world.claim
    assert world.expire(1_499) is None
    step = world.expire(1_500)
    assert step is not None
    assert step.markers == Markers(100, 1, False, frozenset({PARTITION}))
    world.take(step)
    with pytest.raises(ApiError) as caught:
        world.end(committed=True, claim=claim)
    assert code_of(caught) is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_transaction_timed_out_gets_the_epoch_of_the_abort() -> None:
    world = World()
    world.initialise()
    world.add()
    claim = world.claim
    step = world.expire(1_500)
    assert step is not None
    world.take(step)
    for _ in range(2):
        world.initialise(claim.producer_id, claim.producer_epoch)
        assert world.claim == Claim("t", 100, 1)
    world.initialise()
    assert world.claim == Claim("t", 100, 2)


@pytest.mark.parametrize("named", [True, False])
def test_an_abort_in_the_last_epoch_gives_a_new_producer_id(*, named: bool) -> None:
    world = World()
    world.initialise()
    world.take(Transition(replace(world.current, producer_epoch=EPOCH_EXHAUSTED)))
    world.add()
    claim = world.claim
    owner = (claim.producer_id, claim.producer_epoch) if named else (-1, -1)
    step = world.initialise(*owner)
    assert step.markers is not None
    assert step.markers.producer_epoch == EPOCH_EXHAUSTED + 1
    assert world.claim == Claim("t", 101, 0 if named else 1)


def test_only_unused_transactional_ids_expire() -> None:
    world = World()
    world.initialise()
    assert world.transactions.expired_entries(1_000) == []
    [entry] = world.transactions.expired_entries(1_001)
    world.add()
    assert world.transactions.expired_entries(1_001) == []
    world.transactions.replay(entry.name, entry.value)
    assert len(world.transactions) == 0


def test_a_transaction_is_decoded_from_its_catalog_entry() -> None:
    world = World()
    world.initialise()
    world.add(PARTITION, OTHER, TopicPartition("a", 3))
    entry = world.current.to_entry()
    assert entry.value is not None
    assert Transaction.from_value("t", entry.value) == world.current
