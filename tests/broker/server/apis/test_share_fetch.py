"""ShareFetch: acquisition, waiting, sessions, locks and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.catalog.batch_validation import read_batch
from coterie.wire import messages as m
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    split_batches,
)
from tests.broker.server.apis.fake_broker import FakeBroker, allow_except
from tests.broker.server.apis.share_member import (
    ACCEPT,
    GROUP,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    initialize,
    produce,
    results,
)

LOCK_S = 30
INVALID_REQUEST, INVALID_STATE, NO_SESSION, WRONG_EPOCH = 42, 121, 122, 123
SESSION_LIMIT = 133


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=3)
    assert initialize(made, partitions=(0, 1, 2)) == [0]
    return made


@pytest.fixture
def member(broker: FakeBroker) -> ShareMember:
    return ShareMember(broker)


def values_of(records: bytes) -> list[bytes | None]:
    return [
        record.value
        for _, batch in split_batches(records)
        for record in decode_records(batch)
    ]


# Records.


def test_records_are_acquired_with_their_bytes(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x", b"y")
    produce(broker, b"z")
    fetched = member.fetch()[0]
    assert fetched.acquired == [(0, 2, 1)]
    assert values_of(fetched.records) == [b"x", b"y", b"z"]


def test_a_response_has_the_duration_of_locks(member: ShareMember) -> None:
    assert member.start().response.acquisition_lock_timeout_ms == 30_000


def test_locked_records_are_not_given_to_another_member(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    assert member.take() == [(0, 0, 1)]
    other = ShareMember(broker, "m2")
    assert other.take() == []
    produce(broker, b"y")
    assert other.take() == [(1, 1, 1)]


def test_acknowledgements_in_a_fetch_come_first(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x", b"y", b"z")
    member.take()
    acks = {0: [(0, 0, [ACCEPT]), (1, 1, [RELEASE]), (2, 2, [REJECT])]}
    fetched = member.fetch(acks)[0]
    assert (fetched.error, fetched.acknowledge_error) == (0, 0)
    # The release is durable by now, or will be at the next request.
    assert fetched.acquired + member.take() == [(1, 1, 2)]


def test_a_wrong_acknowledgement_does_not_hinder_the_fetch(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.fetch(max_records=0)
    fetched = member.fetch({1: [(0, 0, [ACCEPT])], 0: [(7, 3, [ACCEPT])]})
    assert fetched[0].acknowledge_error == INVALID_REQUEST
    assert fetched[1].acknowledge_error == 3  # no share partition was opened
    assert fetched[0].acquired == [(0, 0, 1)]


def test_record_limit_acquires_exactly_as_many_records(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, *[b"x"] * 15)
    assert member.take(max_records=10, share_acquire_mode=1) == [(0, 9, 1)]
    other = ShareMember(broker, "m2")
    assert other.take(max_records=10, share_acquire_mode=1) == [(10, 14, 1)]


def test_the_limit_of_records_holds_for_all_partitions(
    broker: FakeBroker,
) -> None:
    member = ShareMember(broker, partitions=(0, 1, 2))
    for index in range(3):
        produce(broker, b"x", b"y", index=index)
    fetched = member.fetch(max_records=3)
    assert {index: each.acquired for index, each in fetched.items()} == {
        0: [(0, 1, 1)],
        1: [(0, 1, 1)],
        2: [],
    }
    assert member.fetch(max_records=3)[2].acquired == [(0, 1, 1)]


def test_a_record_larger_than_the_limit_of_bytes_is_acquired(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x" * 1_000)
    assert member.take(max_bytes=1) == [(0, 0, 1)]


@pytest.mark.fact("SG-050")
def test_no_records_are_fetched_with_a_limit_of_zero(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    assert member.fetch(max_wait_ms=1_000, max_records=0) == {}
    assert member.fetch(max_wait_ms=1_000, max_bytes=0) == {}
    assert member.take() == [(0, 0, 1)]


# Waiting.


def test_a_fetch_waits_for_a_record(broker: FakeBroker, member: ShareMember) -> None:
    waiting = member.start(max_wait_ms=500)
    assert waiting.response is None
    produce(broker, b"x")
    assert results(waiting.response)[0].acquired == [(0, 0, 1)]


def test_a_fetch_waits_for_enough_bytes(
    broker: FakeBroker, member: ShareMember
) -> None:
    waiting = member.start(max_wait_ms=500, min_bytes=150)
    produce(broker, b"x")
    assert waiting.response is None
    produce(broker, b"x" * 100)
    assert results(waiting.response)[0].acquired == [(0, 1, 1)]


def test_a_fetch_takes_what_there_is_when_its_wait_ends(
    broker: FakeBroker, member: ShareMember
) -> None:
    waiting = member.start(max_wait_ms=500, min_bytes=10_000)
    produce(broker, b"x")
    broker.scheduler.advance(0.4)
    assert waiting.response is None
    broker.scheduler.advance(0.1)
    assert results(waiting.response)[0].acquired == [(0, 0, 1)]


def test_the_first_response_has_all_partitions_and_later_ones_those_with_records(
    broker: FakeBroker,
) -> None:
    member = ShareMember(broker, partitions=(0, 1, 2))
    assert sorted(member.fetch()) == [0, 1, 2]
    assert member.fetch() == {}
    produce(broker, b"x", index=1)
    assert list(member.fetch()) == [1]


def test_released_records_wake_a_waiting_fetch(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.take()
    waiting = ShareMember(broker, "m2").start(max_wait_ms=500)
    assert waiting.response is None
    member.codes({0: [(0, 0, [RELEASE])]})
    assert results(waiting.response)[0].acquired == [(0, 0, 2)]


@pytest.mark.fact("SG-232")
def test_the_end_of_a_lock_wakes_a_waiting_fetch(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.take()
    waiting = ShareMember(broker, "m2").start(max_wait_ms=LOCK_S * 2_000)
    broker.scheduler.advance(LOCK_S - 1)
    assert waiting.response is None
    broker.scheduler.advance(1)
    assert results(waiting.response)[0].acquired == [(0, 0, 2)]
    assert member.codes({0: [(0, 0, [ACCEPT])]}) == [INVALID_STATE]


def test_nothing_is_acquired_for_a_session_that_was_used_meanwhile(
    broker: FakeBroker, member: ShareMember
) -> None:
    member.fetch()
    waiting = member.start(max_wait_ms=500)
    member.codes({})
    produce(broker, b"x")
    assert waiting.response.error_code == WRONG_EPOCH
    assert ShareMember(broker, "m2").take() == [(0, 0, 1)]


# Locks.


@pytest.mark.fact("SG-042", "SG-228")
def test_a_renewal_extends_the_lock(broker: FakeBroker, member: ShareMember) -> None:
    produce(broker, b"x", b"y")
    member.take()
    broker.scheduler.advance(LOCK_S - 1)
    names = ("max_wait_ms", "min_bytes", "max_bytes", "max_records")
    zero: dict[str, Any] = dict.fromkeys(names, 0)
    renewed = member.fetch({0: [(0, 0, [RENEW])]}, is_renew_ack=True, **zero)
    assert renewed[0].acknowledge_error == 0
    broker.scheduler.advance(2)
    assert ShareMember(broker, "m2").take() == [(1, 1, 2)]
    assert member.codes({0: [(0, 0, [ACCEPT])]}) == [0]


def test_a_renewal_needs_its_flag_and_version_2(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.take()
    renew = {0: [(0, 0, [RENEW])]}
    assert member.codes(renew) == [INVALID_REQUEST]
    assert member.codes(renew, version=1) == [INVALID_REQUEST]
    assert member.codes(renew, is_renew_ack=True) == [0]
    refused = member.start(renew, is_renew_ack=True).response
    assert refused.error_code == INVALID_REQUEST


@pytest.mark.fact("SG-248")
def test_a_disconnect_releases_the_records_of_the_session(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.take()
    waiting = ShareMember(broker, "m2").start(max_wait_ms=500)
    broker.share_sessions.disconnect(member.opened)
    broker.loop.end_turn()
    assert results(waiting.response)[0].acquired == [(0, 0, 2)]


@pytest.mark.fact("SG-248")
def test_a_disconnect_of_an_earlier_connection_does_nothing(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.fetch()
    earlier = member.opened
    member.epoch = 0
    member.fetch()
    broker.share_sessions.disconnect(earlier)
    assert member.codes({0: [(0, 0, [ACCEPT])]}) == [0]


def test_the_final_epoch_releases_records(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x", b"y")
    member.take()
    member.epoch = -1
    assert member.fetch({0: [(0, 0, [ACCEPT])]})[0].acknowledge_error == 0
    assert ShareMember(broker, "m2").take() == [(1, 1, 2)]
    assert member.start().response.error_code == NO_SESSION


def test_a_session_opened_again_leaves_its_records_locked(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.take()
    member.epoch = 0
    assert member.take() == []
    assert member.codes({0: [(0, 0, [ACCEPT])]}) == [0]


# Refusals.


@pytest.mark.parametrize(
    "wrong",
    [
        {"group_id": None},
        {"member_id": None},
        {"member_id": ""},
        {"member_id": "m" * 37},
        {"is_renew_ack": True},
        {"share_acquire_mode": 2},
    ],
)
def test_a_malformed_request_is_refused(
    member: ShareMember, wrong: dict[str, Any]
) -> None:
    assert member.start(**wrong).response.error_code == INVALID_REQUEST


def test_the_first_request_has_no_acknowledgements(member: ShareMember) -> None:
    refused = member.start({0: [(0, 0, [ACCEPT])]}).response
    assert refused.error_code == INVALID_REQUEST


def test_epochs_are_checked(member: ShareMember) -> None:
    member.epoch = 1
    assert member.start().response.error_code == NO_SESSION
    member.epoch = 0
    member.fetch()
    member.epoch = 2
    assert member.start().response.error_code == WRONG_EPOCH
    member.epoch = 1
    member.fetch()


def test_epochs_of_both_apis_count_together(member: ShareMember) -> None:
    member.fetch()
    member.codes({})
    member.fetch()
    assert member.epoch == 3
    member.epoch = 0
    assert member.acknowledge({}).error_code == WRONG_EPOCH


@pytest.mark.fact("SG-051")
def test_a_full_node_answers_after_the_wait(broker: FakeBroker) -> None:
    full = FakeBroker(group_share_max_share_sessions=1)
    full.create("a")
    ShareMember(full).fetch()
    waiting = ShareMember(full, "m2").start(max_wait_ms=500)
    assert not waiting.responses
    full.scheduler.advance(0.5)
    assert waiting.response.error_code == SESSION_LIMIT
    again = ShareMember(full)
    again.fetch()


def test_a_group_without_read_is_refused(
    broker: FakeBroker, member: ShareMember
) -> None:
    broker.authorizer = allow_except(("READ", GROUP))
    assert member.start().response.error_code == 30


def test_a_topic_without_read_is_refused(
    broker: FakeBroker, member: ShareMember
) -> None:
    broker.authorizer = allow_except(("READ", "a"))
    assert member.fetch()[0].error == 29
    assert member.fetch({0: [(0, 0, [ACCEPT])]})[0].acknowledge_error == 29


def test_unknown_topics_and_partitions(broker: FakeBroker) -> None:
    assert ShareMember(broker, partitions=[9]).fetch()[9].error == 3
    unknown = ShareMember(broker, "m2")
    unknown.topic_id = b"?" * 16
    assert unknown.fetch()[0].error == 100
    assert unknown.fetch()[0].error == 100
    assert unknown.codes({0: [(0, 0, [ACCEPT])]}) == [100]


def test_a_share_partition_that_was_never_initialized_is_an_error(
    broker: FakeBroker,
) -> None:
    assert ShareMember(broker, group="other").fetch(max_wait_ms=1)[0].error == -1


def test_another_node_names_the_leader() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a", partition_count=2)
    initialize(broker, partitions=(0, 1))
    member = ShareMember(broker, partitions=(0, 1))
    response = member.start().response
    parts = {each.partition_index: each for each in response.responses[0].partitions}
    assert parts[0].error_code == 0
    assert parts[1].error_code == 6
    assert parts[1].current_leader == m.ShareLeader(leader_id=2, leader_epoch=0)
    assert [each.node_id for each in response.node_endpoints] == [2]


# Start offsets.


@pytest.mark.fact("SG-274")
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("earliest", [(0, 1, 1)]),
        ("latest", []),
        ("by_duration:PT10S", [(1, 1, 1)]),
        ("by_duration:P1D", [(0, 1, 1)]),
    ],
)
def test_a_group_starts_by_its_reset_policy(
    policy: str, expected: list[tuple[int, int, int]]
) -> None:
    broker = FakeBroker()
    broker.create("a")
    entry = broker.catalog.group_configs.alter(
        GROUP, {"share.auto.offset.reset": policy}
    )
    broker.data.stage([entry])
    for _ in range(2):
        now_ms = broker.wall_clock()
        broker.call(
            m.ProduceRequest(
                acks=-1,
                timeout_ms=1_000,
                topic_data=[
                    m.TopicProduceData(
                        name="a",
                        partition_data=[
                            m.PartitionProduceData(
                                index=0,
                                records=encode_batch(
                                    [LogRecord(0, now_ms, b"k", b"v")]
                                ),
                            )
                        ],
                    )
                ],
            ),
            12,
        )
        broker.scheduler.advance(9)
    initialize(broker, start_offset=-1)
    assert ShareMember(broker).take() == expected


def test_by_duration_waits_for_a_record_that_is_new_enough() -> None:
    broker = FakeBroker()
    broker.create("a")
    changes = {"share.auto.offset.reset": "by_duration:PT1S"}
    broker.data.stage([broker.catalog.group_configs.alter(GROUP, changes)])
    initialize(broker, start_offset=-1)
    assert ShareMember(broker).fetch()[0].error == 78


@pytest.mark.parametrize("start_offset", [-7, -(2**63)])
def test_a_negative_start_offset_is_the_start_of_the_log(start_offset: int) -> None:
    broker = FakeBroker()
    broker.create("a")
    produce(broker, b"x")
    initialize(broker, start_offset=start_offset)
    assert ShareMember(broker).take() == [(0, 0, 1)]


def test_deleted_records_are_skipped(broker: FakeBroker, member: ShareMember) -> None:
    for _ in range(3):
        produce(broker, b"x", b"y")
    member.take()
    partition = broker.data.partition("a", 0)
    assert partition is not None
    broker.data.delete_records(partition, 3)
    broker.loop.end_turn()
    assert member.take() == []
    broker.scheduler.advance(LOCK_S)
    assert member.take() == [(3, 5, 2)]


# Transactions.


def transaction(broker: FakeBroker, *, committed: bool) -> None:
    partition = broker.data.partition("a", 0)
    assert partition is not None
    records = [LogRecord(0, 1, b"k", b"v"), LogRecord(1, 1, b"k", b"w")]
    batch = encode_batch(records, producer=Producer(7, 0, 0), attributes=TRANSACTIONAL)
    header_size = len(batch)
    appended = broker.data.append(partition, read_batch(batch, 12))
    assert appended.size_bytes == header_size
    broker.data.settle([appended], lambda _: None)
    size = partition.append_marker(7, 0, committed=committed, now_ms=1)
    broker.data.when_durable(lambda _: partition.notify_growth(size))
    broker.loop.end_turn()


def read_committed(broker: FakeBroker) -> None:
    changes = {"share.isolation.level": "read_committed"}
    broker.data.stage([broker.catalog.group_configs.alter(GROUP, changes)])


def test_aborted_records_are_delivered_to_read_uncommitted(
    broker: FakeBroker, member: ShareMember
) -> None:
    transaction(broker, committed=False)
    assert member.take() == [(0, 2, 1)]


@pytest.mark.fact("SG-282")
def test_aborted_records_are_not_delivered_to_read_committed(
    broker: FakeBroker, member: ShareMember
) -> None:
    read_committed(broker)
    transaction(broker, committed=False)
    produce(broker, b"x")
    assert member.take() == [(2, 3, 1)]


def test_read_committed_waits_for_the_end_of_a_transaction(
    broker: FakeBroker, member: ShareMember
) -> None:
    read_committed(broker)
    waiting = member.start(max_wait_ms=500)
    transaction(broker, committed=True)
    assert results(waiting.response)[0].acquired == [(0, 2, 1)]


# Durability.


@pytest.mark.fact("SG-341")
def test_an_acknowledgement_is_answered_once_it_is_durable(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    member.take()
    broker.loop.holds = True
    assert member.acknowledge({0: [(0, 0, [ACCEPT])]}) is None
    broker.restart()
    again = ShareMember(broker)
    assert again.take(max_wait_ms=1) == [(0, 0, 1)]
    assert again.codes({0: [(0, 0, [ACCEPT])]}) == [0]
    broker.restart()
    waiting = ShareMember(broker).start(max_wait_ms=1)
    broker.scheduler.advance(1)
    assert results(waiting.response)[0].acquired == []


def test_a_failed_write_refuses_the_acknowledgement_and_redelivers(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x", b"y")
    member.take()
    broker.fail_next_write()
    assert member.codes({0: [(0, 0, [ACCEPT])]}) == [15]
    assert ShareMember(broker, "m2").take(max_wait_ms=1) == [(0, 1, 1)]


def test_a_restart_keeps_what_was_acknowledged_and_released(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, *[b"x"] * 10)
    member.take()
    acks = {0: [(0, 2, [ACCEPT]), (5, 6, [RELEASE]), (8, 8, [REJECT])]}
    assert member.codes(acks) == [0]
    broker.restart()
    assert ShareMember(broker).take(max_wait_ms=1) == [
        (3, 4, 1),
        (5, 6, 2),
        (7, 7, 1),
        (9, 9, 1),
    ]


def test_a_group_without_sessions_is_loaded_again(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x", b"y")
    member.take()
    member.codes({0: [(0, 0, [ACCEPT])]})
    broker.share_sessions.disconnect(member.opened)
    broker.loop.end_turn()
    assert len(broker.share_sessions) == 0
    assert ShareMember(broker).take() == [(1, 1, 2)]


def test_a_deleted_topic_ends_a_waiting_fetch(
    broker: FakeBroker, member: ShareMember
) -> None:
    waiting = member.start(max_wait_ms=500)
    broker.data.stage([broker.catalog.delete_topic("a")])
    broker.loop.end_turn()
    assert results(waiting.response)[0].error == 3


@pytest.mark.fact("SG-214")
def test_a_poison_record_is_archived_at_the_delivery_limit(
    broker: FakeBroker, member: ShareMember
) -> None:
    produce(broker, b"x")
    produce(broker, b"y")
    counts = []
    for _ in range(5):
        [(first, last, count)] = member.take(max_records=1)
        counts.append((first, last, count))
        member.codes({0: [(0, 0, [RELEASE])]})
    assert counts == [(0, 0, count) for count in range(1, 6)]
    assert member.take() == [(1, 1, 1)]
