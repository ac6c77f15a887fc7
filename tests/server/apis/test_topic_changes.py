"""Topics come, grow and go while members of a consumer group send heartbeats: what the
members are told, through the whole server and over the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.coordinator.consumer import resolve
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from coterie.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coterie.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.server.apis.in_process import Office

DESCRIBE, TOPIC = Operation.DESCRIBE, ResourceType.TOPIC
FEW = 6
"""Heartbeats a member may need to hear of a change."""


class Client:
    """A member that owns what it is told to own."""

    def __init__(self, office: Office, member_id: str = "m") -> None:
        self.office = office
        self.member_id = member_id
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}

    def heartbeat(self, **said: Any) -> Any:
        """The answer to a heartbeat; the member does what it says."""
        topics = [
            TopicPartitions(topic_id=topic, partitions=partitions)
            for topic, partitions in self.owned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            **{"member_epoch": self.epoch, "topic_partitions": topics, **said},
        )
        answer = self.office.call(request, 1)
        if not answer.error_code:
            self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {
                topic.topic_id: topic.partitions
                for topic in answer.assignment.topic_partitions
            }
        return answer

    def join(self, *topics: str, **said: Any) -> Any:
        """The first heartbeat."""
        return self.heartbeat(
            rebalance_timeout_ms=10_000, subscribed_topic_names=[*topics], **said
        )

    def hears_of(self, wanted: dict[str, int]) -> bool:
        """Whether a few heartbeats make it own these topics, of so many partitions."""
        office = self.office
        for _ in range(FEW):
            topics = {office.topic_id(name): count for name, count in wanted.items()}
            if topics == {topic: len(some) for topic, some in self.owned.items()}:
                return True
            office.turn()
            assert self.heartbeat().error_code == 0
        return False


@pytest.fixture
def office() -> Iterator[Office]:
    with Office(settings=Settings(group_consumer_assignment_interval_ms=0)) as office:
        yield office


def create(office: Office, *names: str, partitions: int = 2) -> None:
    topics = [
        CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        for name in names
    ]
    made = office.call(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
    assert not any(topic.error_code for topic in made.topics)


def delete(office: Office, name: str) -> None:
    topics = [DeleteTopicState(name=name)]
    gone = office.call(DeleteTopicsRequest(topics=topics, timeout_ms=5_000), 6)
    assert [topic.error_code for topic in gone.responses] == [0]


def grow(office: Office, name: str, partitions: int) -> None:
    topics = [CreatePartitionsTopic(name=name, count=partitions, assignments=None)]
    request = CreatePartitionsRequest(
        topics=topics, timeout_ms=5_000, validate_only=False
    )
    grown = office.call(request, 3)
    assert [topic.error_code for topic in grown.results] == [0]


@pytest.mark.fact("H-12", "E6-11", "E15-04")
def test_a_topic_that_is_made_later_is_heard_of(office: Office) -> None:
    client = Client(office)
    answer = client.join("later")
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, [])
    client.heartbeat()
    create(office, "later", partitions=3)
    assert client.hears_of({"later": 3})
    assert client.epoch == 2
    left = client.heartbeat(member_epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)


@pytest.mark.fact("E6-10")
def test_partitions_that_are_added_are_heard_of_by_all(office: Office) -> None:
    first, second = Client(office, "a"), Client(office, "b")
    first.join("t")
    second.join("t")
    for client in (first, second, first, second):
        client.heartbeat()
    assert [len(client.owned[office.topic_id("t")]) for client in (first, second)] == [
        2,
        2,
    ]
    epoch = first.epoch
    grow(office, "t", 8)
    assert first.hears_of({"t": 4})
    assert second.hears_of({"t": 4})
    assert first.epoch == second.epoch == epoch + 1


@pytest.mark.fact("E15-07")
def test_a_topic_that_is_made_anew_is_another_one(office: Office) -> None:
    client = Client(office)
    client.join("t", "u")
    old = office.topic_id("t")
    delete(office, "t")
    assert client.hears_of({"u": 4})
    create(office, "t")
    assert client.hears_of({"t": 2, "u": 4})
    assert old not in client.owned
    assert client.epoch == 3


@pytest.mark.fact("H-27")
def test_what_consumers_need_not_know_is_not_told(office: Office) -> None:
    client = Client(office)
    client.join("t")
    client.heartbeat()
    group = next(
        shard.shard.state.consumer_groups["g"]
        for shard in office.shards
        if "g" in shard.shard.state.consumer_groups
    )
    refresh = group.refresh
    assert refresh.deadline_ms > 0
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = AlterConfigsResource(
        resource_type=2, resource_name="t", configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    assert office.call(request, 1).responses[0].error_code == 0
    create(office, "elsewhere")
    office.turn()
    assert group.refresh is refresh
    grow(office, "t", 5)
    office.turn()
    assert group.refresh.deadline_ms == 0


@pytest.mark.fact("E14-05", "E6-12", "E14-06")
def test_topics_that_match_come_and_go(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "MIN_INTERVAL_MS", 0)
    create(office, "log-a", "log-b", "other")
    client = Client(office)
    answer = client.join(subscribed_topic_regex="log-.*")
    assert answer.assignment.topic_partitions == []
    assert client.hears_of({"log-a": 2, "log-b": 2})
    create(office, "log-c", "xlog-d")
    assert client.hears_of({"log-a": 2, "log-b": 2, "log-c": 2})
    delete(office, "log-a")
    assert client.hears_of({"log-b": 2, "log-c": 2})
    create(office, "log-a", partitions=1)
    assert client.hears_of({"log-a": 1, "log-b": 2, "log-c": 2})
    client.heartbeat(subscribed_topic_regex="")
    assert client.hears_of({})


@pytest.mark.fact("E14-04")
def test_what_is_no_expression_is_refused(office: Office) -> None:
    answer = Client(office).join(subscribed_topic_regex="(unclosed")
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "missing )" in answer.error_message


@pytest.mark.fact("E14-08")
def test_topics_that_the_member_may_not_describe_do_not_match(office: Office) -> None:
    create(office, "log-a", "log-b")
    office.authorizer.denied.add((DESCRIBE, TOPIC, "log-a"))
    client = Client(office)
    client.join(subscribed_topic_regex="log-.*")
    assert client.hears_of({"log-b": 2})


@pytest.mark.fact("E14-09")
def test_internal_topics_match(office: Office) -> None:
    client = Client(office)
    client.join(subscribed_topic_regex="__consumer.*")
    assert client.hears_of({"__consumer_offsets": 5})


@pytest.mark.fact("E7-03")
def test_naming_a_topic_one_may_not_describe_is_refused(office: Office) -> None:
    office.authorizer.denied.add((DESCRIBE, TOPIC, "u"))
    answer = Client(office).join("t", "u")
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert answer.assignment is None
    assert not any(shard.shard.state.consumer_groups for shard in office.shards)
    assert Client(office).join("t").error_code == 0
