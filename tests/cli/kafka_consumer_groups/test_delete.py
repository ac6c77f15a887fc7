"""`--delete` and `--delete-offsets`: what goes, what stays, and what is said of it."""

from __future__ import annotations

import pytest

from coterie.client.admin.group_values import GroupState
from coterie.errors import ApiError, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .fake_cluster import FakeCluster, Typed, is_golden, typed_at


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.logs = {TopicPartition("t", each): FakeLog.of(0, 9) for each in range(12)}
    cluster.add(group("active", member("m", ("t", 0))), t=1)
    cluster.add(group("e1", state=GroupState.EMPTY), t=1)
    cluster.add(group("e2", state=GroupState.EMPTY), t=1)
    return cluster


@pytest.fixture
def typed(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Typed:
    return typed_at(cluster, monkeypatch)


@pytest.mark.fact("D-40", "D-41", "D-43")
def test_groups_without_members_are_deleted_and_named_in_one_line(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--delete --group e1 --group e2")
    text = "Deletion of requested consumer groups ('e1', 'e2') was successful.\n"
    assert ran == (text, "", 0)
    assert cluster.deleted == ["e1", "e2"]


@pytest.mark.fact("C-66", "D-40", "D-41", "D-43")
def test_those_that_stay_are_told_each_with_its_reason_and_the_others_go(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--delete --all-groups")
    assert ran.stdout == (
        "\nError: Deletion of some consumer groups failed:\n"
        "* Group 'active' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupNotEmptyException: "
        "The group is not empty.\n"
        "\nThese consumer groups were deleted successfully: 'e1', 'e2'\n"
    )
    assert (ran.stderr, ran.exit_code) == ("", 1)
    assert cluster.deleted == ["e1", "e2"]


def test_when_all_stay_nothing_is_said_of_success(typed: Typed) -> None:
    ran = typed("--delete --group nope")
    assert ran.stdout == (
        "\nError: Deletion of some consumer groups failed:\n"
        "* Group 'nope' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: "
        "The group id does not exist.\n"
    )
    assert ran.exit_code == 1


@pytest.mark.fact("D-47")
def test_a_broker_without_deletion_is_told_as_such(
    cluster: FakeCluster, typed: Typed
) -> None:
    cluster.broken = UnsupportedByBroker("broker 1 has no DeleteGroups")
    ran = typed("--delete --group e1")
    assert "broker 1 has no DeleteGroups" in ran.stderr
    assert ran.exit_code == 1


@pytest.mark.parametrize("strict", ["", "--strict"])
def test_a_dry_run_deletes_nothing(
    strict: str, cluster: FakeCluster, typed: Typed
) -> None:
    """Apache's tool takes --dry-run and deletes."""
    ran = typed(f"--delete --group e1 --group active --group nope --dry-run {strict}")
    assert cluster.deleted == []
    assert ran.stdout.startswith(
        "Dry run: these consumer groups would be deleted: 'e1'\n"
    )
    assert "* Group 'active' would not be deleted due to: " in ran.stdout
    assert "* Group 'nope' would not be deleted due to: " in ran.stdout
    assert ran.exit_code == 1
    assert typed(f"--delete --group e1 --dry-run {strict}").exit_code == 0


@pytest.mark.fact("C-64", "C-65", "D-45")
def test_offsets_are_deleted_by_topic_and_partition(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--delete-offsets --group e1 --topic t:10,2 --topic t:2")
    assert is_golden("deleted", ran.stdout)
    assert ran.exit_code == 0
    assert cluster.deleted_offsets == [TopicPartition("t", 2), TopicPartition("t", 10)]


def test_strict_sorts_partitions_as_text(typed: Typed) -> None:
    text = typed("--delete-offsets --group e1 --topic t:10,2 --strict").stdout
    assert [line.split()[1] for line in text.splitlines()[3:]] == ["10", "2"]


@pytest.mark.fact("C-65")
def test_what_stays_is_told_partition_by_partition(
    cluster: FakeCluster, typed: Typed
) -> None:
    at = TopicPartition("t", 0)
    subscribed = ApiError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "our words")
    cluster.delete_errors[at] = subscribed
    ran = typed("--delete-offsets --group active --topic t:0,1 --topic nope")
    assert is_golden("deleted-some", ran.stdout)
    assert ran.exit_code == 1


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, "The group id does not exist."),
        (ErrorCode.NON_EMPTY_GROUP, "The group is not empty."),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
        (ErrorCode.INVALID_GROUP_ID, "The group id is invalid."),
        (
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            "Encountered some unknown error: COORDINATOR_NOT_AVAILABLE",
        ),
    ],
)
def test_what_is_wrong_with_the_group_is_told_first_and_of_each_partition(
    code: ErrorCode, text: str, cluster: FakeCluster, typed: Typed
) -> None:
    cluster.group_errors["e1"] = ApiError(code, "our words")
    ran = typed("--delete-offsets --group e1 --topic t:0,1")
    assert ran.stdout.startswith(f"\nError: {text}\n\nTOPIC ")
    assert ran.stdout.count("Error: org.apache.kafka.common.errors.") == 2
    assert ran.exit_code == 1


def test_a_dry_run_deletes_no_offsets(cluster: FakeCluster, typed: Typed) -> None:
    ran = typed("--delete-offsets --group e1 --topic t:0 --dry-run")
    assert ran.stdout.startswith("Dry run: nothing is deleted.\n")
    assert cluster.deleted_offsets == []
    assert ran.exit_code == 0


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("t:x", "Invalid partition 'x' specified in topic arg 't:x'"),
        ("t:1,", "Invalid partition '' specified in topic arg 't:1,'"),
        ("t:", "Invalid topic arg 't:', expected topic name and partitions"),
        (":1", "Invalid topic arg ':1', expected topic name and partitions"),
        ("t:1:2", "Invalid topic arg 't:1:2', expected topic name and partitions"),
    ],
)
def test_what_is_no_topic_is_refused(topic: str, why: str, typed: Typed) -> None:
    ran = typed(f"--delete-offsets --group e1 --topic {topic}")
    assert ran.stderr.startswith(f"{why}\n")
    assert (ran.stdout, ran.exit_code) == ("", 1)
