"""Commits, fetches and deletions of offsets, of members, producers and admins."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    Beating,
    Partition,
    assign_at_once,
    commit,
    commit_errors,
    join_classic,
    join_consumer,
    join_request,
    leave_classic,
    leave_consumer,
    subscription,
)
from .transactions import Transactions, fetch, offsets

UNKNOWN_TOPIC_OR_PARTITION = 3
OFFSET_METADATA_TOO_LARGE = 12
ILLEGAL_GENERATION = 22
INVALID_GROUP_ID = 24
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86
STALE_MEMBER_EPOCH = 113
UNSTABLE = "error 88"


@pytest.mark.fact("H-80a", "H-80b")
@pytest.mark.parametrize(
    ("version", "code"),
    [
        (2, ILLEGAL_GENERATION),
        (8, ILLEGAL_GENERATION),
        (9, GROUP_ID_NOT_FOUND),
    ],
)
def test_a_member_cannot_commit_to_a_missing_group(
    wire: WireClient, group: str, topic: str, version: int, code: int
) -> None:
    zero = (topic, 0)
    errors = commit_errors(
        wire, group, {zero: 5}, member_id="m", epoch=1, version=version
    )
    assert errors == {zero: code}
    assert offsets(wire, group) == {}


@pytest.mark.fact("H-80c")
def test_a_commit_without_a_generation_makes_a_group(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 5})
    groups = wire.call(m.ListGroupsRequest(), 5).groups
    [found] = [each for each in groups if each.group_id == group]
    assert (found.protocol_type, found.group_state) == ("", "Empty")


@pytest.mark.fact("H-81")
def test_a_group_without_members_ignores_instance_ids(
    wire: WireClient, group: str, topic: str
) -> None:
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_metadata=""
    )
    request = m.OffsetCommitRequest(
        group_id=group,
        group_instance_id="pod-1",
        topics=[m.OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    for _ in range(2):
        [[answer]] = [each.partitions for each in wire.call(request, 9).topics]
        assert answer.error_code == 0
    assert offsets(wire, group) == {(topic, 0): 7}


@pytest.mark.fact("H-83")
def test_a_classic_group_with_members_refuses_commits_of_admins(
    wire: WireClient, group: str, topic: str
) -> None:
    join_classic(wire, group, topic)
    zero = (topic, 0)
    assert commit_errors(wire, group, {zero: 5}) == {zero: UNKNOWN_MEMBER_ID}
    assert offsets(wire, group) == {}


@pytest.mark.fact("H-84")
def test_a_member_cannot_commit_between_join_and_sync(
    wire: WireClient, group: str, topic: str
) -> None:
    joined = wire.call(join_request(group, topic), 3)
    assert joined.error_code == 0
    zero = (topic, 0)
    errors = commit_errors(
        wire, group, {zero: 5}, member_id=joined.member_id, epoch=joined.generation_id
    )
    assert errors == {zero: REBALANCE_IN_PROGRESS}


@pytest.mark.fact("H-87a", "H-87c", "H-87d", "H-89a", "H-89c")
def test_commits_to_a_consumer_group_need_its_members_epoch(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)
    zero = (topic, 0)
    newer: dict[str, Any] = {"member_id": member.id, "epoch": member.epoch + 1}
    stranger: dict[str, Any] = {"member_id": "m", "epoch": member.epoch}
    assert commit_errors(wire, group, {zero: 5}, **newer) == {zero: STALE_MEMBER_EPOCH}
    assert commit_errors(wire, group, {zero: 5}) == {zero: UNKNOWN_MEMBER_ID}
    producer = Transactions(wire, group)
    producer.begin(group)
    errors = producer.commit_errors(group, {zero: 5}, **newer)
    assert errors == {zero: ILLEGAL_GENERATION}
    errors = producer.commit_errors(group, {zero: 5}, **stranger)
    assert errors == {zero: UNKNOWN_MEMBER_ID}
    assert offsets(wire, group) == {}
    leave_consumer(wire, group, member.id)
    assert commit_errors(wire, group, {zero: 5}) == {zero: 0}
    assert offsets(wire, group) == {zero: 5}


@pytest.mark.fact("H-87b")
def test_a_classic_member_of_a_consumer_group_commits_with_its_generation(
    wire: WireClient, group: str, topic: str
) -> None:
    Beating(wire, group, topic)
    protocols = [m.JoinGroupRequestProtocol(name="range", metadata=subscription(topic))]
    joined = wire.call(join_request(group, topic, protocols=protocols), 3)
    assert joined.error_code == 0
    zero = (topic, 0)
    by: dict[str, Any] = {"member_id": joined.member_id, "version": 8}
    generation = joined.generation_id
    errors = commit_errors(wire, group, {zero: 5}, epoch=generation + 1, **by)
    assert errors == {zero: ILLEGAL_GENERATION}
    assert commit_errors(wire, group, {zero: 5}, epoch=generation, **by) == {zero: 0}


@pytest.mark.fact("H-88")
def test_long_metadata_refuses_its_own_partition(
    wire: WireClient, group: str, topic: str
) -> None:
    long, short = (
        m.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=index + 1,
            committed_metadata="x" * (4097 - index),
        )
        for index in range(2)
    )
    of_topic = m.OffsetCommitRequestTopic(name=topic, partitions=[long, short])
    request = m.OffsetCommitRequest(group_id=group, topics=[of_topic])
    [answered] = wire.call(request, 9).topics
    codes = {each.partition_index: each.error_code for each in answered.partitions}
    assert codes == {0: OFFSET_METADATA_TOO_LARGE, 1: 0}
    assert offsets(wire, group) == {(topic, 1): 2}


@pytest.mark.fact("H-89b")
def test_a_producer_with_a_generation_cannot_commit_to_a_missing_group(
    wire: WireClient, group: str, topic: str
) -> None:
    producer = Transactions(wire, group)
    producer.begin(group)
    zero = (topic, 0)
    errors = producer.commit_errors(group, {zero: 5}, member_id="m", epoch=1)
    assert errors == {zero: ILLEGAL_GENERATION}


@pytest.mark.fact("H-90")
def test_a_plain_commit_after_a_transactional_one_wins(
    wire: WireClient, group: str, topic: str
) -> None:
    producer = Transactions(wire, group)
    producer.commit(group, {(topic, 0): 5, (topic, 1): 6})
    commit(wire, group, {(topic, 0): 100})
    producer.end(commit=True)
    both = {(topic, 0): 100, (topic, 1): 6}
    eventually(lambda: offsets(wire, group) == both, expected="the marker")


@pytest.mark.fact("H-91", "H-98")
def test_a_tombstone_removes_the_offsets_of_all_open_transactions(
    wire: WireClient, group: str, topic: str
) -> None:
    producers = [Transactions(wire, f"{group}-{number}") for number in range(2)]
    for number, producer in enumerate(producers):
        producer.commit(group, {(topic, 0): 5 + number, (topic, 1): 7})
    assert delete(wire, group, (topic, 0)) == {(topic, 0): 0}
    for producer in producers:
        producer.end(commit=True)
    stable = {(topic, 1): 7}
    eventually(
        lambda: offsets(wire, group, stable=True) == stable, expected="both markers"
    )


@pytest.mark.fact("H-93a", "H-93b", "H-93c")
def test_a_stable_fetch_reports_pending_offsets(
    wire: WireClient, group: str, topic: str
) -> None:
    zero, one = (topic, 0), (topic, 1)
    commit(wire, group, {zero: 1})
    producer = Transactions(wire, group)
    producer.commit(group, {zero: 5, one: 6})
    both = {topic: [0, 1]}
    assert offsets(wire, group, stable=True) == {zero: UNSTABLE}
    assert offsets(wire, group, both, stable=True) == {zero: UNSTABLE, one: UNSTABLE}
    assert offsets(wire, group, both) == {zero: 1, one: -1}
    producer.end(commit=False)
    eventually(
        lambda: offsets(wire, group, both, stable=True) == {zero: 1, one: -1},
        expected="the marker",
    )


@pytest.mark.fact("H-94a", "H-94b")
def test_an_unknown_group_has_no_offsets(
    wire: WireClient, group: str, topic: str
) -> None:
    assert offsets(wire, group, {topic: [0, 99]}) == {(topic, 0): -1, (topic, 99): -1}
    answer = fetch(wire, group)
    assert (answer.error_code, answer.topics) == (0, [])


@pytest.mark.fact("H-95a", "H-95b")
@pytest.mark.parametrize("partitions", ["all", "none", "one"])
def test_a_fetch_of_a_member_needs_its_epoch(
    wire: WireClient, group: str, topic: str, partitions: str
) -> None:
    member = join_consumer(wire, group, topic)
    wanted = {"all": None, "none": {}, "one": {topic: [0]}}[partitions]

    def code(member_id: str, epoch: int) -> int:
        answer = fetch(wire, group, wanted, member_id=member_id, epoch=epoch)
        return answer.error_code

    assert code("", member.epoch) == UNKNOWN_MEMBER_ID
    assert code(member.id, member.epoch + 1) == STALE_MEMBER_EPOCH
    assert code(member.id, member.epoch) == 0


@pytest.mark.fact("H-97a", "H-97b")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_subscribed_topic_are_not_deleted(
    wire: WireClient, group: str, topic: str, protocol: str
) -> None:
    zero, missing = (topic, 0), (topic, 2)
    commit(wire, group, {zero: 5})
    if protocol == "classic":
        member_id = join_classic(wire, group, topic).id
    else:
        member_id = join_consumer(wire, group, topic).id
    codes = {zero: GROUP_SUBSCRIBED_TO_TOPIC, missing: UNKNOWN_TOPIC_OR_PARTITION}
    assert delete(wire, group, zero, missing) == codes
    assert offsets(wire, group) == {zero: 5}
    if protocol == "classic":
        leave_classic(wire, group, member_id)
    else:
        leave_consumer(wire, group, member_id)
    codes[zero] = 0
    assert delete(wire, group, zero, missing) == codes
    assert offsets(wire, group) == {}


@pytest.mark.fact("H-97c", "H-97d")
def test_offsets_of_an_unknown_group_are_not_deleted(
    wire: WireClient, group: str, topic: str
) -> None:
    assert delete(wire, group, (topic, 0)) == GROUP_ID_NOT_FOUND
    assert delete(wire, "", (topic, 0)) == INVALID_GROUP_ID


@pytest.mark.fact("H-100")
def test_the_deletion_of_a_topic_deletes_its_offsets(
    wire: WireClient, group: str, topic: str
) -> None:
    other = f"{group}-2"
    assign_at_once(wire, group)
    member = Beating(wire, group, topic).owning(2)
    mine: dict[str, Any] = {"member_id": member.id, "epoch": member.epoch}
    commit(wire, group, {(topic, 0): 5}, **mine)
    commit(wire, other, {(topic, 1): 6})
    producer = Transactions(wire, group)
    producer.commit(other, {(topic, 0): 7})
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=topic)], timeout_ms=30_000
    )
    [answer] = wire.call(request, 6).responses
    assert answer.error_code == 0
    for each in (group, other):
        eventually(
            lambda each=each: offsets(wire, each) == {},  # type: ignore[misc]
            expected=f"no offsets of {each}",
        )
    producer.end(commit=True)
    wanted = {topic: [0]}
    eventually(
        lambda: offsets(wire, other, wanted, stable=True) == {(topic, 0): -1},
        expected="no offset of the transaction",
    )


def delete(
    wire: WireClient, group: str, *partitions: Partition
) -> dict[Partition, int] | int:
    """Return the code of each partition of an OffsetDelete of one topic, or the code
    of the request."""
    [topic] = {name for name, _ in partitions}
    of_topic = m.OffsetDeleteRequestTopic(
        name=topic,
        partitions=[
            m.OffsetDeleteRequestPartition(partition_index=index)
            for _, index in partitions
        ],
    )
    answer = wire.call(m.OffsetDeleteRequest(group_id=group, topics=[of_topic]), 0)
    if answer.error_code:
        code: int = answer.error_code
        return code
    return {
        (each.name, partition.partition_index): partition.error_code
        for each in answer.topics
        for partition in each.partitions
    }
