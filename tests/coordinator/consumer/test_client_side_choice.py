"""Who computes, when members come and go, and what that costs (E13-08, E13-10)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.member import Member
from coterie.wire.error_codes import ErrorCode
from tests.coordinator.consumer.computing import COMPUTATION, ON, Computing, offer
from tests.coordinator.consumer.groups import told, topic_id

ALL_OF_FOO = {"foo": range(6)}


@pytest.fixture
def driver() -> Computing:
    return Computing(settings=ON)


def computes(driver: Computing, who: str, **said: Any) -> bool:
    """Whether a heartbeat of a member is answered that it is to compute."""
    sent = driver.beat(who, **said)
    assert not sent.error
    computes: bool = sent.response.should_compute_assignment
    return computes


@pytest.mark.fact("E13-08", "E13-34")
def test_what_was_handed_to_a_member_that_left_is_nothing_when_it_is_back(
    driver: Computing,
) -> None:
    driver.enter("m")
    handed_out = driver.prepare("m").response.group_epoch
    driver.heartbeat("m", -1)
    assert driver.group.assignment_epoch > handed_out
    assert driver.enter("m").response.should_compute_assignment
    late = driver.install("m", {"m": ALL_OF_FOO}, epoch=handed_out)
    assert late.error == ErrorCode.INVALID_ASSIGNMENT
    assert not driver.wrote


@pytest.mark.fact("E13-08", "E13-10")
@pytest.mark.parametrize("how", ["leaves", "is not heard of"])
def test_who_is_gone_has_no_time_to_compute_any_more(
    driver: Computing, how: str
) -> None:
    driver.enter("m", rebalance_timeout_ms=1_000_000)
    driver.enter("n")
    assert COMPUTATION in driver.timers
    if how == "leaves":
        driver.heartbeat("m", -1)
    else:
        driver.advance(30_000)
        driver.beat("n")
        driver.advance(30_000)
    assert driver.group.members.keys() == {"n"}
    assert COMPUTATION not in driver.timers
    assert computes(driver, "n")


@pytest.mark.fact("E13-10")
def test_another_one_computes_while_a_static_member_is_away(driver: Computing) -> None:
    driver.enter("m", instance_id="i")
    driver.enter("n")
    driver.heartbeat("m", -2, instance_id="i")
    assert computes(driver, "n")
    driver.advance(10_001)
    assert computes(driver, "n"), "nobody else can be told"


@pytest.mark.fact("E9-14", "E13-42")
def test_who_takes_a_static_members_place_is_told_what_it_was_told(
    driver: Computing,
) -> None:
    driver.enter("m", instance_id="i")
    driver.prepare("m")
    assert not driver.install("m", {"m": ALL_OF_FOO}).error
    driver.beat("m", instance_id="i")
    driver.heartbeat("m", -2, instance_id="i")
    back = driver.enter("m2", instance_id="i")
    assert told(back) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert back.response.assignment.metadata_bytes == b"hello m"
    assert not back.response.should_compute_assignment


def test_in_a_group_that_has_only_offsets_the_first_member_can_compute(
    driver: Computing,
) -> None:
    driver.commit({("foo", 0): 1}, generation_id_or_member_epoch=-1)
    assert driver.enter("m").response.should_compute_assignment
    assert not driver.prepare("m").error
    assert not driver.install("m", {"m": ALL_OF_FOO}).error
    assert not driver.state.classic_groups


@pytest.mark.fact("E13-11")
def test_that_an_error_is_over_is_told_though_no_partition_moves(
    driver: Computing,
) -> None:
    driver.enter("m")
    driver.prepare("m")
    assert not driver.install("m", {}, error=7).error
    assert driver.beat("m").response.assignment.error == 7
    assert computes(driver, "m", client_assignors=[offer(reason=1)])
    driver.prepare("m")
    assert not driver.install("m", {}).error
    assignment = driver.beat("m").response.assignment
    assert assignment is not None
    assert (assignment.error, assignment.metadata_bytes) == (0, b"")


@pytest.mark.fact("E13-11", "E12-02")
def test_an_error_is_over_when_the_server_assigns(driver: Computing) -> None:
    driver.enter("m")
    driver.prepare("m")
    assert not driver.install("m", {}, error=7).error
    driver.beat("m")
    answer = driver.beat("m", client_assignors=[]).response
    assert not answer.should_compute_assignment
    assert answer.assignment is not None
    assert answer.assignment.error == 0
    assert driver.member("m").assigned[topic_id("foo")].keys() == set(range(6))


def test_while_a_member_computes_heartbeats_look_at_no_others(
    driver: Computing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        driver.enter(f"m{number}")

    def walk(draft: Draft) -> dict[str, Member]:
        raise AssertionError("a heartbeat walks the members")

    monkeypatch.setattr(Draft, "members", walk)
    told_to = [f"m{n}" for n in range(9) if computes(driver, f"m{n}")]
    assert told_to == ["m0"]
    assert not driver.enter("late").error
    assert driver.group.state.value == "Assigning"
    assert len(driver.group.offers) == 1
