"""The checks of OffsetCommit and TxnOffsetCommit, and what becomes of offsets (E17)."""

from __future__ import annotations

from typing import Any

import pytest

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
)
from .mixed_group import Group
from .producers import add_offsets, end_txn, new_producer, txn_commit
from .test_offset_fetch import fetch

ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
FENCED_INSTANCE_ID = 82

BY_NAME = range(2, 10)


def commit_error(wire: WireClient, group: str, topic: str, **fields: Any) -> int:
    """Commit an offset of partition 0; return its error code."""
    return commit_errors(wire, group, {(topic, 0): 5}, **fields)[topic, 0]


# Commits to consumer groups.


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


# Deletion of topics.
