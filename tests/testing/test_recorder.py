"""The record of requests and rebalances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.testing.kafka import Kafka
from coterie.testing.recorder import (
    Filter,
    Rebalances,
    RecordedRequest,
    Requests,
    render,
)
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.testing.clients import commit_code, connect, create_topic, join


@pytest.fixture(name="kafka")
def start_kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


@pytest.fixture(name="client")
def connect_client(kafka: Kafka) -> Iterator[WireClient]:
    with connect(kafka, client_id="me") as client:
        create_topic(client)
        yield client


def recorded(time_ms: int = 0, api: str = "Heartbeat", **values: Any) -> Any:
    content: dict[str, Any] = {
        "node": 1,
        "connection": 1,
        "client": "127.0.0.1",
        "client_id": "c",
        "principal": "User:ANONYMOUS",
        "version": 4,
        "groups": ("g",),
        "members": ("m",),
        "topics": (),
        "transactional_ids": (),
        "request": None,
    }
    return RecordedRequest(time_ms=time_ms, api=api, **(content | values))


def test_a_request_is_recorded_with_its_response(
    kafka: Kafka, client: WireClient
) -> None:
    commit_code(client)

    (each,) = kafka.requests.wait_for("OffsetCommit")

    assert (each.client_id, each.version, each.node) == ("me", 9, 1)
    assert (each.group, each.topics, each.errors) == ("g", ("t",), ())
    assert each.request.topics[0].partitions[0].committed_offset == 5
    assert each.response.topics[0].partitions[0].error_code == 0
    assert each.duration_ms is not None
    assert each.principal == "User:ANONYMOUS"


def test_requests_are_filtered(kafka: Kafka, client: WireClient) -> None:
    for group in ("a", "b", "a"):
        commit_code(client, group)

    assert len(kafka.requests.of("OffsetCommit", group="a")) == 2
    assert len(kafka.requests.of(group="b")) == 1
    assert kafka.requests.of("OffsetCommit", errors="NOT_COORDINATOR") == []
    assert {each.api for each in kafka.requests} == {"CreateTopics", "OffsetCommit"}


def test_topic_ids_are_recorded_as_names_and_records_as_their_size(
    kafka: Kafka, client: WireClient
) -> None:
    topic = kafka.call(lambda server: server.assembly.broker.catalog.topics["t"])
    part = m.FetchPartition(partition=0, partition_max_bytes=100)
    request = m.FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        topics=[m.FetchTopic(topic_id=topic.topic_id, partitions=[part])],
        session_epoch=-1,
    )
    client.call(request, 13)

    (each,) = kafka.requests.wait_for("Fetch")

    assert (each.topics, each.record_bytes) == (("t",), 0)
    assert each.response.responses[0].partitions[0].records is None


def test_rebalances_have_reasons_and_members(kafka: Kafka, client: WireClient) -> None:
    member, _ = join(client)
    client.call(
        m.LeaveGroupRequest(group_id="g", members=[m.MemberIdentity(member_id=member)]),
        5,
    )

    first, second = kafka.rebalances.wait_for("g", count=2)

    assert (first.kind, first.outcome, first.members_after) == ("classic", "stable", 1)
    assert (first.epoch_after, second.members_before) == (1, 1)
    assert first.reason.startswith(f"member {member} joined")
    assert (second.reason, second.outcome) == (f"member {member} left", "empty")


def test_the_history_of_a_group_is_a_table(kafka: Kafka, client: WireClient) -> None:
    join(client)
    with kafka.faults.reply("OffsetCommit", "NOT_COORDINATOR"):
        commit_code(client)

    text = kafka.history("g")

    lines = text.splitlines()
    assert lines[0].split() == [
        "time",
        "request",
        "client",
        "group",
        "member",
        "result",
    ]
    assert [line.split()[1] for line in lines if "OffsetCommit" in line] == [
        "OffsetCommit"
    ]
    assert "NOT_COORDINATOR" in text
    assert "[reply]" in text
    assert "rebalance starts" in text
    assert "CreateTopics" not in text


# Without a server.


def test_the_record_is_bounded_and_counts_what_it_dropped() -> None:
    requests = Requests(limit=2)
    for time_ms in range(5):
        requests.append(recorded(time_ms))

    assert [each.time_ms for each in requests] == [3, 4]
    assert (len(requests), requests.dropped) == (2, 3)
    assert render(requests).startswith("(3 earlier requests were dropped)")
    requests.clear()
    assert (len(requests), requests.dropped) == (0, 0)


def test_waiting_has_a_deadline() -> None:
    requests = Requests()
    requests.append(recorded())

    with pytest.raises(AssertionError, match="0 of 1 answered requests"):
        requests.wait_for("Heartbeat", timeout_s=0)


def test_a_filter_with_an_unknown_api_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean Heartbeat"):
        Filter(api="Heartbeats")


def test_a_second_reason_belongs_to_the_rebalance_in_progress() -> None:
    rebalances = Rebalances()
    started = {"group": "g", "type": "consumer", "members": 1, "epoch": 4}
    rebalances.observe("rebalance_started", 10, {**started, "reason": "a"})
    rebalances.observe("rebalance_started", 20, {**started, "reason": "b"})
    rebalances.observe(
        "rebalance",
        30,
        {"group": "g", "outcome": "stable", "members_after": 2, "epoch_after": 6},
    )

    (only,) = rebalances.of("g")

    assert (only.reason, only.further_reasons) == ("a", ("b",))
    assert (only.started_ms, only.ended_ms, only.epoch_after) == (10, 30, 6)


def test_an_empty_history_says_so() -> None:
    assert render([]) == "no requests"
