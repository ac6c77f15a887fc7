"""`--delete` and `--delete-offsets`: deleted and refused groups and offsets."""

from __future__ import annotations

import pytest

from coterie.client.admin.groups import GroupState
from coterie.errors import ApiError, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .fake_cluster import FakeCluster, RunLine, is_golden, runner_for


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.known_logs = {
        TopicPartition("t", each): FakeLog.of(0, 9) for each in range(12)
    }
    cluster.add(group("active", member("m", ("t", 0))), t=1)
    cluster.add(group("e1", state=GroupState.EMPTY), t=1)
    cluster.add(group("e2", state=GroupState.EMPTY), t=1)
    return cluster


@pytest.fixture
def run(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> RunLine:
    return runner_for(cluster, monkeypatch)


@pytest.mark.fact("D-40", "D-41", "D-43a")
def test_groups_without_members_are_deleted_and_listed_in_one_line(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--delete --group e1 --group e2")
    text = "Deletion of requested consumer groups ('e1', 'e2') was successful.\n"
    assert result == (text, "", 0)
    assert cluster.deleted == ["e1", "e2"]


@pytest.mark.fact("D-40", "D-41", "D-43b")
def test_groups_that_cannot_be_deleted_are_listed_with_reasons_and_others_are_deleted(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--delete --all-groups")
    assert result.stdout == (
        "\nError: Deletion of some consumer groups failed:\n"
        "* Group 'active' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupNotEmptyException: "
        "The group is not empty.\n"
        "\nThese consumer groups were deleted successfully: 'e1', 'e2'\n"
    )
    assert (result.stderr, result.exit_code) == ("", 1)
    assert cluster.deleted == ["e1", "e2"]


def test_no_success_is_printed_when_no_group_is_deleted(run: RunLine) -> None:
    result = run("--delete --group nope")
    assert result.stdout == (
        "\nError: Deletion of some consumer groups failed:\n"
        "* Group 'nope' could not be deleted due to: "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: "
        "The group id does not exist.\n"
    )
    assert result.exit_code == 1


@pytest.mark.fact("D-47")
def test_deleting_groups_on_a_broker_without_delete_groups_is_unsupported(
    cluster: FakeCluster, run: RunLine
) -> None:
    cluster.broken = UnsupportedByBroker("broker 1 has no DeleteGroups")
    result = run("--delete --group e1")
    assert "broker 1 has no DeleteGroups" in result.stderr
    assert result.exit_code == 1


def test_a_dry_run_deletes_nothing(cluster: FakeCluster, run: RunLine) -> None:
    """Deviate from kafka-consumer-groups.sh, which deletes in spite of --dry-run."""
    result = run("--delete --group e1 --group active --group nope --dry-run")
    assert cluster.deleted == []
    assert result.stdout.startswith(
        "Dry run: these consumer groups would be deleted: 'e1'\n"
    )
    assert "* Group 'active' would not be deleted due to: " in result.stdout
    assert "* Group 'nope' would not be deleted due to: " in result.stdout
    assert result.exit_code == 1
    assert run("--delete --group e1 --dry-run").exit_code == 0


@pytest.mark.fact("C-64a", "C-65b", "D-45")
def test_offsets_are_deleted_by_topic_and_partition(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--delete-offsets --group e1 --topic t:10,2 --topic t:2")
    assert is_golden("deleted", result.stdout)
    assert result.exit_code == 0
    assert cluster.deleted_offsets == [TopicPartition("t", 2), TopicPartition("t", 10)]


@pytest.mark.fact("C-65b")
def test_partition_errors_are_listed_separately(
    cluster: FakeCluster, run: RunLine
) -> None:
    at = TopicPartition("t", 0)
    subscribed = ApiError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, "our words")
    cluster.delete_errors[at] = subscribed
    result = run("--delete-offsets --group active --topic t:0,1 --topic nope")
    assert is_golden("deleted-some", result.stdout)
    assert result.exit_code == 1


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
def test_a_group_error_is_printed_first_and_for_each_partition(
    code: ErrorCode, text: str, cluster: FakeCluster, run: RunLine
) -> None:
    cluster.group_errors["e1"] = ApiError(code, "our words")
    result = run("--delete-offsets --group e1 --topic t:0,1")
    assert result.stdout.startswith(f"\nError: {text}\n\nTOPIC ")
    assert result.stdout.count("Error: org.apache.kafka.common.errors.") == 2
    assert result.exit_code == 1


def test_a_dry_run_deletes_no_offsets(cluster: FakeCluster, run: RunLine) -> None:
    result = run("--delete-offsets --group e1 --topic t:0 --dry-run")
    assert result.stdout.startswith("Dry run: nothing is deleted.\n")
    assert cluster.deleted_offsets == []
    assert result.exit_code == 0


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
def test_an_invalid_topic_argument_is_refused(
    topic: str, why: str, run: RunLine
) -> None:
    result = run(f"--delete-offsets --group e1 --topic {topic}")
    assert result.stderr.startswith(f"{why}\n")
    assert (result.stdout, result.exit_code) == ("", 1)
