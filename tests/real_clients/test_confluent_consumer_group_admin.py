"""librdkafka's admin client on consumer groups (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    committed_offsets,
    describe_group,
)
from tests.support.waiting import eventually

PARTITIONS = 4
POLL_S = 0.02

Join = Callable[..., Consumer]


@pytest.fixture
def join(bootstrap: str, group: str, topic: str) -> Iterator[Join]:
    """A function that adds a consumer and waits until every member has partitions."""
    consumers: list[Consumer] = []

    def one_more(**config: object) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )
        consumer.subscribe([topic])
        consumers.append(consumer)
        eventually(lambda: _shared(consumers), expected="every member has its share")
        return consumer

    yield one_more
    for consumer in consumers:
        consumer.close()


def _shared(consumers: list[Consumer]) -> bool:
    for consumer in consumers:
        consumer.poll(POLL_S)
    shares = [len(consumer.assignment()) for consumer in consumers]
    return sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1


def listed(admin: AdminClient, group: str, **filters: object) -> list[object]:
    """Return the group's state and type, if the filters match it."""
    found = admin.list_consumer_groups(**filters).result(ANSWER_S)
    assert not found.errors
    return [(one.state, one.type) for one in found.valid if one.group_id == group]


def deleted(admin: AdminClient, group: str) -> int | None:
    """Delete a group; return the error code, if there is one."""
    error = admin.delete_consumer_groups([group])[group].exception(ANSWER_S)
    return None if error is None else int(error.args[0].code())


@pytest.mark.fact("E29-02")
def test_a_consumer_group_is_described(
    admin: AdminClient, group: str, join: Join
) -> None:
    join(client_id="one")
    join(client_id="two", group_instance_id="the-one")

    def settled() -> ConsumerGroupDescription | None:
        found = describe_group(admin, group)
        return found if found.state == ConsumerGroupState.STABLE else None

    found = eventually(settled, expected="a stable group")
    assert found is not None
    assert found.type == ConsumerGroupType.CONSUMER
    assert found.partition_assignor == "uniform"
    members = {(m.client_id, m.group_instance_id) for m in found.members}
    assert members == {("one", None), ("two", "the-one")}
    owned = []
    for member in found.members:
        assert member.host.startswith("/")
        partitions = member.assignment.topic_partitions
        assert member.target_assignment is not None
        assert member.target_assignment.topic_partitions == partitions
        owned += [one.partition for one in partitions]
    assert sorted(owned) == list(range(PARTITIONS))


@pytest.mark.fact("E28-02", "E28-04", "H-115b", "H-116b")
def test_a_consumer_group_is_listed_by_type_and_state(
    admin: AdminClient, group: str, join: Join
) -> None:
    consumer = join()
    stable = [(ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)]
    assert listed(admin, group) == stable
    assert listed(admin, group, types={ConsumerGroupType.CONSUMER}) == stable
    assert listed(admin, group, types={ConsumerGroupType.CLASSIC}) == []
    assert listed(admin, group, states={ConsumerGroupState.STABLE}) == stable
    assert listed(admin, group, states={ConsumerGroupState.EMPTY}) == []
    consumer.close()
    empty = [(ConsumerGroupState.EMPTY, ConsumerGroupType.CONSUMER)]
    assert listed(admin, group, states={ConsumerGroupState.EMPTY}) == empty


@pytest.mark.fact("H-110a", "D-14c")
def test_a_consumer_group_is_deleted_once_it_is_empty(
    admin: AdminClient, bootstrap: str, group: str, topic: str, join: Join
) -> None:
    consumer = join()
    positions = [TopicPartition(topic, partition, 5) for partition in range(PARTITIONS)]
    consumer.commit(offsets=positions, asynchronous=False)
    assert deleted(admin, group) == KafkaError.NON_EMPTY_GROUP
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    assert [one.offset for one in consumer.committed(asked)] == [5] * PARTITIONS
    consumer.close()
    assert len(committed_offsets(bootstrap, group)) == PARTITIONS
    assert deleted(admin, group) is None
    assert committed_offsets(bootstrap, group) == {}
    assert deleted(admin, group) == KafkaError.GROUP_ID_NOT_FOUND
    assert listed(admin, group) == []


@pytest.mark.fact("E29-08", "H-87c", "H-87d")
def test_offsets_are_altered_only_while_the_group_is_empty(
    admin: AdminClient, bootstrap: str, group: str, topic: str, join: Join
) -> None:
    consumer = join()
    new_offsets = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])

    def altered() -> int | None:
        future = admin.alter_consumer_group_offsets([new_offsets])[group]
        [answer] = future.result(ANSWER_S).topic_partitions
        return None if answer.error is None else int(answer.error.code())

    assert altered() == KafkaError.UNKNOWN_MEMBER_ID
    assert committed_offsets(bootstrap, group) == {}
    consumer.close()
    assert altered() is None
    assert committed_offsets(bootstrap, group) == {(topic, 0): 1}


@pytest.mark.fact("E17-02")
def test_a_commit_by_a_non_member_is_refused(
    bootstrap: str, group: str, topic: str, join: Join
) -> None:
    consumer = join()
    outsider = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    with pytest.raises(KafkaException) as caught:
        outsider.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
    outsider.close()
    assert caught.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    assert committed_offsets(bootstrap, group) == {(topic, 0): 3}
