"""The simulated coordinator of applications' transactions: batches outside an open
transaction are refused, and one ends when its markers are durable.
"""

from __future__ import annotations

from random import Random

import pytest

from coterie.errors import ApiError
from coterie.gateway.upstream.transactions import Application
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import TRANSACTIONAL, LogRecord, Producer, encode_batch
from sim.clock import Clock
from sim.gateway.upstream import Cluster, Outcome


def cluster_of(*, bumps_epoch: bool = False) -> Cluster:
    return Cluster(Clock(), Random(1), 2, bumps_epoch=bumps_epoch)


def write(cluster: Cluster, producer: Producer) -> list[Outcome]:
    records = [LogRecord(0, 1_000, b"k", b"v")]
    batch = encode_batch(records, producer=producer, attributes=TRANSACTIONAL)
    found: list[Outcome] = []
    cluster.append(0, batch, found.append)
    run(cluster, 1_000)
    return found


def run(cluster: Cluster, duration_ms: int) -> None:
    until_ms = cluster.clock.now_ms + duration_ms
    while cluster.clock.step(until_ms):
        pass


def code_of(outcome: Outcome | None) -> ErrorCode:
    assert isinstance(outcome, ApiError)
    return outcome.code


def test_a_batch_is_refused_outside_an_open_transaction() -> None:
    cluster = cluster_of()
    coordinator = cluster.transactions
    transaction = coordinator.begin("p")
    assert transaction is not None
    producer = Producer(transaction.producer_id, 0, 0)
    assert code_of(write(cluster, producer)[0]) is ErrorCode.INVALID_TXN_STATE
    application = Application("p", transaction.producer_id, 0)
    assert coordinator.add_partition(application, 0) is None
    assert write(cluster, producer) == [0]
    coordinator.end("p", commits=True, fences=False)
    refusal = coordinator.add_partition(application, 1)
    assert code_of(refusal) is ErrorCode.CONCURRENT_TRANSACTIONS
    run(cluster, 2_000)
    assert transaction.is_marked(0)
    late = producer._replace(base_sequence=1)
    assert code_of(write(cluster, late)[0]) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_is_written_again_until_it_is_durable() -> None:
    cluster = cluster_of()
    coordinator = cluster.transactions
    transaction = coordinator.begin("p")
    assert transaction is not None
    coordinator.add_partition(Application("p", transaction.producer_id, 0), 0)
    cluster.fail_over(0, 5_000)
    coordinator.end("p", commits=False, fences=False)
    run(cluster, 4_000)
    assert not transaction.is_marked(0)
    assert coordinator.begin("p") is None
    run(cluster, 4_000)
    assert transaction.is_marked(0)
    assert coordinator.begin("p") is not None


@pytest.mark.parametrize("bumps_epoch", [False, True])
def test_a_producer_is_fenced_when_its_transaction_is_aborted_for_it(
    bumps_epoch: bool,
) -> None:
    cluster = cluster_of(bumps_epoch=bumps_epoch)
    coordinator = cluster.transactions
    transaction = coordinator.begin("p")
    assert transaction is not None
    application = Application("p", transaction.producer_id, 0)
    coordinator.add_partition(application, 0)
    producer = Producer(transaction.producer_id, 0, 0)
    assert write(cluster, producer) == [0]
    coordinator.end("p", commits=False, fences=True)
    run(cluster, 2_000)
    late = producer._replace(base_sequence=1)
    assert isinstance(write(cluster, late)[0], ApiError)
    assert coordinator.begin("p") is not None
    refusal = coordinator.add_partition(application, 0)
    assert code_of(refusal) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("bumps_epoch", [False, True])
def test_an_end_that_arrives_again_ends_the_next_transaction_of_the_epoch(
    bumps_epoch: bool,
) -> None:
    cluster = cluster_of(bumps_epoch=bumps_epoch)
    coordinator = cluster.transactions
    first = coordinator.begin("p")
    assert first is not None
    coordinator.end("p", commits=True, fences=False)
    following = coordinator.begin("p")
    assert following is not None
    application = Application("p", following.producer_id, following.producer_epoch)
    assert coordinator.add_partition(application, 0) is None
    coordinator.end_again("p", first.producer_epoch, commits=True)
    assert following.is_open is bumps_epoch
    run(cluster, 2_000)
    assert following.is_marked(0) is not bumps_epoch


def test_a_fenced_producer_is_refused() -> None:
    cluster = cluster_of()
    coordinator = cluster.transactions
    transaction = coordinator.begin("p")
    assert transaction is not None
    coordinator.fence("p")
    refusal = coordinator.add_partition(Application("p", 1, 0), 0)
    assert code_of(refusal) is ErrorCode.PRODUCER_FENCED
