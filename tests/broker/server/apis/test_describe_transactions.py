"""DescribeProducers, DescribeTransactions and ListTransactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker, FakePeer, allow_except
from tests.broker.server.apis.test_transactions import V2, Client

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=2)
    made.create("b")
    return made


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    made = Client(broker)
    assert made.init() is ErrorCode.NONE
    return made


# DescribeProducers.


def producers(broker: FakeBroker, *topics: tuple[str, list[int]]) -> Any:
    """Return the described partitions."""
    request = m.DescribeProducersRequest(
        topics=[
            m.ProducersTopicRequest(name=name, partition_indexes=indexes)
            for name, indexes in topics
        ]
    )
    response = broker.call(request, 0)
    return [part for topic in response.topics for part in topic.partitions]


def test_a_producer_is_described_with_its_open_transaction(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"1", b"2")
    [part] = producers(broker, ("a", [0]))
    [producer] = part.active_producers
    assert producer.producer_id == client.producer_id
    assert (producer.producer_epoch, producer.last_sequence) == (0, 1)
    assert producer.current_txn_start_offset == 0


def test_a_producer_without_an_open_transaction_has_no_start_offset(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.send(b"1")
    client.end(committed=True)
    [part] = producers(broker, ("a", [0]))
    [producer] = part.active_producers
    assert producer.current_txn_start_offset == -1
    assert producer.last_sequence == 0


def test_a_marker_of_a_new_epoch_leaves_no_sequence(
    broker: FakeBroker, client: Client
) -> None:
    client.send(b"1", version=V2)
    client.end(committed=False, version=5)
    [part] = producers(broker, ("a", [0]))
    [producer] = part.active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (1, -1)


def test_partitions_have_their_own_errors(broker: FakeBroker) -> None:
    found = producers(broker, ("a", [0, 9]), ("z", [0]), ("a b", [0]))
    assert [part.error_code for part in found] == [
        0,
        UNKNOWN,
        UNKNOWN,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert "Topic name is invalid" in found[3].error_message


def test_repeated_partitions_are_described_once(broker: FakeBroker) -> None:
    found = producers(broker, ("a", [0, 1, 0]), ("a", [1] * 100_000))
    assert [part.partition_index for part in found] == [0, 1]


def test_each_partition_is_described_in_a_slice(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def run(self: FakePeer, token: object, slices: Iterator[None]) -> None:
        counts.append(sum(1 for _ in slices))

    monkeypatch.setattr(FakePeer, "run_in_slices", run)
    broker.create("wide", partition_count=100)
    found = producers(broker, ("wide", [*range(100)]))
    assert {part.error_code for part in found} == {0}
    assert len(found) == 100
    assert counts == [101]


def test_an_unreadable_log_is_kafka_storage_error(
    broker: FakeBroker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LogError("unreadable")

    client.add(0)
    client.send(b"1")
    broker.data.reload()
    monkeypatch.setattr(broker.log, "headers", fail)
    codes = [part.error_code for part in producers(broker, ("a", [0, 1]))]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]


def test_producers_need_read_on_the_topic(broker: FakeBroker) -> None:
    broker.authorizer = allow_except(("READ", "b"))
    codes = [part.error_code for part in producers(broker, ("a", [0]), ("b", [0]))]
    assert codes == [0, ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_another_node_does_not_describe_a_partition() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a", partition_count=2)
    codes = [part.error_code for part in producers(broker, ("a", [0, 1]))]
    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]


# DescribeTransactions.


def describe(broker: FakeBroker, *transactional_ids: str) -> Any:
    request = m.DescribeTransactionsRequest(transactional_ids=[*transactional_ids])
    return broker.call(request, 0).transaction_states


def test_an_ongoing_transaction_is_described(
    broker: FakeBroker, client: Client
) -> None:
    began_ms = broker.clock()
    client.add(1, 0)
    client.add(0, topic="b")
    [found] = describe(broker, "t")
    assert (found.error_code, found.transaction_state) == (0, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == (client.producer_id, 0)
    assert found.transaction_timeout_ms == 60_000
    assert found.transaction_start_time_ms == began_ms
    topics = {topic.topic: topic.partitions for topic in found.topics}
    assert topics == {"a": [0, 1], "b": [0]}


def test_an_ended_transaction_keeps_its_start_until_the_next_epoch(
    broker: FakeBroker, client: Client
) -> None:
    began_ms = broker.clock()
    client.add(0)
    broker.scheduler.now += 5
    client.end(committed=True)
    [ended] = describe(broker, "t")
    assert ended.transaction_start_time_ms == began_ms
    assert (ended.transaction_state, ended.topics) == ("CompleteCommit", [])
    client.init()
    [begun] = describe(broker, "t")
    assert begun.transaction_start_time_ms == -1


def test_topics_without_describe_are_left_out(
    broker: FakeBroker, client: Client
) -> None:
    client.add(0)
    client.add(0, topic="b")
    broker.authorizer = allow_except(("DESCRIBE", "a"))
    [found] = describe(broker, "t")
    assert [topic.topic for topic in found.topics] == ["b"]


def test_transactional_ids_have_their_own_errors(
    broker: FakeBroker, client: Client
) -> None:
    broker.authorizer = allow_except(("DESCRIBE", "secret"))
    found = describe(broker, "secret", "", "none", "t", "none")
    assert [each.error_code for each in found] == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        0,
    ]


def test_another_node_does_not_describe_a_transaction() -> None:
    broker = FakeBroker(nodes=2)
    request = m.DescribeTransactionsRequest(transactional_ids=["t"])
    [found] = broker.call(request, 0, node=1).transaction_states
    assert found.error_code == ErrorCode.NOT_COORDINATOR


# ListTransactions.


def listed(broker: FakeBroker, version: int = 2, **filters: Any) -> dict[str, str]:
    """Return the states by transactional id."""
    response = broker.call(m.ListTransactionsRequest(**filters), version)
    assert response.error_code == 0
    return {
        each.transactional_id: each.transaction_state
        for each in response.transaction_states
    }


@pytest.fixture
def three(broker: FakeBroker) -> FakeBroker:
    """The broker with an empty, an ongoing and a committed transaction."""
    for name in ("empty", "open", "done"):
        client = Client(broker, name)
        client.init()
        if name != "empty":
            client.add(0)
        if name == "done":
            client.end(committed=True)
    return broker


def test_all_transactions_are_listed_without_filters(three: FakeBroker) -> None:
    states = {"empty": "Empty", "open": "Ongoing", "done": "CompleteCommit"}
    assert listed(three) == states


def test_transactions_are_filtered_by_state(three: FakeBroker) -> None:
    assert {*listed(three, state_filters=["Ongoing", "Empty"])} == {"open", "empty"}
    assert listed(three, state_filters=["PrepareCommit"]) == {}
    assert listed(three, state_filters=["ongoing"]) == {}


def test_unknown_states_are_reported_once(three: FakeBroker) -> None:
    request = m.ListTransactionsRequest(state_filters=["No", "Dead", "ongoing", "No"])
    response = three.call(request, 2)
    assert response.unknown_state_filters == ["No", "ongoing"]


def test_transactions_are_filtered_by_producer_id(three: FakeBroker) -> None:
    [opened] = describe(three, "open")
    found = listed(three, producer_id_filters=[opened.producer_id, 10**6])
    assert {*found} == {"open"}


def test_transactions_are_filtered_by_duration(three: FakeBroker) -> None:
    three.scheduler.now += 2
    assert {*listed(three, duration_filter=1_999)} == {"empty", "open", "done"}
    assert {*listed(three, duration_filter=2_000)} == {"empty"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("op.*", {"open"}),
        ("op", set()),
        ("", {"empty", "open", "done"}),
        (None, {"empty", "open", "done"}),
    ],
)
def test_transactions_are_filtered_by_a_regular_expression(
    three: FakeBroker, pattern: str | None, names: set[str]
) -> None:
    assert {*listed(three, transactional_id_pattern=pattern)} == names


def test_an_invalid_regular_expression_is_refused(three: FakeBroker) -> None:
    request = m.ListTransactionsRequest(transactional_id_pattern="(")
    response = three.call(request, 2)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_transactions_without_describe_are_left_out(three: FakeBroker) -> None:
    three.authorizer = allow_except(("DESCRIBE", "open"))
    assert {*listed(three)} == {"empty", "done"}


def test_a_failed_flush_makes_clients_retry(broker: FakeBroker) -> None:
    broker.loop.holds = True
    request = m.InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=60_000
    )
    broker.start_call(request, 5)
    broker.fail_next_write()
    lists = broker.start_call(m.ListTransactionsRequest(), 2)
    describes = broker.start_call(
        m.DescribeTransactionsRequest(transactional_ids=["t"]), 0
    )
    broker.loop.release()
    retried = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert lists.response.error_code == retried
    assert describes.response.transaction_states[0].error_code == retried
