"""Choice of the computing member when members join and leave (E13-08, E13-10)."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.member import Member
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.client_side.computing import (
    ON,
    Computing,
    offer,
)
from tests.broker.coordinator.requests import topic_id

ALL_OF_FOO = {"foo": range(6)}


@pytest.fixture
def driver() -> Computing:
    return Computing(settings=ON)


def computes(driver: Computing, who: str, **fields: Any) -> bool:
    """Return whether the response to a member's heartbeat requests a computation."""
    sent = driver.beat(who, **fields)
    assert not sent.error
    computes: bool = sent.response.should_compute_assignment
    return computes


@pytest.mark.fact("E13-34")
def test_a_computation_of_a_member_that_left_and_rejoined_is_refused(
    driver: Computing,
) -> None:
    driver.enter("m")
    handed_out = driver.prepare("m").response.group_epoch
    driver.heartbeat("m", -1)
    assert driver.enter("m").response.should_compute_assignment
    late = driver.install("m", {"m": ALL_OF_FOO}, epoch=handed_out)
    assert late.error == ErrorCode.INVALID_ASSIGNMENT
    assert not driver.wrote


def test_the_first_member_of_a_group_with_only_offsets_can_compute(
    driver: Computing,
) -> None:
    driver.commit({("foo", 0): 1}, generation_id_or_member_epoch=-1)
    assert driver.enter("m").response.should_compute_assignment
    assert not driver.prepare("m").error
    assert not driver.install("m", {"m": ALL_OF_FOO}).error
    assert not driver.state.classic_groups


def test_clearing_an_assignor_error_is_reported_without_new_partitions(
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


@pytest.mark.fact("E12-02")
def test_a_server_side_assignment_clears_the_assignor_error(driver: Computing) -> None:
    driver.enter("m")
    driver.prepare("m")
    assert not driver.install("m", {}, error=7).error
    driver.beat("m")
    answer = driver.beat("m", client_assignors=[]).response
    assert not answer.should_compute_assignment
    assert answer.assignment is not None
    assert answer.assignment.error == 0
    assert driver.member("m").assigned[topic_id("foo")].keys() == set(range(6))


def test_heartbeats_during_a_computation_do_not_scan_the_members(
    driver: Computing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(9):
        driver.enter(f"m{number}")

    def walk(draft: ConsumerDraft) -> dict[str, Member]:
        raise AssertionError("a heartbeat walks the members")

    monkeypatch.setattr(ConsumerDraft, "members", walk)
    computing = [f"m{n}" for n in range(9) if computes(driver, f"m{n}")]
    assert computing == ["m0"]
    assert not driver.enter("late").error
    assert driver.group.state.value == "Assigning"
    assert len(driver.group.offers) == 1
