"""Groups of a test server: state, offsets, lag, and waits for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from coterie.errors import ApiError
from coterie.testing import Kafka
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

GROUP = "billing"
# Deadlines of conditions that never become true.
AT_ONCE_S = 0.0


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as server:
        server.topic("orders", partitions=2)
        yield server


@contextlib.contextmanager
def consuming(kafka: Kafka, **config: Any) -> Iterator[Consumer]:
    """Run a consumer of "orders" that polls in a thread until the block ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": GROUP,
            "client.id": "worker",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 20,
            **config,
        }
    )
    consumer.subscribe(["orders"])
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.is_set():
            consumer.poll(0.02)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        stopped.set()
        thread.join()
        consumer.close()


def test_a_group_that_does_not_exist_is_dead_and_empty(kafka: Kafka) -> None:
    group = kafka.groups[GROUP]
    assert (group.state, group.members, group.offsets) == ("Dead", (), {})
    assert (group.lag, group.lags, group.assignment) == (None, {}, {})
    assert GROUP not in kafka.groups
    assert len(kafka.groups) == 0
    group.assert_state("Dead")


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_wait_ends_when_the_members_have_consumed_everything(
    kafka: Kafka, protocol: str
) -> None:
    kafka.produce("orders", ["a", "b", "c"])
    group = kafka.groups[GROUP]
    with consuming(kafka, **{"group.protocol": protocol}):
        group.wait_for(state="Stable", members=1)
        (member,) = group.members
        assert (member.client_id, member.host) == ("worker", "/127.0.0.1")
        both = (TopicPartition("orders", 0), TopicPartition("orders", 1))
        assert member.assignment == both
        assert group.assignment == {"worker": both}
        group.wait_for(lag=0, committed={("orders", 0): 2})
        assert group.offsets == dict(zip(both, (2, 1), strict=True))
        group.assert_lag(0)
        group.assert_members(1)
    group.wait_for(state="Empty", members=0)
    assert list(kafka.groups) == [GROUP]
    assert GROUP in kafka.groups


@pytest.mark.slow
def test_members_with_the_same_client_id_are_named_by_their_member_ids(
    kafka: Kafka,
) -> None:
    with consuming(kafka), consuming(kafka):
        group = kafka.groups[GROUP].wait_for(state="Stable", members=2)
        ids = {member.member_id for member in group.members}
        assert set(group.assignment) == ids
        assert "worker" not in ids


def test_a_wait_that_times_out_reports_what_the_group_is(kafka: Kafka) -> None:
    kafka.produce("orders", ["a", "b", "c"])
    group = kafka.groups[GROUP]
    group.commit({("orders", 0): 1})
    with pytest.raises(AssertionError) as error:
        group.wait_for(
            state="Stable",
            members=2,
            lag=0,
            committed={("orders", 0): 2, ("orders", 1): 1},
            timeout=AT_ONCE_S,
        )
    assert str(error.value).splitlines()[:3] == [
        "not within 0 s: state Stable, but it is Empty; 2 members, but there are 0; "
        "lag 0, but it is 1; offset 2 of orders-0, not 1; offset 1 of orders-1, not "
        "none",
        "group billing: Empty, classic",
        "  orders-0: committed 1, lag 1",
    ]


def test_the_assertions_report_what_the_group_is(kafka: Kafka) -> None:
    kafka.produce("orders", ["a", "b", "c"])
    group = kafka.groups[GROUP]
    group.seek({"orders": "earliest"})
    group.assert_lag(3)
    group.assert_committed({("orders", 0): 0, ("orders", 1): 0})
    with pytest.raises(AssertionError, match="expected lag 0, but it is 3\ngroup bil"):
        group.assert_lag(0)
    with pytest.raises(AssertionError, match="offset 4 of orders-1, but it is 0"):
        group.assert_committed({("orders", 0): 0, ("orders", 1): 4})
    with pytest.raises(AssertionError, match="1 members, but there are 0"):
        group.assert_members(1)
    with pytest.raises(AssertionError, match="state Stable, but it is Empty"):
        group.assert_state("Stable")


def test_an_unknown_state_is_refused_at_once(kafka: Kafka) -> None:
    with pytest.raises(
        ValueError, match=r"no group state 'stable'; there are .*Stable"
    ):
        kafka.groups[GROUP].wait_for(state="stable")


def test_seek_commits_offsets_of_topics_and_partitions(kafka: Kafka) -> None:
    kafka.produce("orders", ["a", "b", "c"], partition=0)
    group = kafka.groups[GROUP]
    assert group.seek({"orders": "latest"}) == group.offsets
    assert group.offsets == {("orders", 0): 3, ("orders", 1): 0}
    group.seek({("orders", 0): 1})
    assert group.lags == {("orders", 0): 2, ("orders", 1): 0}
    assert group.lag == 2
    group.seek({("orders", 0): "earliest"})
    assert group.lag == 3


@pytest.mark.slow
def test_a_commit_while_the_group_has_members_is_refused(kafka: Kafka) -> None:
    group = kafka.groups[GROUP]
    with consuming(kafka):
        group.wait_for(state="Stable")
        with pytest.raises(ApiError, match="close its consumers first") as error:
            group.commit({("orders", 0): 0})
        assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        with pytest.raises(ApiError, match="group billing: NON_EMPTY_GROUP"):
            group.delete()
    group.wait_for(state="Empty")
    group.delete()
    assert group.state == "Dead"


def test_groups_of_all_nodes_are_listed(shared_kafka: Kafka) -> None:
    topic = shared_kafka.topic()
    names = [f"group-{at}" for at in range(8)]
    for name in names:
        shared_kafka.groups[name].commit({(topic, 0): 0})
    assert set(names) <= set(shared_kafka.groups)
