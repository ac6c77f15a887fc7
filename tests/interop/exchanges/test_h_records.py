"""The records that requests to groups write to `__consumer_offsets`."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import decode_record
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .log_records import Position, end_of_log, records_of
from .members import (
    Beating,
    assign_at_once,
    commit,
    join_classic,
    join_request,
    leave_classic,
    leave_consumer,
)

FIRST_JOIN = ["5", "3", "7", "6", "8"]
"""Member, group epoch, its target, epoch of the target, its assignment."""
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2


class Written:
    """The records of a group since an offset of its log partition."""

    def __init__(self, wire: WireClient, group: str, since: Position) -> None:
        self.records = [
            (int.from_bytes(key[:2], "big"), decode_record(key, value))
            for key, value in records_of(wire, group, since)
        ]

    @property
    def types(self) -> list[str]:
        """The types of the records, with a dash for a tombstone.

        Tombstones of type 4 are left out: Kafka writes them for groups of older
        releases, and Coterie has no such record.
        """
        return [
            str(kind) if record and record.value else f"-{kind}"
            for kind, record in self.records
            if kind != 4
        ]

    def values(self, wanted: int) -> list[Any]:
        """Return the values of the records of a type."""
        return [each.value for kind, each in self.records if each and kind == wanted]


@pytest.fixture
def since(wire: WireClient, group: str) -> Position:
    """The end of the group's log partition before the test."""
    assign_at_once(wire, group)
    return end_of_log(wire, group)


@pytest.fixture
def first(wire: WireClient, group: str, topic: str) -> Beating:
    """The first member of a group; it has both partitions of the topic."""
    assign_at_once(wire, f"{group}-2")
    Beating(wire, f"{group}-2", topic).owning(2)  # the coordinator knows the topic
    assign_at_once(wire, group)
    return Beating(wire, group, topic).owning(2)


@pytest.mark.fact("E22-01a", "E22-01b", "H-20", "K-01a")
def test_the_first_join_writes_the_group(
    wire: WireClient, group: str, since: Position, first: Beating
) -> None:
    written = Written(wire, group, since)
    assert written.types[:5] == FIRST_JOIN
    [epoch, *_] = written.values(3)
    [target, *_] = written.values(6)
    [current, *_] = written.values(8)
    assert epoch.epoch == target.assignment_epoch == current.member_epoch
    assert (current.previous_member_epoch, current.state) == (0, STABLE)


@pytest.mark.fact("E22-21a", "E22-21b", "H-22", "H-32", "K-06a")
def test_a_join_writes_the_targets_that_changed(
    wire: WireClient, group: str, topic: str, first: Beating
) -> None:
    before = end_of_log(wire, group)
    second = Beating(wire, group, topic)
    assert Written(wire, group, before).types == ["5", "3", "7", "7", "6", "8"]
    [waiting] = Written(wire, group, before).values(8)
    assert (waiting.state, waiting.assigned_partitions) == (UNRELEASED, [])
    before = end_of_log(wire, group)
    first.beat()
    [revoking] = Written(wire, group, before).values(8)
    assert revoking.state == UNREVOKED
    [pending] = revoking.partitions_pending_revocation
    assert len(pending.partitions) == 1
    first.report()
    second.beat()
    before = end_of_log(wire, group)
    Beating(wire, group, topic)  # it gets no partition
    written = Written(wire, group, before)
    assert written.types == ["5", "3", "7", "6", "8"]
    assert [value.topic_partitions for value in written.values(7)] == [[]]


@pytest.mark.fact("E22-26", "E22-02", "H-23", "H-33", "K-06c")
def test_a_leave_deletes_the_records_of_the_member(
    wire: WireClient, group: str, topic: str, first: Beating
) -> None:
    second = Beating(wire, group, topic)
    before = end_of_log(wire, group)
    leave_consumer(wire, group, second.id)
    written = Written(wire, group, before)
    assert written.types == ["-8", "-7", "-5", "3"]
    assert [value.epoch for value in written.values(3)] == [second.epoch + 1]
    before = end_of_log(wire, group)
    first.beat()
    assert Written(wire, group, before).types == ["7", "6", "8"]


@pytest.mark.fact("E22-27", "H-73b", "K-06b")
def test_a_temporary_leave_writes_one_record(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    member = Beating(wire, group, topic, instance_id="i").owning(2)
    before = end_of_log(wire, group)
    member.beat(epoch=-2)
    written = Written(wire, group, before)
    assert written.types == ["8"]
    assert [value.member_epoch for value in written.values(8)] == [-2]


@pytest.mark.fact("H-85a", "H-85b", "K-09b", "K-11b")
def test_a_commit_with_a_retention_time_has_version_1(
    wire: WireClient, group: str, topic: str, since: Position
) -> None:
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=5, committed_metadata=""
    )
    of_topic = m.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    request = m.OffsetCommitRequest(
        group_id=group, retention_time_ms=1234, topics=[of_topic]
    )
    [[answer]] = [each.partitions for each in wire.call(request, 4).topics]
    assert answer.error_code == 0
    commit(wire, group, {(topic, 1): 6})
    written = Written(wire, group, since)
    assert written.types == ["1", "1"]
    (_, expiring), (_, usual) = written.records
    assert expiring is not None
    assert usual is not None
    values: list[Any] = [expiring.value, usual.value]
    assert (expiring.value_version, usual.value_version) == (1, 4)
    assert values[0].expire_timestamp == values[0].commit_timestamp + 1234
    assert values[1].expire_timestamp == -1


@pytest.mark.fact("H-131", "K-07b", "K-07c")
def test_an_empty_classic_group_is_replaced(
    wire: WireClient, group: str, topic: str, since: Position
) -> None:
    member = join_classic(wire, group, topic)
    leave_classic(wire, group, member.id)
    assert set(Written(wire, group, since).types) == {"2"}
    before = end_of_log(wire, group)
    Beating(wire, group, topic)
    assert Written(wire, group, before).types[:6] == ["-2", *FIRST_JOIN]


@pytest.mark.fact("E22-29b", "K-07d")
def test_a_downgrade_deletes_the_consumer_group(
    wire: WireClient, group: str, topic: str, first: Beating
) -> None:
    assert wire.call(join_request(group, topic), 3).error_code == 0
    before = end_of_log(wire, group)
    leave_consumer(wire, group, first.id)
    types = Written(wire, group, before).types
    assert types == ["-8", "-8", "-7", "-7", "-6", "-5", "-5", "-3", "2"]
