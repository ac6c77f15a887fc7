"""librdkafka's admin client: groups and their committed offsets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.real_clients.confluent_admin import (
    ANSWER_S,
    alter_offsets,
    committed_offsets,
    describe_group,
    error_code,
)
from tests.real_clients.confluent_members import ConfluentGroup
from tests.support.waiting import eventually

PARTITIONS = 4


def listed(admin: AdminClient, **filters: object) -> dict[str, ConsumerGroupState]:
    """Return the groups that the filters match, with their states."""
    found = admin.list_consumer_groups(**filters).result(ANSWER_S)
    assert not found.errors
    return {one.group_id: one.state for one in found.valid}


@pytest.mark.fact("A-20")
def test_all_offsets_of_a_group_are_listed_without_topics(
    bootstrap: str, group: str, new_topic: Callable[[str, int], str]
) -> None:
    one, two = new_topic("one", 3), new_topic("two", 2)
    new_offsets = {(one, 0): 5, (one, 2): 7, (two, 1): 9}
    alter_offsets(bootstrap, group, new_offsets)
    assert committed_offsets(bootstrap, group) == new_offsets


@pytest.mark.fact("A-40")
def test_an_unknown_group_has_no_offset_and_no_error(
    admin: AdminClient, group: str, topic: str
) -> None:
    partitions = [TopicPartition(topic, 0), TopicPartition("no-such-topic", 17)]
    asked = ConsumerGroupTopicPartitions(group, partitions)
    found = admin.list_consumer_group_offsets([asked])[group].result(ANSWER_S)
    # librdkafka shows offset -1 as OFFSET_INVALID, -1001.
    answers = {(p.topic, p.partition, p.offset) for p in found.topic_partitions}
    assert answers == {(topic, 0, -1001), ("no-such-topic", 17, -1001)}
    assert all(p.error is None for p in found.topic_partitions)


@pytest.mark.fact("A-41")
def test_an_unknown_group_has_no_committed_offsets(bootstrap: str, group: str) -> None:
    assert committed_offsets(bootstrap, group) == {}


@pytest.mark.fact("C-21a")
def test_an_unknown_group_is_described_as_dead(admin: AdminClient, group: str) -> None:
    found = describe_group(admin, group)
    assert found.state == ConsumerGroupState.DEAD
    assert not found.members


@pytest.mark.fact("C-20a", "C-24")
def test_a_stable_group_is_described_with_its_members(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(
        ConfluentGroup(bootstrap, group, topic, client_id="me")
    ) as members:
        members.join(group_instance_id="the-one")
        members.join()
        members.poll_until_assigned(PARTITIONS)
        found = describe_group(admin, group)
        assert found.state == ConsumerGroupState.STABLE
        assert found.partition_assignor == "range"
        assert not found.is_simple_consumer_group
        assert {m.client_id for m in found.members} == {"me"}
        assert {m.group_instance_id for m in found.members} == {None, "the-one"}
        assert all(m.host.startswith("/") for m in found.members)
        owned = [
            p.partition for m in found.members for p in m.assignment.topic_partitions
        ]
        assert sorted(owned) == list(range(PARTITIONS))


def test_a_group_whose_members_left_is_empty(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    members = ConfluentGroup(bootstrap, group, topic)
    members.join()
    members.poll_until_assigned(PARTITIONS)
    members.close()
    found = describe_group(admin, group)
    assert found.state == ConsumerGroupState.EMPTY
    assert not found.members


@pytest.mark.fact("E28-04", "H-115b")
def test_groups_are_listed_by_state_and_type(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    alter_offsets(bootstrap, group, {(topic, 0): 1})
    with contextlib.closing(ConfluentGroup(bootstrap, f"{group}-2", topic)) as members:
        members.join()
        members.poll_until_assigned(PARTITIONS)
        everything = listed(admin)
        assert everything[group] == ConsumerGroupState.EMPTY
        assert everything[f"{group}-2"] == ConsumerGroupState.STABLE
        stable = listed(admin, states={ConsumerGroupState.STABLE})
        assert f"{group}-2" in stable
        assert group not in stable
        both = {ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY}
        either = listed(admin, states=both, types={ConsumerGroupType.CLASSIC})
        assert {group, f"{group}-2"} <= set(either)
        modern = listed(admin, states=both, types={ConsumerGroupType.CONSUMER})
        assert not {group, f"{group}-2"} & set(modern)


@pytest.mark.fact("D-10", "D-11", "D-13", "D-44", "H-110a")
def test_each_group_of_a_deletion_has_its_own_error(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    empty, busy, unknown = (f"{group}-{what}" for what in ("empty", "busy", "none"))
    alter_offsets(bootstrap, empty, {(topic, 0): 1})
    with contextlib.closing(ConfluentGroup(bootstrap, busy, topic)) as members:
        members.join()
        members.poll_until_assigned(PARTITIONS)
        futures = admin.delete_consumer_groups([empty, busy, unknown])
        codes = {one: error_code(f.exception(ANSWER_S)) for one, f in futures.items()}
    assert codes == {
        empty: None,
        busy: KafkaError.NON_EMPTY_GROUP,
        unknown: KafkaError.GROUP_ID_NOT_FOUND,
    }


@pytest.mark.fact("D-12")
def test_a_deleted_group_loses_its_offsets(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    alter_offsets(bootstrap, group, {(topic, 0): 1})
    assert group in listed(admin)
    admin.delete_consumer_groups([group])[group].result(ANSWER_S)
    assert group not in listed(admin)
    assert committed_offsets(bootstrap, group) == {}


@pytest.mark.fact("H-83")
def test_offsets_of_a_group_with_members_cannot_be_altered(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    with contextlib.closing(ConfluentGroup(bootstrap, group, topic)) as members:
        members.join()
        members.poll_until_assigned(PARTITIONS)
        new_offsets = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 5)])
        future = admin.alter_consumer_group_offsets([new_offsets])[group]
        error = future.exception(ANSWER_S)
        if error is None:
            codes = {p.error.code() for p in future.result().topic_partitions}
        else:
            codes = {error_code(error)}
        assert codes == {KafkaError.UNKNOWN_MEMBER_ID}


def test_offsets_of_a_deleted_topic_are_removed(
    admin: AdminClient, bootstrap: str, group: str, new_topic: Callable[[str, int], str]
) -> None:
    kept, deleted = new_topic("kept", 1), new_topic("deleted", 1)
    alter_offsets(bootstrap, group, {(kept, 0): 3, (deleted, 0): 4})
    admin.delete_topics([deleted])[deleted].result(ANSWER_S)
    eventually(
        lambda: committed_offsets(bootstrap, group) == {(kept, 0): 3},
        expected="only the offset of the topic that is left",
    )
