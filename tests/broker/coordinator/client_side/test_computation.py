"""The client-side assignment of KIP-848 (E13)."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.client_side.computing import (
    COMPUTATION,
    ON,
    Computing,
    offer,
)
from tests.broker.coordinator.consumer.groups import received_assignment
from tests.broker.coordinator.requests import topic_id


@pytest.fixture
def driver() -> Computing:
    return Computing(settings=ON)


@pytest.fixture
def settled(driver: Computing) -> Computing:
    """A group in which member m installed an assignment of all of foo to itself."""
    driver.enter("m")
    driver.prepare("m")
    assert not driver.install("m", {"m": {"foo": range(6)}}).error
    driver.beat("m")
    return driver


@pytest.mark.fact("E13-01", "E13-02", "E4-02", "E12-01")
def test_a_joining_member_is_requested_to_compute_the_assignment(
    driver: Computing,
) -> None:
    sent = driver.enter("m")
    assert received_assignment(sent) == {}
    assert sent.response.should_compute_assignment
    assert sent.response.member_epoch == driver.group.assignment_epoch == 1
    assert driver.group.epoch == 2
    assert driver.group.state.value == "Assigning"


@pytest.mark.fact("E13-03", "E13-04")
def test_the_prepare_response_has_members_and_topics(driver: Computing) -> None:
    driver.enter("m", "foo", rack_id="r")
    driver.enter("n", "foo", "bar", offers=[offer(metadata_bytes=b"n's", reason=2)])
    answer = driver.prepare("m").response
    assert (answer.group_epoch, answer.assignor_name) == (3, "mine")
    first, n = answer.members
    assert (first.member_id, first.rack_id, first.member_epoch) == ("m", "r", 1)
    assert first.subscribed_topic_ids == [topic_id("foo")]
    assert (n.assignor.metadata_bytes, n.assignor.reason) == (b"n's", 2)
    topics = {each.topic_name: each.num_partitions for each in answer.topics}
    assert topics == {"foo": 6, "bar": 3}


@pytest.mark.fact("E13-05", "E13-06", "E13-42")
def test_the_installed_assignment_is_the_target(driver: Computing) -> None:
    driver.enter("m")
    driver.prepare("m")
    assert not driver.install("m", {"m": {"foo": [0, 1]}}).error
    assert driver.wrote_types == ["target", "target-epoch"]
    answer = driver.beat("m")
    assert received_assignment(answer) == {"foo": [0, 1]}
    assignment = answer.response.assignment
    assert (assignment.metadata_version, assignment.metadata_bytes) == (1, b"hello m")
    assert not answer.response.should_compute_assignment
    assert driver.group.state.value == "Stable"
    assert COMPUTATION not in driver.timers


@pytest.mark.fact("E13-42", "E13-09")
def test_an_installed_target_survives_a_restart(settled: Computing) -> None:
    settled.enter("n")
    loaded = Computing(settings=ON, shard=settled.reload().shard)
    assert group_records(loaded.group) == group_records(settled.group)
    assert loaded.group.computation is None
    assert loaded.beat("n").response.should_compute_assignment


@pytest.mark.fact("E13-07", "E3-03")
def test_installing_a_target_for_an_older_epoch_requests_another_computation(
    driver: Computing,
) -> None:
    driver.enter("m")
    driver.prepare("m")
    driver.enter("n")
    assert driver.group.epoch == 3
    assert not driver.install("m", {"m": {"foo": range(6)}}, epoch=2).error
    assert (driver.group.assignment_epoch, driver.group.epoch) == (2, 3)
    assert not driver.beat("n").response.should_compute_assignment
    again = driver.beat("m")
    assert received_assignment(again) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert again.response.should_compute_assignment


@pytest.mark.fact("E13-08", "E8-09", "E13-10", "E13-08a")
def test_a_member_that_exceeds_the_computation_timeout_is_skipped(
    driver: Computing,
) -> None:
    driver.enter("m")
    driver.enter("n")
    driver.prepare("m")
    assert driver.timers[COMPUTATION].fires_at_ms == driver.now_ms + 10_000
    driver.advance(10_001)
    assert not driver.beat("m").response.should_compute_assignment
    assert driver.beat("n").response.should_compute_assignment
    late = driver.install("m", {"m": {"foo": [0]}}, epoch=3)
    assert late.error == ErrorCode.UNKNOWN_MEMBER_ID
    assert "m" in driver.group.members
    driver.prepare("n")
    assert not driver.install("n", {"n": {"foo": [0]}}).error


def test_after_all_members_were_skipped_the_first_member_computes_again(
    driver: Computing,
) -> None:
    driver.enter("m")
    driver.advance(10_001)
    assert driver.beat("m").response.should_compute_assignment


@pytest.mark.fact("E13-11")
def test_an_assignor_error_is_reported_to_all_members(settled: Computing) -> None:
    settled.enter("n")
    settled.beat("m")
    chosen = settled.group.computation
    assert chosen is not None
    settled.prepare(chosen.member_id)
    assert not settled.install(chosen.member_id, {}, error=7).error
    for member_id in ("m", "n"):
        assignment = settled.beat(member_id).response.assignment
        assert assignment is not None
        assert assignment.error == 7
    assert settled.member("m").assigned[topic_id("foo")].keys() == set(range(6))


@pytest.mark.fact("E13-12", "E6-08", "E6-09")
@pytest.mark.parametrize(
    ("offers", "bumps"),
    [
        ([offer()], 0),
        ([offer(reason=1)], 1),
        ([offer(metadata_bytes=b"new")], 1),
        ([offer(), offer("other")], 1),
        ([offer(maximum_version=6)], 1),
    ],
)
def test_any_change_of_the_client_assignors_bumps_the_group_epoch_once(
    settled: Computing, offers: list[m.ClientAssignor], bumps: int
) -> None:
    before = settled.group.epoch
    settled.beat("m", client_assignors=offers)
    assert settled.group.epoch == before + bumps
    settled.beat("m", client_assignors=offers)
    assert settled.group.epoch == before + bumps


@pytest.mark.fact("E13-13", "E12-05a")
@pytest.mark.parametrize(
    "bad",
    [
        offer(minimum_version=6, maximum_version=8, metadata_version=7),
        offer(minimum_version=-2, maximum_version=-1, metadata_version=-1),
        offer(minimum_version=2, maximum_version=1),
        offer(metadata_version=9),
    ],
)
def test_an_assignor_without_a_common_version_is_unsupported(
    driver: Computing, bad: m.ClientAssignor
) -> None:
    driver.enter("m")
    assert driver.enter("n", offers=[bad]).error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "n" not in driver.group.members


def test_duplicate_client_assignor_names_are_refused(driver: Computing) -> None:
    for offers in ([offer(), offer()], [offer("")]):
        assert driver.enter("m", offers=offers).error == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("E12-01a")
def test_the_most_preferred_common_assignor_is_selected(driver: Computing) -> None:
    driver.enter("m", offers=[offer("a"), offer("b")])
    driver.enter("n", offers=[offer("b"), offer("a")])
    driver.enter("o", offers=[offer("b"), offer("c"), offer("a")])
    assert driver.prepare("m").response.assignor_name == "b"


@pytest.mark.fact("E12-01", "E12-02")
def test_the_server_assigns_when_a_member_has_no_client_assignors(
    settled: Computing,
) -> None:
    settled.join("n")
    assert settled.group.epoch == settled.group.assignment_epoch
    assert not settled.beat("m").response.should_compute_assignment
    settled.settled("m", "n")
    assert len(settled.member("n").assigned[topic_id("foo")]) == 3
    assert settled.beat("m", rack_id="r").response.assignment is None


def test_a_member_without_assignors_may_join_during_a_computation(
    driver: Computing,
) -> None:
    driver.enter("m")
    driver.prepare("m")
    driver.join("n")
    assert driver.group.computation is None
    late = driver.install("m", {"m": {"foo": [0]}}, epoch=2)
    assert late.error == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.fact("E13-41", "I-07")
def test_client_side_assignors_are_ignored_when_disabled() -> None:
    driver = Computing()
    sent = driver.enter("m")
    assert received_assignment(sent) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert not sent.response.should_compute_assignment
    assert driver.member("m").client_assignors == ()
    assert driver.prepare("m").error == ErrorCode.UNKNOWN_MEMBER_ID


# Preconditions of prepare and install requests.


@pytest.mark.fact("E13-34", "E13-08a")
def test_install_checks_follow_the_order_of_the_kip(driver: Computing) -> None:
    driver.enter("m")
    driver.enter("n")
    assert driver.prepare("m", group="x").error == ErrorCode.GROUP_ID_NOT_FOUND
    assert driver.prepare("x", 1).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.prepare("n", 5).error == ErrorCode.STALE_MEMBER_EPOCH
    assert driver.prepare("n").error == ErrorCode.UNKNOWN_MEMBER_ID
    for group, member, epoch in (("", "m", 1), ("g", "", 1), ("g", "m", -1)):
        assert driver.prepare(member, epoch, group).error == ErrorCode.INVALID_REQUEST
    unprepared = driver.install("m", {"m": {"foo": [0]}})
    assert unprepared.error == ErrorCode.INVALID_ASSIGNMENT
    driver.prepare("m")
    another = driver.install("m", {"m": {"foo": [0]}}, epoch=2)
    assert another.error == ErrorCode.INVALID_ASSIGNMENT


@pytest.mark.fact("E13-35")
def test_installing_ignores_members_that_left_and_assigns_nothing_to_new_members(
    driver: Computing,
) -> None:
    driver.enter("m")
    driver.enter("n")
    driver.prepare("m")
    driver.heartbeat("n", -1)
    driver.enter("o")
    plan = {"m": {"foo": [0]}, "n": {"foo": [1]}}
    assert not driver.install("m", plan, epoch=3).error
    assert driver.group.targets.keys() == {"m", "o"}
    assert not driver.group.target("o")
