"""ConsumerGroupHeartbeat: joins, epochs, records and responses."""

from __future__ import annotations

import pytest

from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.consumer.groups import (
    GroupDriver,
    received_assignment,
)


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


@pytest.mark.fact("H-20", "E22-20", "E6-01", "E3-01", "E3-02", "E7-38")
def test_the_first_join_creates_the_group(driver: GroupDriver) -> None:
    sent = driver.join("m", ["foo", "bar"])
    assert received_assignment(sent) == {"foo": [0, 1, 2, 3, 4, 5], "bar": [0, 1, 2]}
    assert sent.response.member_epoch == 1
    words = ["member", "epoch", "target", "target-epoch", "current"]
    assert driver.wrote_types == words
    assert (driver.member().epoch, driver.member().previous_epoch) == (1, 0)
    assert driver.group.state.value == "Stable"


@pytest.mark.fact("H-03a", "H-03b", "E7-25", "E10-02", "E10-04", "E11-04a")
def test_a_member_without_an_id_gets_one(driver: GroupDriver) -> None:
    sent = driver.join("", ["nowhere"], version=0)
    assert received_assignment(sent) == {}
    assert len(sent.response.member_id) == 22
    assert sent.response.member_id in driver.group.members


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 300, "/é"])
def test_any_name_may_be_subscribed(driver: GroupDriver, name: str) -> None:
    sent = driver.join("m", ["foo", name, name])
    assert received_assignment(sent) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert driver.heartbeat("m", -1).error == ErrorCode.NONE
    assert not driver.group.members


@pytest.mark.fact("E7-15", "E10-02a")
def test_from_version_1_the_member_generates_its_id(driver: GroupDriver) -> None:
    assert driver.join("", version=1).error == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("H-08b", "H-08c", "E22-25", "E7-50a")
def test_the_assignment_is_returned_when_changed_or_requested(
    driver: GroupDriver,
) -> None:
    everything = {"foo": [0, 1, 2, 3, 4, 5]}
    assert received_assignment(driver.join("m")) == everything
    assert received_assignment(driver.heartbeat("m", 1)) is None
    assert not driver.wrote
    full = driver.heartbeat(
        "m",
        1,
        owned=everything,
        subscribed_topic_names=["foo"],
        rebalance_timeout_ms=10_000,
    )
    assert received_assignment(full) == everything
    assert not driver.wrote


@pytest.mark.fact("E6-01")
def test_a_member_without_topics_joins_at_the_epoch_of_the_target(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    sent = driver.join("n", topics=[])
    assert driver.wrote_types == ["member", "current"]
    assert received_assignment(sent) == {}
    assert sent.response.member_epoch == driver.group.epoch == 1


def test_a_first_member_without_topics_does_not_delay_the_next_target() -> None:
    driver = GroupDriver(settings=Settings())
    driver.join("m", topics=[])
    assert driver.wrote_types == ["member", "epoch", "target-epoch", "current"]
    assert (driver.group.epoch, driver.group.assigned_ms) == (1, 0)
    sent = driver.heartbeat("m", 1, subscribed_topic_names=["foo"])
    assert received_assignment(sent) == {"foo": [0, 1, 2, 3, 4, 5]}


@pytest.mark.fact("H-10", "E11-06", "E7-39a")
def test_a_failing_assignor_writes_nothing(driver: GroupDriver) -> None:
    def fails(spec: object) -> None:
        raise RuntimeError("no")

    driver.assigns(fails)
    sent = driver.join("m")
    assert sent.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not driver.wrote
    assert not driver.state.consumer_groups


@pytest.mark.fact("H-21a", "H-21b", "E6-05", "E22-22", "E6-33")
def test_a_changed_subscription_computes_a_new_target(driver: GroupDriver) -> None:
    driver.join("m", ["foo"])
    driver.heartbeat("m", 1)  # refreshes the topics of a new group
    sent = driver.heartbeat("m", 1, subscribed_topic_names=["foo", "bar"])
    assert received_assignment(sent) == {"foo": [0, 1, 2, 3, 4, 5], "bar": [0, 1, 2]}
    words = ["member", "epoch", "target", "target-epoch", "current"]
    assert driver.wrote_types == words
    assert driver.group.epoch == 2


@pytest.mark.fact("E6-05")
@pytest.mark.parametrize(
    ("names", "assigned"),
    [
        (["bar", "foo"], None),
        (["foo", "bar", "foo"], None),
        (["foo"], {"foo": [0, 1, 2, 3, 4, 5]}),
        (["foo", "nowhere"], {"foo": [0, 1, 2, 3, 4, 5]}),
        (["bar"], {"bar": [0, 1, 2]}),
        ([], {}),
    ],
)
def test_only_another_set_of_subscribed_names_bumps_the_group_epoch(
    driver: GroupDriver, names: list[str], assigned: dict[str, list[int]] | None
) -> None:
    epoch = driver.join("m", ["foo", "bar"]).response.member_epoch
    driver.settled("m")
    sent = driver.heartbeat("m", epoch, subscribed_topic_names=names)
    assert driver.group.epoch == epoch + (assigned is not None)
    if assigned is None:
        assert not driver.wrote
        assert sent.response.assignment is None
    else:
        owned = driver.heartbeat("m", sent.response.member_epoch, owned=assigned)
        assert owned.response.member_epoch == driver.group.epoch
        assert received_assignment(owned) in (assigned, None)
        assert {
            topic.rstrip(b"\0").decode(): sorted(partitions)
            for topic, partitions in driver.member().assigned.items()
        } == assigned


@pytest.mark.fact("E3-01")
def test_each_new_assignment_needs_the_next_group_epoch(driver: GroupDriver) -> None:
    first = driver.join("m").response.member_epoch
    epochs = [driver.group.epoch - first]
    for step in (
        lambda: driver.join("n"),
        lambda: driver.heartbeat("m", first),
        lambda: driver.join("o", ["foo", "bar"]),
        lambda: driver.heartbeat("n", -1),
    ):
        assert not step().error
        epochs.append(driver.group.epoch - first)
    assert epochs == [0, 1, 1, 2, 3]


@pytest.mark.fact("H-22", "E22-21a", "E22-21b", "E7-40", "E4-04", "E7-38")
def test_a_join_writes_the_targets_that_changed(driver: GroupDriver) -> None:
    driver.join("m")
    sent = driver.join("n")
    assert received_assignment(sent) == {}
    words = ["member", "epoch", "target", "target", "target-epoch", "current"]
    assert driver.wrote_types == words
    assert driver.group.state.value == "Reconciling"


@pytest.mark.fact("E7-40a")
def test_an_unchanged_target_writes_its_epoch_alone(driver: GroupDriver) -> None:
    driver.join("m")
    driver.heartbeat("m", 1, subscribed_topic_names=["foo", "nowhere"])
    assert driver.wrote_types == ["member", "epoch", "target-epoch", "current"]


@pytest.mark.fact(
    "H-23", "E7-60", "E22-26", "E6-02", "E7-60a", "E7-60b", "E7-60c", "E7-60d"
)
def test_a_leave_removes_the_member(driver: GroupDriver) -> None:
    driver.join("m")
    driver.join("n")
    driver.settled("m", "n")
    sent = driver.heartbeat("n", -1)
    assert (sent.response.member_id, sent.response.member_epoch) == ("n", -1)
    assert sent.response.heartbeat_interval_ms == 0
    assert driver.wrote_types == ["-current", "-target", "-member", "epoch"]
    assert driver.group.epoch == 3
    assert driver.group.state.value == "Assigning"
    assert received_assignment(driver.heartbeat("m", 2)) == {"foo": [0, 1, 2, 3, 4, 5]}


@pytest.mark.fact("E2-08", "E22-33")
def test_an_emptied_group_has_an_empty_target_of_its_epoch(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.heartbeat("m", -1)
    assert driver.wrote_types[-2:] == ["epoch", "target-epoch"]
    assert (driver.group.epoch, driver.group.assignment_epoch) == (2, 2)
    assert driver.group.assigned_ms == 0
    assert driver.group.state.value == "Empty"


@pytest.mark.fact("E22-23", "E6-20")
def test_a_changed_rack_and_rebalance_timeout_are_written_without_an_epoch_bump(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.heartbeat("m", 1, rack_id="r1", rebalance_timeout_ms=5)
    assert driver.wrote_types == ["member"]
    assert driver.group.epoch == 1


@pytest.mark.bug("KAFKA-20434")
@pytest.mark.fact("E6-07")
def test_another_assignor_of_the_group_computes_a_new_target(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.heartbeat("m", 1, server_assignor="uniform")
    assert driver.wrote_types == ["member"]
    driver.heartbeat("m", 1, server_assignor="range")
    assert driver.wrote_types == ["member", "epoch", "target-epoch", "current"]
    driver.heartbeat("m", 2, server_assignor="uniform")
    assert driver.group.epoch == 3
    driver.join("n", server_assignor="range")
    driver.heartbeat("n", 4, server_assignor="uniform")
    # The first configured assignor was preferred before and is so now.
    assert "epoch" not in driver.wrote_types


@pytest.mark.fact("E3-09", "H-06c", "H-06d")
def test_a_retry_after_a_lost_response_returns_the_same_epoch(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.join("n")
    driver.heartbeat("m", 1)
    owned = {"foo": [*driver.member("m").assigned[b"foo".ljust(16, b"\0")]]}
    driver.heartbeat("m", 1, owned=owned)
    assert driver.member("m").epoch == 2
    again = driver.heartbeat("m", 1, owned=owned)
    assert again.response.member_epoch == 2
    assert driver.heartbeat("m", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert "m" in driver.group.members


@pytest.mark.fact("E5-15")
def test_revoked_partitions_are_not_reassigned_while_the_target_is_outdated() -> None:
    driver = GroupDriver(settings=Settings())
    driver.join("m", ["foo"])
    driver.heartbeat("m", 1)
    sent = driver.heartbeat("m", 1, subscribed_topic_names=["bar"])
    assert received_assignment(sent) == {}
    for _ in range(3):
        assert received_assignment(driver.heartbeat("m", 1, owned={})) is None
        assert not driver.member().assigned
    driver.advance(driver.settings.group_consumer_assignment_interval_ms)
    assert received_assignment(driver.heartbeat("m", 1, owned={})) == {"bar": [0, 1, 2]}
