"""Topic changes while members of a consumer group send heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.coordinator.consumer import subscriptions
from coterie.broker.coordinator.offsets.deletion import TopicsDeleted
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer

DESCRIBE, TOPIC = Operation.DESCRIBE, ResourceType.TOPIC
FEW = 6
"""Heartbeats a member may need to hear of a change."""


class Client:
    """A member that follows its target assignment."""

    def __init__(self, server: InProcessServer, member_id: str = "m") -> None:
        self.server = server
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def heartbeat(self, **fields: Any) -> Any:
        """Send a heartbeat and follow the assignment; return the response."""
        topics = [
            m.TopicPartitions(topic_id=topic, partitions=partitions)
            for topic, partitions in self.owned.items()
        ]
        request = m.ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            **{"member_epoch": self.epoch, "topic_partitions": topics, **fields},
        )
        answer = self.server.call(request, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                topic.topic_id: topic.partitions
                for topic in answer.assignment.topic_partitions
            }
        return answer

    def join(self, *topics: str, **fields: Any) -> Any:
        """Send the first heartbeat."""
        return self.heartbeat(
            rebalance_timeout_ms=10_000, subscribed_topic_names=[*topics], **fields
        )

    def is_assigned(self, wanted: dict[str, int]) -> bool:
        """Return whether a few heartbeats assign exactly these partition counts by
        topic.
        """
        server = self.server
        for _ in range(FEW):
            topics = {server.topic_id(name): count for name, count in wanted.items()}
            if topics == {topic: len(some) for topic, some in self.owned.items()}:
                return True
            server.turn()
            assert self.heartbeat().error_code == 0
        return False


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer(
        settings=Settings(group_consumer_assignment_interval_ms=0)
    ) as server:
        yield server


def create(server: InProcessServer, *names: str, partitions: int = 2) -> None:
    topics = [
        m.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    made = server.call(m.CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
    assert not any(topic.error_code for topic in made.topics)


def delete(server: InProcessServer, name: str) -> None:
    topics = [m.DeleteTopicState(name=name)]
    gone = server.call(m.DeleteTopicsRequest(topics=topics, timeout_ms=5_000), 6)
    assert [topic.error_code for topic in gone.responses] == [0]


def grow(server: InProcessServer, name: str, partitions: int) -> None:
    topics = [m.CreatePartitionsTopic(name=name, count=partitions, assignments=None)]
    request = m.CreatePartitionsRequest(
        topics=topics, timeout_ms=5_000, validate_only=False
    )
    grown = server.call(request, 3)
    assert [topic.error_code for topic in grown.results] == [0]


@pytest.mark.fact("H-12", "E6-11", "E15-04a")
def test_a_topic_created_later_is_assigned(server: InProcessServer) -> None:
    client = Client(server)
    answer = client.join("later")
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, [])
    client.heartbeat()
    create(server, "later", partitions=3)
    assert client.is_assigned({"later": 3})
    assert client.epoch == 2
    left = client.heartbeat(member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)


@pytest.mark.fact("E6-10")
def test_added_partitions_are_assigned(server: InProcessServer) -> None:
    first, second = Client(server, "a"), Client(server, "b")
    first.join("t")
    second.join("t")
    for client in (first, second, first, second):
        client.heartbeat()
    assert [len(client.owned[server.topic_id("t")]) for client in (first, second)] == [
        2,
        2,
    ]
    epoch = first.epoch
    grow(server, "t", 8)
    assert first.is_assigned({"t": 4})
    assert second.is_assigned({"t": 4})
    assert first.epoch == second.epoch == epoch + 1


@pytest.mark.fact("E15-07")
def test_a_topic_created_again_has_another_id(server: InProcessServer) -> None:
    client = Client(server)
    client.join("t", "u")
    old = server.topic_id("t")
    delete(server, "t")
    assert client.is_assigned({"u": 4})
    create(server, "t")
    assert client.is_assigned({"t": 2, "u": 4})
    assert old not in client.owned
    assert client.epoch == 3


@pytest.mark.fact("H-27")
def test_a_config_change_causes_no_rebalance(server: InProcessServer) -> None:
    client = Client(server)
    client.join("t")
    client.heartbeat()
    group = next(
        shard.shard.state.consumer_groups["g"]
        for shard in server.shards
        if "g" in shard.shard.state.consumer_groups
    )
    refresh = group.refresh
    assert refresh.deadline_ms > 0
    config = m.IncrementalAlterableConfig(
        name="retention.ms", config_operation=0, value="1000"
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=2, resource_name="t", configs=[config]
    )
    request = m.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )
    assert server.call(request, 1).responses[0].error_code == 0
    create(server, "elsewhere")
    server.turn()
    assert group.refresh is refresh
    grow(server, "t", 5)
    server.turn()
    assert group.refresh.deadline_ms == 0


@pytest.mark.fact("E6-12", "E14-06a")
def test_topics_that_match_a_regular_expression_are_added_and_removed(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MIN_INTERVAL_MS", 0)
    create(server, "log-a", "log-b", "other")
    client = Client(server)
    answer = client.join(subscribed_topic_regex="log-.*")
    assert answer.assignment.topic_partitions == []
    assert client.is_assigned({"log-a": 2, "log-b": 2})
    create(server, "log-c", "xlog-d")
    assert client.is_assigned({"log-a": 2, "log-b": 2, "log-c": 2})
    delete(server, "log-a")
    assert client.is_assigned({"log-b": 2, "log-c": 2})
    create(server, "log-a", partitions=1)
    assert client.is_assigned({"log-a": 1, "log-b": 2, "log-c": 2})
    client.heartbeat(subscribed_topic_regex="")
    assert client.is_assigned({})


@pytest.mark.fact("E14-04")
def test_an_invalid_regular_expression_is_refused(server: InProcessServer) -> None:
    answer = Client(server).join(subscribed_topic_regex="(unclosed")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "missing closing )" in answer.error_message


@pytest.mark.fact("E14-08")
def test_a_regular_expression_omits_topics_without_describe_permission(
    server: InProcessServer,
) -> None:
    create(server, "log-a", "log-b")
    server.authorizer.denied.add((DESCRIBE, TOPIC, "log-a"))
    client = Client(server)
    client.join(subscribed_topic_regex="log-.*")
    assert client.is_assigned({"log-b": 2})


@pytest.mark.fact("E14-09")
def test_internal_topics_match_a_regular_expression(server: InProcessServer) -> None:
    client = Client(server)
    client.join(subscribed_topic_regex="__consumer.*")
    assert client.is_assigned({"__consumer_offsets": 5})


@pytest.mark.fact("E7-03")
def test_subscribing_to_a_topic_without_describe_permission_is_refused(
    server: InProcessServer,
) -> None:
    server.authorizer.denied.add((DESCRIBE, TOPIC, "u"))
    answer = Client(server).join("t", "u")
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert answer.assignment is None
    assert not any(shard.shard.state.consumer_groups for shard in server.shards)
    assert Client(server).join("t").error_code == 0


# Deleted topics.


def test_topics_deleted_by_one_request_are_broadcast_together(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    broadcast: list[Any] = []
    monkeypatch.setattr(server.broker.runtime, "broadcast", broadcast.append)
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=name) for name in ("t", "u")]
    )
    server.call(request, 6)
    server.turn()
    [deleted] = [event for event in broadcast if isinstance(event, TopicsDeleted)]
    assert [topic.name for topic in deleted.topics] == ["t", "u"]


def test_a_deletion_is_broadcast_before_a_topic_of_the_same_name_exists(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = server.broker.catalog.topics
    seen: list[tuple[str, bool]] = []

    def broadcast(event: Any) -> None:
        if isinstance(event, TopicsDeleted):
            [topic] = event.topics
            seen.append((topic.name, server.broker.catalog.topic_id("t") == old_id))

    old_id = topics["t"].topic_id
    monkeypatch.setattr(server.broker.runtime, "broadcast", broadcast)
    server.send(m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="t")]), 6)
    assert seen == []
    new = m.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    server.send(m.CreateTopicsRequest(topics=[new]), 7)
    assert seen == [("t", False)], "before any request of the new topic"
