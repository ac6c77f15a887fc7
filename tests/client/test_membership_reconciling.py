"""The order of revocations, assignments and their heartbeats."""

from __future__ import annotations

import pytest

from coterie.client.member_states import Assign, MemberState, Revoke
from tests.client.membership_script import NAMES, OTHER, MembershipScript, listed, owned


@pytest.mark.fact("E25-07a", "E25-07c")
def test_only_added_partitions_are_assigned_and_removed_ones_revoked() -> None:
    script = MembershipScript()
    script.joined(5, owned(0, 1, 2))
    script.sent_later()
    script.yes(6, owned(1, 2, 3))
    assert script.steps() == [Revoke(owned(0)), Assign(owned(3))]
    assert script.member.owned == owned(1, 2, 3)


@pytest.mark.fact("E7-81")
def test_heartbeats_continue_and_report_partitions_being_revoked() -> None:
    script = MembershipScript()
    script.joined(5, owned(0, 1))
    script.sent_later()
    script.yes(5, owned(0))
    assert script.member.begin() == Revoke(owned(1))
    assert script.wait_ms is not None
    assert script.wait_ms > 0
    assert script.sent_later().topic_partitions is None
    script.member.failed(script.now_ms)
    assert script.sent_later().topic_partitions == listed(owned(0, 1))
    script.yes(5, owned(0))
    assert script.member.state is MemberState.RECONCILING


@pytest.mark.fact("E7-78", "E7-81")
def test_a_completed_revocation_is_reported_immediately() -> None:
    script = MembershipScript()
    script.joined(5, owned(0, 1))
    script.sent_later()
    script.yes(5, owned(0))
    script.member.begin()
    assert not script.is_due
    script.member.finish()
    assert script.sent().topic_partitions == listed(owned(0))


@pytest.mark.fact("E7-78")
def test_a_revocation_is_reported_before_new_partitions_are_assigned() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(6, owned(1))
    assert script.member.begin() == Revoke(owned(0))
    script.member.finish()
    assert script.member.begin() == Assign(owned(1))
    assert script.sent().topic_partitions == listed(owned(1))
    script.yes(6)
    assert not script.is_due
    script.member.finish()
    assert script.sent().topic_partitions == listed(owned(1))


@pytest.mark.fact("E7-81")
def test_a_partition_is_owned_before_on_assigned_is_called() -> None:
    script = MembershipScript()
    script.joined(5, owned())
    script.sent_later()
    script.yes(6, owned(4))
    assert script.member.begin() == Assign(owned(4))
    assert script.member.owned == owned(4)
    assert not script.is_due
    script.now_ms += 60_000
    assert script.sent().topic_partitions == listed(owned(4))


def test_a_partition_unassigned_during_on_assigned_is_revoked_afterwards() -> None:
    script = MembershipScript()
    script.joined(5, owned())
    script.sent_later()
    script.yes(6, owned(4))
    script.member.begin()
    script.sent_later()
    script.yes(6, [])
    assert script.member.begin() is None
    script.member.finish()
    assert not script.is_due
    assert script.steps() == [Revoke(owned(4))]
    assert script.sent().topic_partitions == []


def test_a_partition_reassigned_during_on_revoked_is_assigned_again() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(5, [])
    assert script.member.begin() == Revoke(owned(0))
    script.sent_later()
    script.yes(6, owned(0))
    script.member.finish()
    assert script.steps() == [Assign(owned(0))]
    assert script.sent().topic_partitions == listed(owned(0))


@pytest.mark.fact("E7-82")
def test_partitions_of_an_unresolved_topic_are_not_reported() -> None:
    script = MembershipScript(names={})
    script.member.join()
    script.sent()
    script.yes(5, owned(0) | owned(1, topic=OTHER))
    assert script.member.unresolved == NAMES.keys()
    script.member.learn_names({OTHER: "others"})
    assert script.steps() == [Assign(owned(1, topic=OTHER))]
    assert script.sent().topic_partitions == listed(owned(1, topic=OTHER))
    assert script.member.state is MemberState.RECONCILING
    script.yes(5)
    script.member.learn_names(NAMES)
    assert not script.member.unresolved
    assert script.steps() == [Assign(owned(0))]
    assert script.sent().topic_partitions == listed([*owned(0), *owned(1, topic=OTHER)])
    assert script.member.state is MemberState.STABLE


def test_unused_topic_names_are_dropped() -> None:
    script = MembershipScript()
    script.joined(5, owned(0) | owned(1, topic=OTHER))
    script.names = {}
    script.sent_later()
    script.yes(6, owned(0))
    assert script.member.names.keys() == NAMES.keys()  # OTHER is not revoked yet
    script.steps()
    script.sent()
    script.yes(7, owned(0, 5))
    assert list(script.member.names.values()) == ["orders"]


def test_steps_run_one_at_a_time() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.yes(6, owned(1))
    script.member.begin()
    assert script.member.begin() is None
    script.member.finish()
    with pytest.raises(AssertionError, match="no step"):
        script.member.finish()
