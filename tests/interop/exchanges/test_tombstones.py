"""The tombstones of deleted offsets and groups, read from `__consumer_offsets`."""

from __future__ import annotations

import struct

import pytest

from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .log_records import Position, end_of_log, records_of
from .members import commit, join_consumer, leave_consumer
from .producers import add_offsets, end_txn, new_producer, txn_commit
from .test_delete_groups import delete as delete_group
from .test_offset_delete import delete as delete_offsets

OFFSET, CLASSIC_GROUP, CONSUMER_GROUP = 1, 2, 3


def types_of(
    wire: WireClient, group: str, since: Position, count: int
) -> list[tuple[int, bool]]:
    """Wait for records of a group; return the type of each, and whether it has a
    value."""

    def found() -> list[tuple[int, bool]]:
        records = records_of(wire, group, since)
        return [
            (struct.unpack_from(">h", key)[0], value is not None)
            for key, value in records
        ]

    eventually(lambda: len(found()) >= count, expected=f"{count} records of {group}")
    return found()


@pytest.mark.fact("B-16a", "B-16b")
@pytest.mark.parametrize("suffix", ["", "-\N{GRINNING FACE}", "-\N{SNOWMAN}", "-zz"])
def test_a_group_is_in_the_partition_of_its_hash(
    wire: WireClient, group: str, topic: str, suffix: str
) -> None:
    name = group + suffix
    since = end_of_log(wire, name)  # by `partition_for`
    commit(wire, name, {(topic, 0): 7})
    assert types_of(wire, name, since, 1) == [(OFFSET, True)]


@pytest.mark.fact("D-15a", "D-12")
def test_tombstones_of_offsets_precede_those_of_the_group(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 7, (topic, 1): 8})
    since = end_of_log(wire, group)
    assert delete_group(wire, group) == [(group, 0)]
    assert types_of(wire, group, since, 3) == [
        (OFFSET, False),
        (OFFSET, False),
        (CLASSIC_GROUP, False),
    ]


@pytest.mark.fact("E22-29a", "D-15a")
def test_a_deleted_consumer_group_ends_with_its_own_tombstones(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)
    offsets = {(topic, 0): 7}
    commit(wire, group, offsets, member_id=member.id, epoch=member.epoch)
    assert leave_consumer(wire, group, member.id).error_code == 0
    since = end_of_log(wire, group)
    assert delete_group(wire, group) == [(group, 0)]
    found = types_of(wire, group, since, 3)
    assert found[0] == (OFFSET, False)
    assert found[-1] == (CONSUMER_GROUP, False)
    assert {has_value for _, has_value in found} == {False}


@pytest.mark.fact("D-15b", "D-55")
@pytest.mark.parametrize("deletes", ["group", "offsets"])
def test_pending_offsets_get_one_tombstone(
    wire: WireClient, group: str, topic: str, deletes: str
) -> None:
    commit(wire, group, {(topic, 0): 7})
    producer = new_producer(wire, f"tx-{group}", version=4)
    assert add_offsets(wire, producer, group, version=3) == 0
    pending = [(topic, {0: 17, 1: 18})]
    committed = txn_commit(wire, producer, group, pending, version=3)
    assert committed == [(topic, [(0, 0), (1, 0)])]
    since = end_of_log(wire, group)
    if deletes == "group":
        assert delete_group(wire, group) == [(group, 0)]
    else:
        done = {(topic, 0): 0, (topic, 1): 0}
        assert delete_offsets(wire, group, *done) == (0, done)
    found = types_of(wire, group, since, 2)
    assert found.count((OFFSET, False)) == 2
    assert end_txn(wire, producer, commit=False, version=3).error_code == 0


@pytest.mark.fact("D-54b")
def test_a_partition_without_an_offset_gets_no_tombstone(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 7})
    since = end_of_log(wire, group)
    done = {(topic, 1): 0, (topic, 0): 0}
    assert delete_offsets(wire, group, *done) == (0, done)
    assert types_of(wire, group, since, 1) == [(OFFSET, False)]
