"""Records that heartbeats write (E2, E7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.coordinator.record_serde import decode_record
from tests.broker.server.harness import WireClient

from .consumer_group import Members
from .log_records import end_of_log, records_of
from .members import join_classic, join_request, leave_classic

REPLACED = ["-8", "-7", "-5", "5", "7", "8"]


class Log:
    """A group whose test reads the records of one step after the other."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self._since = end_of_log(members.wire, members.group)
        self._records: list[tuple[str, Any]] = []

    def step(self) -> list[str]:
        """Return the types of the records since the last step; - is a tombstone.

        Tombstones of type 4 are left out: Kafka writes them for groups of older
        releases.
        """
        wire, group = self.members.wire, self.members.group
        now = end_of_log(wire, group)
        found = [] if now == self._since else records_of(wire, group, self._since)
        self._since = now
        self._records = []
        for key, value in found:
            kind = int.from_bytes(key[:2], "big")
            decoded = decode_record(key, value)
            if kind == 4 or decoded is None:
                continue
            sign = "" if value else "-"
            self._records.append((f"{sign}{kind}", decoded.value))
        return [word for word, _ in self._records]

    def value(self, kind: str) -> Any:
        """Return the value of the only record of a type in the last step."""
        [found] = [value for word, value in self._records if word == kind]
        return found

    def newest(self, kind: str) -> Any:
        """Return the value of the last record of a type in the last step."""
        return [value for word, value in self._records if word == kind][-1]


@pytest.fixture
def members(wire: WireClient, group: str, topic: str) -> Members:
    """A group without members, with a topic of two partitions."""
    return Members(wire, group, topic)


@pytest.fixture
def log(members: Members) -> Log:
    """The records of the group, from before its first member."""
    return Log(members)


@pytest.mark.fact(
    "E25-05", "E22-20", "E7-38", "E2-01", "E2-02", "E2-03", "E2-03a", "E2-04", "E2-07"
)
def test_a_join_writes_the_member_its_epoch_and_its_target(
    log: Log, topic: str, new_topic: Callable[[str, int], str]
) -> None:
    members = log.members
    other = members.add_topic(new_topic("a", 1))
    names = sorted([topic, other], reverse=True)
    members.join("m", *names, server_assignor="range", rebalance_timeout_ms=54_321)
    assert log.step() == ["5", "3", "7", "6", "8"]
    member = log.value("5")
    assert member.server_assignor == "range"
    assert member.rebalance_timeout_ms == 54_321
    assert member.subscribed_topic_names == names[::-1]
    both = {members.topic_ids[topic]: [0, 1], members.topic_ids[other]: [0]}
    target = log.value("7").topic_partitions
    assert {each.topic_id: sorted(each.partitions) for each in target} == both
    current = log.value("8")
    epochs = (current.member_epoch, current.previous_member_epoch, current.state)
    assert epochs == (members.epoch(1), 0, 0)
    owned = current.assigned_partitions
    assert {each.topic_id: sorted(each.partitions) for each in owned} == both
    assert current.partitions_pending_revocation == []


@pytest.mark.fact("E22-23", "E22-25", "E7-36", "E5-14")
def test_a_member_is_written_when_a_field_changed(log: Log, topic: str) -> None:
    members = log.members
    members.join("m", rack_id="r")
    log.step()
    members.beat("m", members.epoch(1))
    members.beat("m", members.epoch(1), rack_id="r", subscribed_topic_names=[topic])
    members.beat("m", members.epoch(1), owned={topic: [0, 1]})
    assert log.step() == []
    members.beat("m", members.epoch(1), rack_id="s")
    assert log.step() == ["5"]


@pytest.mark.fact("E7-40", "E7-40a")
def test_a_target_writes_the_members_whose_partitions_changed(log: Log) -> None:
    members = log.members
    members.join("m")
    members.join("n", "no-such-topic")
    log.step()
    members.join("n", "no-topic-either")
    assert log.step() == ["5", "3", "6", "8"]
    members.join("o")
    assert log.step() == ["5", "3", "7", "7", "6", "8"]


@pytest.mark.fact("E7-60b")
def test_a_leave_writes_tombstones_and_the_group_epoch(log: Log) -> None:
    members = log.members
    members.join("m")
    members.join("n")
    log.step()
    members.beat("n", -1)
    assert log.step() == ["-8", "-7", "-5", "3"]
    assert log.value("3").epoch == members.epoch(3)


@pytest.mark.fact("E3-10", "E2-03", "E2-03a")
def test_a_revocation_keeps_the_epoch_as_the_previous_one(log: Log, topic: str) -> None:
    members = log.members
    members.join("m")
    members.join("n")
    log.step()
    members.beat("m", members.epoch(1))
    assert log.step() == ["8"]
    current = log.value("8")
    epochs = (current.member_epoch, current.previous_member_epoch, current.state)
    assert epochs == (members.epoch(1), members.epoch(1), 1)
    [kept] = members.assignments["m"][topic]
    [pending] = current.partitions_pending_revocation
    assert pending.partitions == [1 - kept]


@pytest.mark.fact("E22-28", "E7-63", "E7-63d", "E9-05", "E9-05a")
def test_a_static_member_leaves_and_is_replaced(log: Log) -> None:
    members = log.members
    members.join("m", instance_id="i")
    log.step()
    members.beat("m", -2, instance_id="i")
    assert log.step() == ["8"]
    left = log.value("8")
    assert (left.member_epoch, left.previous_member_epoch) == (-2, 0)
    assert left.partitions_pending_revocation == []
    [owned] = left.assigned_partitions
    assert owned.assignment_epochs == [0, 0]
    members.join("m2", instance_id="i")
    assert log.step()[:6] == REPLACED


@pytest.mark.fact("E2-02a")
def test_a_classic_member_is_written_with_its_protocols(log: Log, topic: str) -> None:
    members = log.members
    members.join("m")
    log.step()
    join_classic(members.wire, members.group, topic)
    assert log.step()[:2] == ["5", "3"]
    classic = log.value("5").classic_member_metadata
    assert classic.session_timeout_ms == 30_000
    assert [each.name for each in classic.supported_protocols] == ["range"]


@pytest.mark.fact("E22-26", "E22-33")
def test_an_emptied_group_has_an_empty_target_of_its_epoch(log: Log) -> None:
    members = log.members
    members.join("m")
    log.step()
    members.beat("m", -1)
    assert log.step() == ["-8", "-7", "-5", "3", "6"]
    assert log.value("6").assignment_timestamp == 0
    left = members.describe()
    assert left.group_epoch == left.assignment_epoch == members.epoch(2)


@pytest.mark.fact("E22-32a", "E22-32b", "E22-32c")
def test_a_classic_group_is_written_when_it_is_stable_or_empty(
    wire: WireClient, log: Log, group: str, topic: str
) -> None:
    static = {"group_instance_id": "i"}
    member = join_classic(wire, group, topic, assignment=b"abc", **static)
    assert log.step()[-1] == "2"
    [written] = log.newest("2").members
    assert (written.member_id, written.assignment) == (member.id, b"abc")
    returned = wire.call(join_request(group, topic, **static), 9)
    assert returned.generation_id == member.generation
    assert log.step() == ["2"]
    [written] = log.value("2").members
    assert (written.member_id, written.assignment) == (returned.member_id, b"abc")
    leave_classic(wire, group, returned.member_id)
    assert log.step() == ["2"]
    assert log.value("2").members == []
