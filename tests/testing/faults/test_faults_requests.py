"""Faults of single requests, as raw clients see them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.testing.faults.fault import Matching
from coterie.testing.kafka import Kafka
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.testing.clients import (
    code_of,
    commit,
    commit_code,
    committed,
    connect,
    consumer_heartbeat,
    create_topic,
    heartbeat_code,
    join,
)

MOVED = ErrorCode.NOT_COORDINATOR
SESSION = ("session", "other")


@pytest.fixture(name="kafka", scope="module")
def start_kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        with connect(kafka) as client:
            create_topic(client)
        yield kafka


@pytest.fixture(name="client")
def connect_client(kafka: Kafka) -> Iterator[WireClient]:
    with connect(kafka) as client:
        yield client


def test_reply_hits_the_next_requests_only(kafka: Kafka, client: WireClient) -> None:
    with kafka.faults.reply(
        "OffsetCommit", MOVED.name, times=2, group="twice"
    ) as fault:
        codes = [commit_code(client, "twice") for _ in range(3)]

    assert codes == [MOVED, MOVED, 0]
    assert [each.errors for each in fault.hits] == [(MOVED.name,)] * 2


def test_a_reply_is_not_applied(kafka: Kafka, client: WireClient) -> None:
    with kafka.faults.reply("OffsetCommit", MOVED.name, group="refused"):
        commit_code(client, "refused")

    assert committed(client, "refused") == -1


@pytest.mark.parametrize("instance", [None, "i"])
def test_a_member_that_is_told_to_be_unknown_is_removed(
    kafka: Kafka, client: WireClient, instance: str | None
) -> None:
    group = f"unknown-{instance}"
    member = join(client, group, instance=instance)
    with kafka.faults.reply("Heartbeat", "UNKNOWN_MEMBER_ID", group=group):
        heartbeat_code(client, member, group, instance=instance)

    assert kafka.groups[group].members == ()


def test_a_member_that_is_told_another_error_stays(
    kafka: Kafka, client: WireClient
) -> None:
    member = join(client, "moved")
    with kafka.faults.reply("Heartbeat", MOVED.name, group="moved"):
        heartbeat_code(client, member, "moved")

    assert len(kafka.groups["moved"].members) == 1


@pytest.mark.parametrize("instance", [None, "i"])
def test_an_unknown_member_of_the_consumer_protocol_is_removed(
    instance: str | None,
) -> None:
    with Kafka() as kafka, connect(kafka) as client:
        create_topic(client)
        epoch = consumer_heartbeat(client, 0, instance).member_epoch
        with kafka.faults.reply("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID"):
            consumer_heartbeat(client, epoch, instance)

        assert kafka.groups["g"].members == ()


def test_only_members_that_a_fault_hits_are_removed(
    kafka: Kafka, client: WireClient
) -> None:
    member_id, _ = join(client, "rest", instance="a")
    request = m.LeaveGroupRequest(
        group_id="rest",
        members=[
            m.MemberIdentity(group_instance_id="b"),
            m.MemberIdentity(member_id="c"),
        ],
    )
    with kafka.faults.reply("LeaveGroup", "UNKNOWN_MEMBER_ID", group="rest"):
        client.call(request)

    assert [each.member_id for each in kafka.groups["rest"].members] == [member_id]


def test_after_lets_the_first_requests_pass(kafka: Kafka, client: WireClient) -> None:
    matching = {"group": "after", "after": 1, "times": 1}
    with kafka.faults.start("reply", api="OffsetCommit", error=MOVED.name, **matching):
        codes = [commit_code(client, "after") for _ in range(3)]

    assert codes == [0, MOVED, 0]


def test_filters_limit_a_fault(kafka: Kafka, client: WireClient) -> None:
    with (
        connect(kafka, client_id="other") as other,
        kafka.faults.reply("OffsetCommit", MOVED.name, client_id="other"),
    ):
        assert (commit_code(client), commit_code(other)) == (0, MOVED)
    with kafka.faults.reply("OffsetCommit", MOVED.name, topic="t"):
        assert commit_code(client) == MOVED
    with kafka.faults.reply("OffsetCommit", MOVED.name, topic="u", required=False):
        assert commit_code(client) == 0


def test_a_fault_of_a_member_hits_its_heartbeats(
    kafka: Kafka, client: WireClient
) -> None:
    member = join(client, "heartbeats")
    assert heartbeat_code(client, member, "heartbeats") == 0
    with kafka.faults.reply("Heartbeat", "REBALANCE_IN_PROGRESS", member=member[0]):
        code = heartbeat_code(client, member, "heartbeats")

    assert code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("wanted", [{"member": "m"}, {"member": "i"}, {"group": "g"}])
def test_filters_match_what_stands_in_a_row(
    kafka: Kafka, client: WireClient, wanted: Matching
) -> None:
    group = m.OffsetFetchRequestGroup(group_id="g", member_id="m", topics=[])
    request = m.OffsetFetchRequest(groups=[group])
    members = [m.MemberIdentity(member_id="m", group_instance_id="i")]
    leave = m.LeaveGroupRequest(group_id="g", members=members)
    is_leave = wanted.get("member") == "i"
    with kafka.faults.reply(None, MOVED.name, **wanted) as fault:
        client.call(leave if is_leave else request)

    assert len(fault.hits) == 1


def test_a_fault_of_a_topic_hits_the_fetches_of_a_session(
    kafka: Kafka, client: WireClient
) -> None:
    kafka.topic("session")
    kafka.topic("other")
    ids = {name: client.call(named(name)).topics[0].topic_id for name in SESSION}
    first = client.call(
        m.FetchRequest(
            topics=[
                m.FetchTopic(topic_id=topic_id, partitions=[m.FetchPartition()])
                for topic_id in ids.values()
            ],
            session_epoch=0,
        )
    )
    session = {"session_id": first.session_id}
    forgotten = m.ForgottenTopic(topic_id=ids["other"], partitions=[0])

    with kafka.faults.delay("Fetch", 0, topic="session") as fault:
        client.call(m.FetchRequest(**session, session_epoch=1))
        client.call(m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="session")]))
        client.call(m.FetchRequest(**session, session_epoch=2))
    with kafka.faults.delay("Fetch", 0, topic="other", required=False) as none:
        client.call(
            m.FetchRequest(
                **session, session_epoch=3, forgotten_topics_data=[forgotten]
            )
        )

    assert [each.topics for each in fault.hits] == [SESSION] * 2
    assert not none.hit


def named(name: str) -> m.MetadataRequest:
    return m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)])


def test_remove_ends_a_fault(kafka: Kafka, client: WireClient) -> None:
    fault = kafka.faults.reply("OffsetCommit", MOVED.name)
    fault.remove()
    fault.remove()

    assert commit_code(client) == 0
    assert fault not in kafka.faults.active


def test_a_dropped_response_was_applied(kafka: Kafka, client: WireClient) -> None:
    with kafka.faults.drop_response("OffsetCommit", group="applied") as fault:
        client.send(commit("applied", 7), 9)
        assert client.is_closed()

    with connect(kafka) as other:
        assert committed(other, "applied") == 7
    (hit,) = fault.hits
    assert (code_of(hit.response), hit.duration_ms) == (0, None)


def test_a_lost_request_was_not_applied(kafka: Kafka, client: WireClient) -> None:
    with kafka.faults.lose_request("OffsetCommit", group="lost"):
        client.send(commit("lost", 7), 9)
        assert client.is_closed()

    with connect(kafka) as other:
        assert committed(other, "lost") == -1


def test_a_connection_that_stays_open_gets_no_further_response(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.drop_response("OffsetCommit", group="open", close=False) as fault:
        client.send(commit("open", 7), 9)
        fault.wait_for_hit()
        client.send(m.ApiVersionsRequest(), 0)
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.receive_frame()

    with connect(kafka) as other:
        assert committed(other, "open") == 7


@pytest.mark.parametrize("ms", [-1, float("nan"), float("inf")])
def test_a_delay_that_no_clock_has_is_refused(kafka: Kafka, ms: int) -> None:
    with pytest.raises(ValueError, match="is not a delay in milliseconds"):
        kafka.faults.delay("Fetch", ms)


@pytest.mark.parametrize("response", [False, True])
def test_a_delayed_request_holds_the_ones_behind_it(
    kafka: Kafka, client: WireClient, response: bool
) -> None:
    with kafka.faults.delay("OffsetCommit", 40, response=response, group="late"):
        client.send(commit("late", 8), 9)
        assert committed_after(client) == 8

    (recorded,) = kafka.requests.of("OffsetCommit", group="late")[-1:]
    assert recorded.duration_ms is not None
    assert recorded.duration_ms >= 39
    assert recorded.fault == "delay"


def committed_after(client: WireClient) -> int:
    """Receive the response to a commit of group "late", then fetch its offset."""
    assert code_of(client.receive()) == 0
    return committed(client, "late")


def test_dropped_connections_are_closed_at_the_next_request(
    kafka: Kafka, client: WireClient
) -> None:
    with (
        connect(kafka, client_id="dropped") as dropped,
        kafka.faults.drop_connections(client_id="dropped", times=1) as fault,
    ):
        dropped.send(m.ApiVersionsRequest(), 0)
        assert dropped.is_closed()
        assert commit_code(client) == 0

    assert len(fault.hits) == 1


def test_all_open_connections_are_closed_at_once(
    kafka: Kafka, client: WireClient
) -> None:
    client.call(m.ApiVersionsRequest(), 0)
    with kafka.faults.drop_connections():
        assert client.is_closed()


def test_a_throttled_client_is_told_and_muted(kafka: Kafka, client: WireClient) -> None:
    with kafka.faults.throttle("Metadata", 40, times=1):
        response = client.call(m.MetadataRequest(topics=[]))
        client.call(m.MetadataRequest(topics=[]))

    assert response.throttle_time_ms == 40
    first, second = kafka.requests.of("Metadata")[-2:]
    assert second.time_ms - first.time_ms >= 39


def test_a_throttled_commit_is_applied(kafka: Kafka, client: WireClient) -> None:
    with kafka.faults.throttle("OffsetCommit", 1, times=1):
        response = client.call(commit("throttled"), 9)

    assert response.throttle_time_ms == 1
    assert committed(client, "throttled") >= 0


def test_a_loading_group_accepts_classic_heartbeats(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.loading(group="loading"):
        code = commit_code(client, "loading")
        heartbeat = client.call(
            m.HeartbeatRequest(group_id="loading", member_id="m"), 4
        )

    assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heartbeat.error_code == 0


# Faults that hit nothing.


def test_a_fault_without_a_hit_fails_and_names_the_requests(
    kafka: Kafka, client: WireClient
) -> None:
    with (
        pytest.raises(AssertionError, match=r"reply.*biling.*\n.*group=billing"),
        kafka.faults.reply("OffsetCommit", MOVED.name, group="biling"),
    ):
        commit_code(client, "billing")


def test_an_error_in_the_block_comes_before_a_missing_hit(kafka: Kafka) -> None:
    with (
        pytest.raises(KeyError, match="test"),
        kafka.faults.reply("OffsetCommit", MOVED.name),
    ):
        raise KeyError("test")


def test_waiting_for_a_hit_has_a_deadline(kafka: Kafka) -> None:
    fault = kafka.faults.reply("OffsetCommit", MOVED.name, group="none")
    with pytest.raises(AssertionError, match="0 of 1 hits within 0 s"):
        fault.wait_for_hit(timeout_s=0)
    fault.remove()


# Arguments.


@pytest.mark.parametrize(
    ("api", "error", "message"),
    [
        ("OffsetComit", MOVED.name, "did you mean OffsetCommit"),
        ("offsetcommit", MOVED.name, "did you mean OffsetCommit"),
        ("OffsetCommit", "NOT_CORDINATOR", "did you mean NOT_COORDINATOR"),
        ("OffsetCommit", "xyz", "there is no error code 'xyz'$"),
    ],
)
def test_wrong_names_are_refused_with_suggestions(
    kafka: Kafka, api: str, error: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kafka.faults.reply(api, error)
    assert not kafka.faults.active


def test_wrong_options_are_refused(kafka: Kafka) -> None:
    with pytest.raises(TypeError, match="grup"):
        kafka.faults.start("delay", api="Fetch", ms=1, grup="g")
    with pytest.raises(ValueError, match="times=0"):
        kafka.faults.delay("Fetch", 1, times=0)
    with pytest.raises(ValueError, match="there is no fault 'dely'"):
        kafka.faults.start("dely")
