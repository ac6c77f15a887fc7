"""Offsets in applications' transactions, which upstream coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from coterie.broker.runtime.shards import Phase
from coterie.errors import ApiError, ConnectionLost, CoterieError, LogError
from coterie.gateway import transactions
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.upstream.transactions import Application
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import Producer, read_header
from tests.broker.server.apis.fake_broker import allow_except
from tests.gateway.transaction_world import GROUP, V1, V2, GatewayWorld, code_of

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

OTHER = Producer(8, 0)


@pytest.fixture
def world() -> GatewayWorld:
    return GatewayWorld()


# The outcome of a transaction.


def test_offsets_are_pending_until_the_marker_commits_them(
    world: GatewayWorld,
) -> None:
    assert world.commit(5) is ErrorCode.NONE
    assert world.is_pending
    assert world.committed() is None
    world.end(commit=True)
    assert not world.is_pending
    assert world.committed() == 5


def test_an_abort_drops_them(world: GatewayWorld) -> None:
    world.commit(5)
    world.end(commit=False)
    assert not world.is_pending
    assert world.committed() is None


def test_nothing_is_pending_before_upstream_has_the_batch(
    world: GatewayWorld,
) -> None:
    responses = world.begin_commit(5)
    assert not responses
    assert not world.is_pending
    world.answer()
    assert code_of(responses) is ErrorCode.NONE
    assert world.is_pending


def test_the_batch_is_transactional_and_has_the_applications_producer(
    world: GatewayWorld,
) -> None:
    world.begin_commit(5, producer=Producer(9, 3))
    [request] = world.upstream.requests
    header = read_header(request.batch)
    assert request.transactional_id == "app-9"
    assert (header.producer_id, header.producer_epoch) == (9, 3)
    assert header.is_transactional


# Sequences.


def test_sequences_of_a_producer_are_consecutive(world: GatewayWorld) -> None:
    for offset in range(3):
        assert world.commit(offset) is ErrorCode.NONE
        world.end(commit=True)
    assert world.sequences() == [(7, 0, 0), (7, 0, 1), (7, 0, 2)]


def test_sequences_begin_at_zero_with_each_epoch(world: GatewayWorld) -> None:
    for epoch in range(3):
        assert world.commit(1, producer=Producer(7, epoch)) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0), (7, 1, 0), (7, 2, 0)]


def test_sequences_are_counted_for_each_shard(world: GatewayWorld) -> None:
    other = next(
        name for name in map(str, range(99)) if world.runtime.shard_of(name) == 0
    )
    assert world.shard != 0
    world.commit(1)
    world.commit(1, group=other)
    world.commit(2)
    assert world.sequences() == [(7, 0, 0), (7, 0, 1)]
    assert world.sequences(0) == [(7, 0, 0)]


def test_a_request_waits_for_the_earlier_one_of_its_producer(
    world: GatewayWorld,
) -> None:
    first, second = world.begin_commit(1), world.begin_commit(2, partition=1)
    assert len(world.upstream.requests) == 1
    world.answer()
    assert code_of(first) is ErrorCode.NONE
    assert not second
    world.answer()
    assert code_of(second) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0), (7, 0, 1)]


def test_a_refused_batch_leaves_no_gap(world: GatewayWorld) -> None:
    world.commit(1)
    first, second = world.begin_commit(2), world.begin_commit(3)
    world.upstream.refuse(ErrorCode.INVALID_TXN_STATE)
    world.loop.settle()
    world.answer()
    assert code_of(first) is ErrorCode.INVALID_TXN_STATE
    assert code_of(second) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0), (7, 0, 1)]


def test_a_shard_that_deleted_an_offset_meanwhile_is_loaded_again(
    world: GatewayWorld,
) -> None:
    world.commit(5)
    world.end(commit=True)
    responses = world.begin_commit(6)
    topic = m.OffsetDeleteRequestTopic(
        name="t", partitions=[m.OffsetDeleteRequestPartition(partition_index=0)]
    )
    deletion = m.OffsetDeleteRequest(group_id=GROUP, topics=[topic])
    deleted = world.submit(deletion, GROUP, 0)
    world.answer()
    world.answer()
    [response] = deleted
    assert response.error_code == ErrorCode.NONE
    assert code_of(responses) is ErrorCode.NOT_COORDINATOR
    assert world.runtime.reloads == 1


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_lost_answer_repeats_the_batch(
    world: GatewayWorld, is_appended: bool
) -> None:
    world.commit(1)
    responses = world.begin_commit(2)
    world.upstream.lose(is_appended=is_appended)
    world.loop.advance(5)
    world.answer()
    assert code_of(responses) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0), (7, 0, 1)]
    world.end(commit=True)
    assert world.committed() == 2


def test_an_epoch_below_one_that_has_written_is_refused(world: GatewayWorld) -> None:
    world.commit(1, producer=Producer(7, 1))
    older = Producer(7, 0)
    assert world.commit(2, producer=older) is ErrorCode.INVALID_PRODUCER_EPOCH


# Another owner.


def test_a_successor_continues_the_sequences(world: GatewayWorld) -> None:
    world.commit(1)
    world.commit(2)
    other = GatewayWorld(shared=world.upstream, loop=world.loop, epoch=1)
    assert other.commit(3) is ErrorCode.NONE
    assert other.commit(4) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, each) for each in range(4)]
    assert other.requests.lists == 1


def test_the_same_node_asks_again_after_it_took_the_shard_over_again(
    world: GatewayWorld,
) -> None:
    world.commit(1)
    other = GatewayWorld(shared=world.upstream, loop=world.loop, epoch=1)
    other.commit(2)
    world.runtime.release(world.shard)
    world.epoch = 2
    world.take_over(world.shard)
    assert world.commit(3) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0), (7, 0, 1), (7, 0, 2)]


def test_no_batch_is_written_before_the_sequences_are_known(
    world: GatewayWorld,
) -> None:
    world.requests.held = []
    responses = world.begin_commit(1)
    assert not world.upstream.requests
    world.requests.held.pop()()
    world.loop.settle()
    world.answer()
    assert code_of(responses) is ErrorCode.NONE


def test_an_application_retries_while_the_sequences_are_unknown(
    world: GatewayWorld,
) -> None:
    world.requests.list_error = ConnectionLost("gone")
    assert world.commit(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.requests.list_error = None
    assert world.commit(1) is ErrorCode.NONE


def test_sequences_are_asked_for_while_no_batch_is_in_flight(
    world: GatewayWorld,
) -> None:
    """Ask while one is in flight, and the answer would not contain it."""
    world.commit(0, producer=Producer(8, 0))
    world.commit(0)
    wrong, right = world.begin_commit(1), world.begin_commit(1, producer=Producer(8, 0))
    world.upstream.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    world.loop.settle()
    assert world.requests.lists == 1
    world.answer()
    assert world.requests.lists == 2
    world.answer()
    assert code_of(wrong) is code_of(right) is ErrorCode.NONE
    assert world.sequences() == [(8, 0, 0), (7, 0, 0), (8, 0, 1), (7, 0, 1)]


def test_a_wrong_sequence_is_corrected_once(world: GatewayWorld) -> None:
    responses = world.begin_commit(1)
    for _ in range(2):
        assert not responses
        world.upstream.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        world.loop.settle()
    assert code_of(responses) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not world.upstream.requests


def test_the_number_of_kept_sequences_is_limited(
    world: GatewayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PRODUCERS_MAX", 2)
    for _ in range(2):
        for producer_id in (1, 2, 3, 4):
            producer = Producer(producer_id, 0)
            assert world.commit(1, producer=producer) is ErrorCode.NONE
    assert world.requests.lists == 2
    assert [each[2] for each in world.sequences()] == [0] * 4 + [1] * 4


# Refusals.


@pytest.mark.parametrize(
    ("refusal", "version", "code"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, V1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, V1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, V1, ErrorCode.INVALID_TXN_STATE),
        (
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            V1,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, V1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, V1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            V1,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, V1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_refusal_is_the_response_and_stops_nothing(
    world: GatewayWorld, refusal: ErrorCode, version: int, code: ErrorCode
) -> None:
    responses = world.begin_commit(1, version=version)
    world.upstream.refuse(refusal)
    world.loop.settle()
    assert code_of(responses) is code
    assert world.owned.phase is Phase.ACTIVE
    assert not world.is_pending
    assert world.commit(2) is ErrorCode.NONE


def test_a_stale_member_is_refused_before_anything_is_written(
    world: GatewayWorld,
) -> None:
    code = world.commit(1, member_id="zombie", generation_id_or_member_epoch=3)
    assert code is ErrorCode.ILLEGAL_GENERATION
    assert not world.upstream.requests
    assert world.commit(1) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0)]


def test_the_number_of_waiting_requests_is_limited(
    world: GatewayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "QUEUED_MAX", 2)
    waiting = [world.begin_commit(1), world.begin_commit(2)]
    assert world.commit(3) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.answer()
    world.answer()
    assert [code_of(each) for each in waiting] == [ErrorCode.NONE] * 2
    assert world.commit(4) is ErrorCode.NONE


def test_a_released_shard_is_not_the_coordinator(world: GatewayWorld) -> None:
    responses = world.begin_commit(1), world.begin_commit(2)
    writer = world.owned.flusher
    assert isinstance(writer, ShardWriter)
    world.runtime.release(world.shard)
    world.upstream.requests.clear()
    writer.close(LogError("released"))
    world.loop.settle()
    assert {code_of(each) for each in responses} == {ErrorCode.NOT_COORDINATOR}
    assert world.commit(3) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", [V1, V2])
def test_nothing_is_acknowledged_after_the_lease(
    world: GatewayWorld, version: int
) -> None:
    responses = world.begin_commit(1, version=version)
    world.lease = False
    world.answer()
    assert code_of(responses) is ErrorCode.NOT_COORDINATOR
    added = len(world.requests.added)
    assert world.commit(2, version=version) is ErrorCode.NOT_COORDINATOR
    assert len(world.requests.added) == added


def test_an_empty_group_id_is_invalid(world: GatewayWorld) -> None:
    assert world.commit(1, group="") is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("code", [ErrorCode.NONE, LOADING])
def test_a_group_has_to_be_admitted_first(world: GatewayWorld, code: ErrorCode) -> None:
    waiting: list[Callable[[ErrorCode], None]] = []

    def admit(shard: int, group_id: str, then: Callable[[ErrorCode], None]) -> None:
        assert (shard, group_id) == (world.shard, GROUP)
        waiting.append(then)

    world.broker.admit = admit
    responses = world.begin_commit(1)
    assert not world.upstream.requests
    [then] = waiting
    then(code)
    world.loop.settle()
    if code is ErrorCode.NONE:
        world.answer()
    assert code_of(responses) is code


def test_only_writers_of_the_transactional_id_commit(world: GatewayWorld) -> None:
    world.authorizer = allow_except(("WRITE", "app-7"))
    assert world.commit(1) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    world.authorizer = allow_except(("READ", GROUP))
    assert world.commit(1) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not world.upstream.requests


def test_a_coordinator_that_is_unavailable_delays_nobody_else(
    world: GatewayWorld,
) -> None:
    """Kafka's leader responds so when it cannot verify a transaction (KIP-890)."""
    unverified, other = world.begin_commit(1), world.begin_commit(1, producer=OTHER)
    world.upstream.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.loop.settle()
    assert code_of(unverified) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.answer()
    assert code_of(other) is ErrorCode.NONE


def test_a_batch_that_may_be_upstream_is_not_given_up(world: GatewayWorld) -> None:
    responses = world.begin_commit(1)
    world.upstream.lose(is_appended=True)
    world.loop.advance(5)
    world.upstream.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.loop.advance(5)
    world.answer()
    assert code_of(responses) is ErrorCode.NONE
    assert world.sequences() == [(7, 0, 0)]


def test_an_unknown_group_is_adopted_first(world: GatewayWorld) -> None:
    waiting: list[Any] = []
    world.broker.admit = lambda *admission: waiting.append(admission)
    responses = world.begin_commit(1)
    assert not world.upstream.requests
    [(shard, group, then)] = waiting
    assert (shard, group) == (world.shard, GROUP)
    then(ErrorCode.NONE)
    world.loop.settle()
    world.answer()
    assert code_of(responses) is ErrorCode.NONE
    refused = world.begin_commit(2)
    waiting[1][2](ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert code_of(refused) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# The partition of a transaction.


def test_version_5_adds_the_partition_first(world: GatewayWorld) -> None:
    assert world.commit(1, version=V2) is ErrorCode.NONE
    assert world.requests.added == [(Application("app-7", 7, 0), world.shard)]


def test_earlier_versions_add_nothing(world: GatewayWorld) -> None:
    assert world.commit(1, version=V1) is ErrorCode.NONE
    assert not world.requests.added


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.PRODUCER_FENCED), ErrorCode.INVALID_PRODUCER_EPOCH),
        (
            ApiError(ErrorCode.CONCURRENT_TRANSACTIONS),
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ),
        (ApiError(ErrorCode.INVALID_TXN_STATE), ErrorCode.INVALID_TXN_STATE),
        (ConnectionLost("gone"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_transaction_without_the_partition_gets_no_offsets(
    world: GatewayWorld, error: CoterieError, code: ErrorCode
) -> None:
    world.requests.refusals.append(error)
    assert world.commit(1, version=V2) is code
    assert not world.upstream.requests


# AddOffsetsToTxn.


def add_offsets(world: GatewayWorld, version: int = 3) -> ErrorCode:
    request = m.AddOffsetsToTxnRequest(
        transactional_id="app-7", producer_id=7, producer_epoch=0, group_id=GROUP
    )
    responses = world.call_handler(
        world.transactions.add_offsets_to_txn, request, version
    )
    world.loop.settle()
    [response] = responses
    return ErrorCode(response.error_code)


def test_offsets_are_added_by_the_partition_of_the_shard(world: GatewayWorld) -> None:
    assert add_offsets(world) is ErrorCode.NONE
    assert world.requests.added == [(Application("app-7", 7, 0), world.shard)]


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (ApiError(ErrorCode.PRODUCER_FENCED), 2, ErrorCode.PRODUCER_FENCED),
        (ApiError(ErrorCode.PRODUCER_FENCED), 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (
            ApiError(ErrorCode.CONCURRENT_TRANSACTIONS),
            3,
            ErrorCode.CONCURRENT_TRANSACTIONS,
        ),
        (
            ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            3,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ),
        (
            ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            3,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ),
        (ConnectionLost("gone"), 3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_refused_partition_is_the_response(
    world: GatewayWorld, error: CoterieError, version: int, code: ErrorCode
) -> None:
    world.requests.refusals.append(error)
    assert add_offsets(world, version) is code


def test_only_writers_of_the_transactional_id_add_offsets(world: GatewayWorld) -> None:
    world.authorizer = allow_except(("WRITE", "app-7"))
    assert add_offsets(world) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    world.authorizer = allow_except(("READ", GROUP))
    assert add_offsets(world) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert not world.requests.added


def test_a_commit_of_an_earlier_epoch_is_not_written(world: GatewayWorld) -> None:
    world.commit(5, producer=Producer(7, 3))
    world.end(Producer(7, 3), commit=True)
    responses = world.begin_commit(6, producer=Producer(7, 2))
    assert code_of(responses) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert not world.upstream.requests


def test_a_batch_above_the_limit_is_not_written(world: GatewayWorld) -> None:
    world.broker.settings = replace(world.settings, message_max_bytes=100)
    responses = world.begin_commit(5)
    assert code_of(responses) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert not world.upstream.requests


# The first batch of a producer.


def late_batch(world: GatewayWorld) -> tuple[GatewayWorld, bytes]:
    """Return the next owner, which has asked for the sequences, and a batch of the
    previous one that upstream does not have yet."""
    world.begin_commit(1)
    batch = world.upstream.requests.popleft().batch
    owner = GatewayWorld(loop=world.loop, shared=world.upstream, epoch=1)
    assert owner.commit(7, producer=OTHER) is ErrorCode.NONE
    return owner, batch


def test_a_batch_that_a_late_one_of_the_previous_owner_hides_is_not_acknowledged(
    world: GatewayWorld,
) -> None:
    owner, late = late_batch(world)
    owner.upstream.partitions[owner.shard].append(late)
    assert owner.commit(2, partition=1) is ErrorCode.NOT_COORDINATOR
    assert not owner.owned.shard.state.offsets.pending.contains(GROUP, "t", 1)


def test_a_late_batch_after_the_first_of_the_owner_is_refused(
    world: GatewayWorld,
) -> None:
    owner, late = late_batch(world)
    assert owner.commit(2, partition=1) is ErrorCode.NONE
    partition = owner.upstream.partitions[owner.shard]
    end = partition.end
    partition.append(late)
    assert partition.end == end


def test_only_the_first_batch_of_a_producer_is_read_back(world: GatewayWorld) -> None:
    world.commit(5)
    fetches = world.upstream.fetches
    world.commit(6)
    assert world.upstream.fetches == fetches


def test_a_first_batch_that_cannot_be_read_is_sent_again(world: GatewayWorld) -> None:
    errors: list[CoterieError] = [ConnectionLost("lost")]
    world.upstream.fails = lambda name: (
        errors.pop() if name == "fetch" and errors else None
    )
    responses = world.begin_commit(5)
    world.answer()
    assert not responses
    world.loop.advance(1_000)
    world.answer()
    assert code_of(responses) is ErrorCode.NONE
    assert len(world.upstream.partitions[world.shard].batches) == 1
