"""The checks of OffsetCommit and TxnOffsetCommit, and what becomes of offsets (E17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .conftest import Connect
from .members import (
    commit,
    commit_errors,
    describe_classic,
    join_classic,
    join_consumer,
    join_request,
    leave_classic,
    leave_consumer,
)
from .mixed_group import Group
from .producers import add_offsets, end_txn, new_producer, txn_commit
from .test_offset_delete import delete as delete_offsets
from .test_offset_fetch import fetch

OFFSET_METADATA_TOO_LARGE = 12
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
UNSUPPORTED_VERSION = 35
GROUP_ID_NOT_FOUND = 69
FENCED_INSTANCE_ID = 82
STALE_MEMBER_EPOCH = 113

BY_NAME = range(2, 10)


def commit_error(wire: WireClient, group: str, topic: str, **fields: Any) -> int:
    """Commit an offset of partition 0; return its error code."""
    return commit_errors(wire, group, {(topic, 0): 5}, **fields)[topic, 0]


# Commits to consumer groups.


@pytest.mark.fact("E17-02a", "E17-03", "E17-04")
def test_a_member_of_a_consumer_group_commits_with_its_epoch(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)

    def error(member_id: str, epoch: int, version: int = 9) -> int:
        return commit_error(
            wire, group, topic, member_id=member_id, epoch=epoch, version=version
        )

    assert error(member.id, member.epoch) == 0
    assert error(member.id, member.epoch + 1) == STALE_MEMBER_EPOCH
    for version in BY_NAME:
        assert error("", -1, version) == UNKNOWN_MEMBER_ID
        assert error("nobody", member.epoch, version) == UNKNOWN_MEMBER_ID
        code = 0 if version >= 9 else UNSUPPORTED_VERSION
        assert error(member.id, member.epoch, version) == code


@pytest.mark.fact("E17-02")
@pytest.mark.parametrize("version", BY_NAME)
def test_a_consumer_group_without_members_accepts_commits_without_an_epoch(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    member = join_consumer(wire, group, topic)
    leave_consumer(wire, group, member.id)
    for member_id in ("", "nobody"):
        fields: dict[str, Any] = {"member_id": member_id, "version": version}
        assert commit_error(wire, group, topic, **fields) == 0
        code = commit_error(wire, group, topic, epoch=0, **fields)
        assert code == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-04a")
def test_a_classic_member_of_a_consumer_group_commits_with_its_generation(
    wire: WireClient, group: str, topic: str
) -> None:
    here = Group(wire, group, topic)
    here.consumer()
    joined = here.join(group_instance_id="c")
    assert here.commit(joined.member_id, joined.generation_id) == 0
    code = here.commit(joined.member_id, joined.generation_id + 1)
    assert code == ILLEGAL_GENERATION


# Commits to unknown groups.


@pytest.mark.fact("E17-06")
def test_a_commit_without_a_generation_creates_a_simple_group(
    wire: WireClient, group: str, topic: str
) -> None:
    assert commit_error(wire, group, topic) == 0
    described = describe_classic(wire, group)
    assert (described.error_code, described.group_state) == (0, "Empty")
    assert described.protocol_type == ""


@pytest.mark.fact("E17-06a")
@pytest.mark.parametrize("version", BY_NAME)
def test_a_generation_of_an_unknown_group_is_refused(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    code = commit_error(wire, group, topic, epoch=0, version=version)
    assert code == (GROUP_ID_NOT_FOUND if version >= 9 else ILLEGAL_GENERATION)
    assert describe_classic(wire, group).error_code == GROUP_ID_NOT_FOUND


# Commits to classic groups.


@pytest.mark.fact("E17-12", "E17-12b", "E17-12d")
@pytest.mark.parametrize("version", BY_NAME)
def test_a_member_of_a_classic_group_commits_in_its_generation(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    member = join_classic(wire, group, topic)

    def error(member_id: str, generation: int) -> int:
        return commit_error(
            wire, group, topic, member_id=member_id, epoch=generation, version=version
        )

    assert error(member.id, member.generation) == 0
    assert error(member.id, member.generation + 1) == ILLEGAL_GENERATION
    assert error(member.id, -1) == ILLEGAL_GENERATION
    assert error("nobody", member.generation + 1) == UNKNOWN_MEMBER_ID
    assert error("nobody", -1) == UNKNOWN_MEMBER_ID
    assert error("", -1) == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-12a")
@pytest.mark.parametrize("version", BY_NAME)
def test_an_empty_classic_group_accepts_commits_without_a_generation(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    member = join_classic(wire, group, topic)
    leave_classic(wire, group, member.id)
    for member_id in ("", "nobody"):
        fields: dict[str, Any] = {"member_id": member_id, "version": version}
        assert commit_error(wire, group, topic, **fields) == 0
        code = commit_error(wire, group, topic, epoch=1, **fields)
        assert code == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-12c")
def test_a_commit_with_the_instance_id_of_another_member_is_fenced(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_classic(wire, group, topic, group_instance_id="i")
    here = Group(wire, group, topic)
    assert here.commit(member.id, member.generation, "i") == 0
    assert here.commit("nobody", member.generation, "i") == FENCED_INSTANCE_ID
    assert here.commit(member.id, member.generation, "j") == UNKNOWN_MEMBER_ID


@pytest.mark.fact("E17-11")
def test_a_commit_between_join_and_sync_is_refused(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_classic(wire, group, topic)
    joined = wire.call(join_request(group, topic, member_id=member.id), 9)
    assert joined.generation_id == member.generation + 1
    assert describe_classic(wire, group).group_state == "CompletingRebalance"
    code = commit_error(
        wire, group, topic, member_id=member.id, epoch=joined.generation_id
    )
    assert code == REBALANCE_IN_PROGRESS


@pytest.mark.fact("E17-11a")
def test_a_commit_is_accepted_while_members_rejoin(
    connect: Connect, group: str, topic: str
) -> None:
    wire, waiting = connect(), connect()
    member = join_classic(wire, group, topic)
    waiting.send(join_request(group, topic), 3)
    eventually(
        lambda: describe_classic(wire, group).group_state == "PreparingRebalance",
        expected="a rebalance",
    )
    fields: dict[str, Any] = {"member_id": member.id}
    code = commit_error(wire, group, topic, epoch=member.generation, **fields)
    assert code == 0
    code = commit_error(wire, group, topic, epoch=member.generation + 1, **fields)
    assert code == ILLEGAL_GENERATION


# Metadata.


@pytest.mark.fact("E17-07")
def test_too_long_metadata_refuses_its_partition_alone(
    wire: WireClient, group: str, topic: str
) -> None:
    partitions = [
        m.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=5, committed_metadata="m" * length
        )
        for index, length in ((0, 4097), (1, 4096))
    ]
    asked = m.OffsetCommitRequestTopic(name=topic, partitions=partitions)
    request = m.OffsetCommitRequest(group_id=group, member_id="", topics=[asked])
    [answered] = wire.call(request, 9).topics
    codes = {each.partition_index: each.error_code for each in answered.partitions}
    assert codes == {0: OFFSET_METADATA_TOO_LARGE, 1: 0}
    assert fetch(wire, group, None) == (0, {(topic, 1): (5, 0)})


# Transactions.


@pytest.mark.fact("E17-12e", "E17-12f", "E17-15b")
def test_a_transactional_commit_checks_the_member_but_not_the_state(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_classic(wire, group, topic)
    joined = wire.call(join_request(group, topic, member_id=member.id), 9)
    assert describe_classic(wire, group).group_state == "CompletingRebalance"
    producer = new_producer(wire, group)

    def code(**fields: Any) -> int:
        [(_, [(_, error)])] = txn_commit(
            wire, producer, group, [(topic, {0: 5})], **fields
        )
        return error

    assert code() == 0
    of_member: dict[str, Any] = {"member_id": member.id}
    generation = joined.generation_id
    assert code(generation_id_or_member_epoch=generation, **of_member) == 0
    error = code(generation_id_or_member_epoch=generation - 1, **of_member)
    assert error == ILLEGAL_GENERATION
    assert code(generation_id_or_member_epoch=generation, member_id="x") == (
        UNKNOWN_MEMBER_ID
    )
    end_txn(wire, producer, commit=False)


@pytest.mark.fact("E17-12e", "E17-15a", "E17-15b")
@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_transactional_commit_to_a_consumer_group_checks_the_epoch(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    member = join_consumer(wire, group, topic)
    producer = new_producer(wire, group)
    assert add_offsets(wire, producer, group) == 0

    def code(member_id: str, epoch: int) -> int:
        fields = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
        [(_, [(_, error)])] = txn_commit(
            wire, producer, group, [(topic, {0: 5})], version=version, **fields
        )
        return error

    assert code("", -1) == 0
    assert code(member.id, member.epoch) == 0
    assert code(member.id, member.epoch + 1) == ILLEGAL_GENERATION
    assert code(member.id, member.epoch - 1) == ILLEGAL_GENERATION
    assert code("nobody", member.epoch) == UNKNOWN_MEMBER_ID
    end_txn(wire, producer, commit=False)


@pytest.mark.fact("E17-16", "E17-16a", "E17-16b")
def test_offsets_of_a_transaction_are_pending_until_its_end(
    wire: WireClient, group: str, topic: str
) -> None:
    def offsets() -> Any:
        error, found = fetch(wire, group, None)
        return error, {name[1]: offset for name, (offset, _) in found.items()}

    commit(wire, group, {(topic, 0): 1})
    producer = new_producer(wire, group)
    assert txn_commit(wire, producer, group, [(topic, {0: 5, 1: 6})])
    assert offsets() == (0, {0: 1})
    ended = end_txn(wire, producer, commit=False)
    producer = new_producer(wire, group)  # once the abort is complete
    assert ended.error_code == 0
    assert offsets() == (0, {0: 1})
    assert txn_commit(wire, producer, group, [(topic, {0: 7, 1: 8})])
    commit(wire, group, {(topic, 1): 2})  # written after that of the transaction
    assert end_txn(wire, producer, commit=True).error_code == 0
    new_producer(wire, group)
    assert offsets() == (0, {0: 7, 1: 2})


@pytest.mark.fact("E17-17")
def test_a_deletion_removes_the_pending_offsets_of_a_partition(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 1})
    producer, other = new_producer(wire, group), new_producer(wire, f"{group}-2")
    assert txn_commit(wire, producer, group, [(topic, {0: 5, 1: 6})])
    assert txn_commit(wire, other, group, [(topic, {0: 7})])
    delete_offsets(wire, group, (topic, 0))
    for each in (producer, other):
        assert end_txn(wire, each, commit=True).error_code == 0
        new_producer(wire, each.transactional_id)
    assert fetch(wire, group, None) == (0, {(topic, 1): (6, 0)})


# Deletion of topics.


@pytest.mark.fact("E17-21")
def test_a_deleted_topic_has_no_offsets(
    wire: WireClient, group: str, new_topic: Callable[[str, int], str]
) -> None:
    kept, deleted = new_topic("kept", 1), new_topic("deleted", 1)
    groups = [group, f"{group}-2"]
    for each in groups:
        commit(wire, each, {(kept, 0): 1, (deleted, 0): 2})
    request = m.DeleteTopicsRequest(
        topics=[m.DeleteTopicState(name=deleted)], timeout_ms=10_000
    )
    [answer] = wire.call(request, 6).responses
    assert answer.error_code == 0

    def others() -> list[Any]:
        return [fetch(wire, each, None) for each in groups]

    eventually(
        lambda: others() == [(0, {(kept, 0): (1, 0)})] * 2,
        expected="no offset of the deleted topic",
    )
