"""The transaction coordinator: epochs, fencing, both versions of ending."""

from __future__ import annotations

from itertools import count

import pytest

from coterie.catalog.transactions import (
    EPOCH_EXHAUSTED,
    Claim,
    Markers,
    Step,
    Transaction,
    Transactions,
    TransactionState,
)
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

PARTITION = TopicPartition("a", 0)
OTHER = TopicPartition("b", 1)


class World:
    """One transactional id, its transactions and a supply of producer ids."""

    def __init__(self, *, bumps_epoch: bool = False) -> None:
        self.transactions = Transactions()
        self.now_ms = 1_000
        self.bumps_epoch = bumps_epoch
        self._ids = count(100)

    def take(self, step: Step) -> Step:
        entry = step.transaction.to_entry()
        self.transactions.replay(entry.name, entry.value)
        return step

    def initialise(self, producer_id: int = -1, epoch: int = -1) -> Step:
        step = self.transactions.initialise(
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

    def add(self, *partitions: TopicPartition, claim: Claim | None = None) -> Step:
        step = self.transactions.add_partitions(
            claim or self.claim, partitions or [PARTITION], self.now_ms
        )
        return self.take(step)

    def end(self, *, committed: bool, claim: Claim | None = None) -> Step:
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


def test_asking_again_bumps_the_epoch() -> None:
    world = World()
    world.initialise()
    assert world.initialise().transaction.producer_epoch == 1


def test_initialising_aborts_what_an_older_producer_left_open() -> None:
    world = World()
    world.initialise()
    world.add(PARTITION, OTHER)
    step = world.initialise()
    assert step.markers == Markers(100, 1, False, frozenset({PARTITION, OTHER}))
    assert step.transaction.producer_epoch == 2
    assert step.transaction.state is TransactionState.EMPTY


def test_a_named_epoch_that_is_current_is_bumped() -> None:
    world = World()
    world.initialise()
    assert world.initialise(100, 0).transaction.producer_epoch == 1


def test_a_repeated_named_epoch_gets_the_same_answer() -> None:
    world = World()
    world.initialise()
    world.initialise(100, 0)
    assert world.initialise(100, 0).transaction.producer_epoch == 1


@pytest.mark.parametrize("named", [(100, 0), (99, 5)])
def test_a_producer_that_was_replaced_is_fenced(named: tuple[int, int]) -> None:
    world = World()
    world.initialise()
    world.initialise()
    world.initialise()
    with pytest.raises(ApiError) as caught:
        world.initialise(*named)
    assert code_of(caught) is ErrorCode.PRODUCER_FENCED


def test_a_fenced_producer_cannot_abort_anothers_transaction() -> None:
    world = World()
    world.initialise()
    world.initialise()
    world.add()
    with pytest.raises(ApiError):
        world.initialise(100, 0)
    assert world.current.is_ongoing


def test_an_exhausted_epoch_brings_a_new_producer_id() -> None:
    world = World()
    world.initialise()
    world.with_epoch(EPOCH_EXHAUSTED)
    step = world.initialise()
    assert (step.transaction.producer_id, step.transaction.producer_epoch) == (101, 0)


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


def test_partitions_are_verified() -> None:
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
def test_a_wrong_claim_is_refused(
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
def test_an_end_marks_every_partition(committed: bool) -> None:
    world = World()
    world.initialise()
    world.add(PARTITION, OTHER)
    step = world.end(committed=committed)
    assert step.markers == Markers(100, 0, committed, frozenset({PARTITION, OTHER}))
    assert not world.current.is_ongoing
    assert world.current.producer_epoch == 0


@pytest.mark.parametrize("committed", [True, False])
def test_a_repeated_end_is_answered_and_writes_nothing(committed: bool) -> None:
    world = World()
    world.initialise()
    world.add()
    world.end(committed=committed)
    step = world.end(committed=committed)
    assert (step.is_change, step.markers) == (False, None)


@pytest.mark.parametrize("bumps_epoch", [False, True])
@pytest.mark.parametrize("committed", [True, False])
def test_the_other_end_afterwards_is_refused(
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
def test_nothing_cannot_be_committed(bumps_epoch: bool) -> None:
    world = World(bumps_epoch=bumps_epoch)
    world.initialise()
    with pytest.raises(ApiError) as caught:
        world.end(committed=True)
    assert code_of(caught) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_version_two_bumps_the_epoch_at_each_end(committed: bool) -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.add()
    step = world.end(committed=committed)
    assert step.markers == Markers(100, 1, committed, frozenset({PARTITION}))
    assert world.current.producer_epoch == 1


def test_version_two_knows_a_repeated_end_by_the_epoch_before() -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    world.add()
    claim = world.claim
    world.end(committed=True)
    step = world.end(committed=True, claim=claim)
    assert (step.is_change, step.transaction.producer_epoch) == (False, 1)


def test_version_two_aborts_what_never_began_and_bumps() -> None:
    world = World(bumps_epoch=True)
    world.initialise()
    step = world.end(committed=False)
    assert step.transaction.producer_epoch == 1
    assert step.markers is not None
    assert step.markers.partitions == frozenset()


def test_version_two_gives_a_new_id_when_epochs_run_out() -> None:
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


def test_a_transaction_open_for_too_long_is_aborted_and_fenced() -> None:
    world = World()
    world.initialise()
    world.add()
    claim = world.claim
    assert world.transactions.expire("t", 1_499) is None
    step = world.transactions.expire("t", 1_500)
    assert step is not None
    assert step.markers == Markers(100, 1, False, frozenset({PARTITION}))
    world.take(step)
    with pytest.raises(ApiError) as caught:
        world.end(committed=True, claim=claim)
    assert code_of(caught) is ErrorCode.PRODUCER_FENCED


def test_only_unused_ids_are_forgotten() -> None:
    world = World()
    world.initialise()
    assert world.transactions.unused(1_000) == []
    [entry] = world.transactions.unused(1_001)
    world.add()
    assert world.transactions.unused(1_001) == []
    world.transactions.replay(entry.name, entry.value)
    assert len(world.transactions) == 0


def test_a_transaction_is_read_back_as_it_was_kept() -> None:
    world = World()
    world.initialise()
    world.add(PARTITION, OTHER, TopicPartition("a", 3))
    entry = world.current.to_entry()
    assert entry.value is not None
    assert Transaction.from_value("t", entry.value) == world.current
