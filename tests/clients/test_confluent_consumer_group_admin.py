"""AdminClient of librdkafka on consumer groups, whose members speak KIP-848."""

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

from .admin import ANSWER_S, admin_of, committed_offsets
from .waiting import eventually

PARTITIONS = 4
POLL_S = 0.02

Join = Callable[..., Consumer]


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """An admin client of the broker under test."""
    return admin_of(bootstrap)


@pytest.fixture
def join(bootstrap: str, group: str, topic: str) -> Iterator[Join]:
    """Has one more consumer join the group and waits until all have their share."""
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
        eventually(lambda: _shared(consumers), wanted="every member has its share")
        return consumer

    yield one_more
    for consumer in consumers:
        consumer.close()


def _shared(consumers: list[Consumer]) -> bool:
    for consumer in consumers:
        consumer.poll(POLL_S)
    shares = [len(consumer.assignment()) for consumer in consumers]
    return sum(shares) == PARTITIONS and max(shares) - min(shares) <= 1


def describe(admin: AdminClient, group: str) -> ConsumerGroupDescription:
    """What the coordinator says about a group."""
    return admin.describe_consumer_groups([group])[group].result(ANSWER_S)


def listed(admin: AdminClient, group: str, **filters: object) -> list[object]:
    """State and type of the group, if the filters let it through."""
    found = admin.list_consumer_groups(**filters).result(ANSWER_S)
    assert not found.errors
    return [(one.state, one.type) for one in found.valid if one.group_id == group]


def deleted(admin: AdminClient, group: str) -> int | None:
    """Delete a group; the error's code, if there is one."""
    error = admin.delete_consumer_groups([group])[group].exception(ANSWER_S)
    return None if error is None else int(error.args[0].code())


@pytest.mark.fact("E16-10", "E29-02")
def test_a_consumer_group_is_described(
    admin: AdminClient, group: str, join: Join
) -> None:
    join(client_id="one")
    join(client_id="two", group_instance_id="the-one")

    def settled() -> ConsumerGroupDescription | None:
        found = describe(admin, group)
        return found if found.state == ConsumerGroupState.STABLE else None

    found = eventually(settled, wanted="a stable group")
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


@pytest.mark.fact("E28-02", "E28-04", "H-115", "H-116")
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


@pytest.mark.fact("D-14", "H-110")
def test_a_consumer_group_is_deleted_once_it_is_empty(
    admin: AdminClient, bootstrap: str, group: str, topic: str, join: Join
) -> None:
    consumer = join()
    wanted = [TopicPartition(topic, partition, 5) for partition in range(PARTITIONS)]
    consumer.commit(offsets=wanted, asynchronous=False)
    assert deleted(admin, group) == KafkaError.NON_EMPTY_GROUP
    asked = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    assert [one.offset for one in consumer.committed(asked)] == [5] * PARTITIONS
    consumer.close()
    assert len(committed_offsets(bootstrap, group)) == PARTITIONS
    assert deleted(admin, group) is None
    assert committed_offsets(bootstrap, group) == {}
    assert deleted(admin, group) == KafkaError.GROUP_ID_NOT_FOUND
    assert listed(admin, group) == []


@pytest.mark.fact("E29-08", "H-87")
def test_offsets_are_altered_from_outside_only_while_nobody_is_in(
    admin: AdminClient, bootstrap: str, group: str, topic: str, join: Join
) -> None:
    consumer = join()
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])

    def altered() -> int | None:
        future = admin.alter_consumer_group_offsets([wanted])[group]
        [answer] = future.result(ANSWER_S).topic_partitions
        return None if answer.error is None else int(answer.error.code())

    assert altered() == KafkaError.UNKNOWN_MEMBER_ID
    assert committed_offsets(bootstrap, group) == {}
    consumer.close()
    assert altered() is None
    assert committed_offsets(bootstrap, group) == {(topic, 0): 1}


@pytest.mark.fact("E17-02")
def test_who_is_no_member_cannot_commit_beside_the_members(
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
