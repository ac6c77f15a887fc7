"""Taking shards over, and owning them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from coterie.broker.coordinator.record_serde import encode_record, is_barrier
from coterie.errors import ApiError, ConnectionLost, CoterieError, LogError
from coterie.gateway.log.barrier import Barrier, read_barrier
from coterie.gateway.log.opening import LOG_INTERVAL_MS, RENEW_S, REPEAT_S
from coterie.gateway.upstream.upstream import Fetched, Initialized
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    LogRecord,
    Producer,
    encode_batch,
    read_header,
)
from tests.broker.runtime.world import commit_request
from tests.gateway.log.application import Transactions, offset_record
from tests.gateway.log.fake_upstream import Partition
from tests.gateway.log.shard_world import TOPIC, Node, node


def barriers(world: Node, group_id: str) -> list[str]:
    batches = world.partition_of(group_id).batches
    found = (read_barrier(each, read_header(each)) for each in batches)
    return [barrier.node for barrier in found if barrier]


def barrier_keys(world: Node, index: int) -> set[bytes | None]:
    """Return the keys of the barriers in a partition: compaction keeps one of each."""
    records = world.upstream.partitions[index].records()
    return {record.key for record in records if is_barrier(record.key)}


def test_an_owner_writes_its_barrier_and_serves() -> None:
    world = node()
    assert world.is_active("g")
    assert world.commit("g", 5) == 0
    assert world.offset("g") == 5
    assert barriers(world, "g") == ["node-1"]
    (first, *_) = world.partition_of("g").batches
    assert read_barrier(first, read_header(first)) == Barrier(
        cluster_id=TOPIC.cluster_id,
        node="node-1",
        partition_count=TOPIC.partition_count,
        time_ms=world.loop.now_ms,
    )


def test_the_next_owner_has_all_acknowledged_commits() -> None:
    first = node()
    for at in range(30):
        assert first.commit(f"g{at}", at) == 0
        assert first.commit(f"g{at}", at + 1, partition=1) == 0
    second = first.successor()
    second.own()
    for at in range(30):
        assert second.offset(f"g{at}") == at
        assert second.offset(f"g{at}", 1) == at + 1


def test_the_previous_owner_is_fenced_by_the_barrier() -> None:
    first = node()
    first.commit("g", 1)
    second = first.successor()
    second.own()
    assert first.is_active("g"), "it has not noticed"
    assert first.commit("g", 2) == ErrorCode.NOT_COORDINATOR
    assert not first.is_active("g")
    assert second.offset("g") == 1


def test_a_commit_before_the_barrier_is_loaded() -> None:
    first = node()
    second = first.successor()
    first.upstream.answers_produce = False
    second.own()
    assert len(first.upstream.requests) == 2, "the barriers of two shards"
    answers = first.submit(commit_request("g", 7), "g")
    first.loop.settle()
    while len(first.upstream.requests) > 2 or not answers:
        first.upstream.requests.rotate(1)
        first.upstream.answer()
        first.loop.settle()
    assert not second.is_active("g")
    first.upstream.answers_produce = True
    first.upstream.answer(2)
    first.loop.settle()
    assert second.offset("g") == 7


def test_a_shard_is_not_served_before_its_barrier_is_replayed() -> None:
    world = node()
    world.commit("g", 1)
    second = world.successor()
    world.upstream.fails = lambda name: (
        ConnectionLost("fetch") if name == "fetch" else None
    )
    second.own()
    second.loop.advance(5)
    assert not second.is_active("g")
    assert second.commit("g", 2) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.upstream.fails = lambda _: None
    second.loop.advance(5)
    assert second.offset("g") == 1


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]
)
def test_a_barrier_is_written_again_after_a_retriable_error(code: ErrorCode) -> None:
    world = Node()
    world.upstream.answers_produce = False
    world.own(0)
    world.upstream.refuse(code)
    world.loop.advance(1)
    world.upstream.lose(is_appended=True)
    world.loop.advance(1)
    world.upstream.answer()
    world.loop.settle()
    assert len(world.upstream.partitions[0].batches) == 1
    assert world.runtime.readable_shard(0) is not None


def test_a_take_over_that_is_released_at_its_start_writes_nothing() -> None:
    world = Node()
    world.ownership.assigned(frozenset({0}))
    world.ownership.assigned(frozenset())
    world.loop.settle()
    assert world.upstream.producers, "InitProducerId was under way"
    assert not world.upstream.partitions[0].batches


def test_a_node_that_another_one_overtakes_does_not_serve() -> None:
    world = Node()
    world.upstream.answers_produce = False
    world.own(0)
    second = world.successor()
    second.own(0)
    world.upstream.requests.rotate(1)
    world.upstream.answer()  # the barrier of the later epoch
    world.upstream.answer()
    world.loop.settle()
    assert world.runtime.readable_shard(0) is None
    assert second.runtime.readable_shard(0) is not None


def test_a_failure_is_tried_again() -> None:
    world = Node()
    errors: list[CoterieError] = [
        ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    ] * 2

    world.upstream.fails = lambda name: (
        errors.pop() if name == "init_producer_id" and errors else None
    )
    world.own()
    assert not world.is_active("g")
    world.loop.advance(60)
    assert world.commit("g", 1) == 0


def test_an_error_of_all_shards_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = Node()
    world.upstream.fails = lambda name: (
        ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if name == "init_producer_id"
        else None
    )
    world.own()
    [line] = caplog.messages
    assert line.startswith("shard 0 cannot be loaded")
    world.loop.advance(60)
    assert 2 <= len(caplog.messages) <= 1 + 60_000 // LOG_INTERVAL_MS


def test_a_new_producer_id_and_a_clock_that_went_back_do_not_serve(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = node()
    world.commit("g", 1)
    world.upstream.forget_transactional_ids()
    behind_ms = 60_000
    late = world.successor(
        context_changes={"wall": lambda: world.loop.clock() - behind_ms}
    )
    late.own()
    assert not late.is_active("g")
    assert "synchronize the clocks of the nodes" in caplog.text
    behind_ms = 0
    late.loop.advance(60)
    assert late.commit("g", 2) == 0


def hold_producer_ids(
    late: Node, monkeypatch: pytest.MonkeyPatch
) -> list[Callable[[], None]]:
    """Begin the take-over of all shards; return the answers with the producer ids."""
    answers: list[Callable[[], None]] = []
    init = late.upstream.init_producer_id

    def hold(name: str, done: Initialized, **_: object) -> None:
        init(name, lambda result: answers.append(lambda: done(result)))

    with monkeypatch.context() as patched:
        patched.setattr(late.upstream, "init_producer_id", hold)
        late.own()
    return answers


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_late_producer_id_does_not_drop_what_a_later_owner_has_written(
    monkeypatch: pytest.MonkeyPatch, is_compacted: bool
) -> None:
    late = Node()
    answers = hold_producer_ids(late, monkeypatch)
    late.upstream.forget_transactional_ids()
    late.loop.advance(1)
    owner = late.successor()
    owner.own()
    late.loop.advance(1)
    for answer in answers:
        answer()
    late.loop.settle()
    assert owner.commit("g", 7) == 0
    if is_compacted:  # which keeps the last barrier: that of the late node
        late.partition_of("g").batches.pop(0)
    third = late.successor(name="node-3")
    third.own()
    assert third.offset("g") == 7


def test_a_producer_id_after_the_end_of_the_lease_writes_no_barrier() -> None:
    world = Node()
    world.ownership.assigned(frozenset({0}))
    world.ownership.lease.end()
    world.loop.settle()
    assert world.upstream.producers, "InitProducerId was under way"
    assert not world.upstream.partitions[0].batches


def test_another_clusters_barrier_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = node()
    world.commit("g", 1)
    copy = world.successor(topic=TOPIC._replace(cluster_id="cluster-b"))
    copy.own()
    copy.loop.advance(30)
    assert not copy.is_active("g")
    assert "choose another --name" in caplog.text
    # Compaction must not remove the barrier of the other cluster.
    assert len(barrier_keys(copy, copy.runtime.shard_of("g"))) == 2


def test_added_partitions_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    world = node()
    more = world.successor(topic=TOPIC._replace(partition_count=3), shard_count=3)
    more.own()
    assert not any(each is not None for each in map(more.runtime.readable_shard, [0]))
    assert "had 2 partitions, and has 3 now" in caplog.text
    assert len(barrier_keys(more, 0)) == 2


def test_a_failed_write_takes_the_shard_over_again() -> None:
    world = node()
    world.commit("g", 1)
    world.upstream.answers_produce = False
    answers = world.submit(commit_request("g", 2), "g")
    world.loop.settle()
    world.upstream.refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    world.upstream.answers_produce = True
    world.loop.advance(10)
    assert len(answers) == 1
    assert world.offset("g") == 1
    assert barriers(world, "g") == ["node-1", "node-1"]
    assert world.commit("g", 3) == 0


def test_the_barrier_is_repeated() -> None:
    world = node()
    world.commit("g", 1)
    world.loop.advance(REPEAT_S * 2 + 1)
    assert barriers(world, "g") == ["node-1"] * 3
    world.commit("g", 2)
    second = world.successor()
    second.own()
    assert second.offset("g") == 2


def test_the_epoch_is_incremented_every_day() -> None:
    world = node()
    world.commit("g", 1)
    index = world.runtime.shard_of("g")
    before = world.upstream.producers[f"coterie-test-{index}"]
    world.loop.advance(RENEW_S + REPEAT_S)
    after = world.upstream.producers[f"coterie-test-{index}"]
    assert after == before._replace(producer_epoch=before.producer_epoch + 1)
    assert world.offset("g") == 1
    assert world.commit("g", 2) == 0


def test_the_epoch_is_not_incremented_without_the_lease() -> None:
    world = node()
    before = dict(world.upstream.producers)
    world.ownership.lease.end()
    world.loop.advance(RENEW_S + REPEAT_S)
    assert world.upstream.producers == before


def test_a_repeated_barrier_that_fails_takes_the_shard_over_again() -> None:
    world = node()
    world.commit("g", 1)
    world.upstream.answers_produce = False
    world.loop.advance(REPEAT_S + 1)
    for _ in range(2):
        world.upstream.refuse(ErrorCode.UNKNOWN_PRODUCER_ID)
    world.upstream.answers_produce = True
    world.loop.advance(10)
    assert world.offset("g") == 1
    assert world.commit("g", 2) == 0


def test_a_released_shard_repeats_no_barrier() -> None:
    world = node()
    world.ownership.assigned(frozenset())
    world.loop.advance(REPEAT_S * 3)
    assert barriers(world, "g") == ["node-1"]


def test_barriers_are_no_unknown_records(caplog: pytest.LogCaptureFixture) -> None:
    world = node()
    world.commit("g", 1)
    # With commits before and after it in one batch, too.
    world.submit(commit_request("g", 2), "g")
    world.opened[world.runtime.shard_of("g")]._repeat_barrier()
    world.call(commit_request("g", 3), "g")
    second = world.successor()
    with caplog.at_level(logging.WARNING):
        second.own()
        assert second.offset("g") == 3
    assert "unknown type" not in caplog.text


def test_batches_of_an_earlier_producer_after_a_later_barrier_are_dropped() -> None:
    world = node()
    world.commit("g", 1)
    key, value = encode_record(offset_record("g", 99))
    stale = encode_batch([LogRecord(0, 0, key, value)], producer=Producer(5, 0, 0))
    world.partition_of("g").append(stale)  # upstream does not know the producer
    second = world.successor()
    second.own()
    assert second.offset("g") == 1


@pytest.mark.parametrize(
    ("forgotten", "comes_back"),
    [(0, False), (0, True), (1, False), (1, True), (2, False)],
)
def test_compaction_while_a_shard_is_loaded_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, forgotten: int, comes_back: bool
) -> None:
    """Upstream has forgotten the producer ids so many times. With `comes_back` another
    broker leads meanwhile, which has compacted its log."""
    first = node()
    for offset in range(11):
        first.commit("g", offset)
    if forgotten:
        first.upstream.forget_transactional_ids()
    first.loop.advance(1)
    second = first.successor()
    second.own()
    second.commit("g", 77)
    third = first.successor(name="node-3")
    third.own()
    if forgotten > 1:
        first.upstream.forget_transactional_ids()
        first.loop.advance(1)
    partition = first.partition_of("g")
    earlier = [
        batch for batch in partition.batches if read_barrier(batch, read_header(batch))
    ][:-1]
    everything: list[bytes] = []
    fetched = first.upstream._fetched

    def fetch(of: Partition, offset: int) -> Fetched:
        if of is partition and offset >= 10:  # the second fetch of the load
            everything[:] = everything or of.batches
            of.batches = [batch for batch in of.batches if batch not in earlier]
        elif of is partition and comes_back:
            of.batches = everything or of.batches
        return fetched(of, offset)

    monkeypatch.setattr(first.upstream, "_fetched", fetch)
    fourth = first.successor(name="node-4")
    fourth.own()
    fourth.loop.advance(5)
    assert everything, "the log was compacted"
    assert fourth.offset("g") == 77


def test_batches_before_the_first_barrier_are_loaded() -> None:
    world = Node()
    key, value = encode_record(offset_record("g", 99))
    batch = encode_batch([LogRecord(0, 0, key, value)], producer=Producer(5, 0, 0))
    world.partition_of("g").append(batch)  # compaction removed its barrier
    world.own()
    assert world.offset("g") == 99


def test_a_log_without_its_beginning_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = node()
    for offset in range(5):
        world.commit("g", offset)
    del world.partition_of("g").batches[:3]
    world.partition_of("g").log_start = 3
    world.successor().own()
    assert "does not begin at offset 0: records were deleted" in caplog.text


# Transactions.


def test_a_marker_ends_a_transaction() -> None:
    world = node()
    world.commit("g", 1)
    application = Transactions(world)
    application.commit("g", 50)
    world.loop.advance(1)
    assert world.offset("g") == 1
    application.end("g", commit=True)
    world.loop.advance(1)
    assert world.offset("g") == 50
    fetches = world.upstream.fetches
    world.loop.advance(10)
    assert world.upstream.fetches == fetches, "no transaction is open"
    application.commit("g", 60)
    world.loop.advance(1)
    application.end("g", commit=False)
    world.loop.advance(1)
    assert world.offset("g") == 50


def test_a_commit_after_a_transactions_batch_wins() -> None:
    world = node()
    world.commit("g", 1)
    application = Transactions(world)
    application.commit("g", 50)
    world.commit("g", 2)
    application.end("g", commit=True)
    world.loop.advance(1)
    assert world.offset("g") == 2
    second = world.successor()
    second.own()
    assert second.offset("g") == 2, "the log has the same order"


@pytest.mark.bug("KAFKA-17507")
def test_a_marker_is_replayed_before_the_next_transaction_of_its_producer() -> None:
    world = node()
    application = Transactions(world)
    application.commit("g", 50)
    world.loop.settle()
    application.end("g", commit=True)
    application.commit("g", 60)
    world.loop.advance(1)
    assert world.offset("g") == 50
    application.end("g", commit=False)
    world.loop.advance(1)
    assert world.offset("g") == 50


def test_a_transaction_that_was_open_at_the_takeover_ends() -> None:
    world = node()
    world.commit("g", 1)
    application = Transactions(world)
    application.commit("g", 50)
    world.loop.settle()
    second = world.successor()
    second.own()
    second.loop.advance(1)
    assert second.offset("g") == 1
    application.end("g", commit=True)
    second.loop.advance(1)
    assert second.offset("g") == 50


def test_the_unknown_outcome_of_a_transactions_batch_loads_the_shard_again() -> None:
    world = node()
    world.commit("g", 1)
    world.upstream.answers_produce = False
    application = Transactions(world)
    application.commit("g", 50)
    world.loop.settle()
    while not application.errors:
        world.upstream.lose(is_appended=False)
        world.loop.advance(2)
    assert isinstance(application.errors[0], LogError)
    world.upstream.answers_produce = True
    world.upstream.answer(len(world.upstream.requests))
    world.loop.advance(10)
    assert barriers(world, "g") == ["node-1", "node-1"]
    assert world.offset("g") == 1
