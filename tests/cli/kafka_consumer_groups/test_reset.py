"""`--reset-offsets`: scenarios, plans, CSV and errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import GroupState
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .fake_cluster import FakeCluster, RunLine, is_golden, runner_for

T0, T1, T2 = (TopicPartition("t", each) for each in range(3))
NO_EXECUTE = "WARN: No action will be performed as the --execute option is missing."


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.known_logs = {
        T0: FakeLog.of(10, 20),
        T1: FakeLog.of(0, 30),
        T2: FakeLog.of(0, 0),
        TopicPartition("u", 0): FakeLog.of(5, 6),
    }
    cluster.add(group("g", state=GroupState.EMPTY))
    cluster.commits["g"] = {T0: 12, T1: 3}
    cluster.add(group("h", state=GroupState.EMPTY), u=5)
    cluster.add(group("active", member("m", ("t", 0))), t=1)
    return cluster


@pytest.fixture
def run(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> RunLine:
    return runner_for(cluster, monkeypatch)


def rows(text: str) -> list[tuple[str, ...]]:
    """Return the cells of a table of new offsets, without its header."""
    return [tuple(line.split()) for line in text.splitlines()[2:]]


@pytest.mark.fact("C-60a", "C-62", "C-64b")
@pytest.mark.parametrize(
    ("how", "new"),
    [
        ("--all-topics --to-earliest", {T0: 10, T1: 0}),
        ("--all-topics --to-latest", {T0: 20, T1: 30}),
        ("--all-topics --to-current", {T0: 12, T1: 3}),
        ("--topic t --to-current", {T0: 12, T1: 3, T2: 0}),
        ("--topic t:1 --topic t:0 --to-offset 15", {T0: 15, T1: 15}),
        ("--topic t:0 --to-offset 1", {T0: 10}),
        ("--topic t --to-offset 25", {T0: 20, T1: 25, T2: 0}),
        ("--all-topics --shift-by -2", {T0: 10, T1: 1}),
        ("--all-topics --shift-by 20", {T0: 20, T1: 23}),
        ("--topic t:0 --to-datetime 1970-01-01T00:00:14.500", {T0: 15}),
        ("--topic t:0 --to-datetime 1970-01-01T01:00:14.500+01", {T0: 15}),
        ("--topic t:0 --by-duration PT1S", {T0: 20}),
    ],
)
def test_each_scenario_is_executed(
    how: str, new: dict[TopicPartition, int], cluster: FakeCluster, run: RunLine
) -> None:
    result = run(f"--reset-offsets --group g {how} --execute")
    assert rows(result.stdout) == [
        ("g", at.topic, str(at.partition), str(offset)) for at, offset in new.items()
    ]
    assert cluster.altered["g"] == {
        at: CommittedOffset(offset) for at, offset in new.items()
    }
    assert result.exit_code == 0


@pytest.mark.fact("C-60c")
def test_nothing_is_written_without_execute_and_stderr_has_a_warning(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--reset-offsets --group g --all-topics --to-earliest")
    assert rows(result.stdout) == [("g", "t", "0", "10"), ("g", "t", "1", "0")]
    assert result.stderr.startswith(NO_EXECUTE)
    assert result.exit_code == 0
    result = run("--reset-offsets --group g --all-topics --to-earliest --dry-run")
    assert result.stderr == ""
    assert cluster.altered == {}


@pytest.mark.fact("C-62")
def test_offsets_outside_the_log_are_clamped_with_a_warning(run: RunLine) -> None:
    result = run("--reset-offsets --group g --topic t:0,2 --to-offset 9 --dry-run")
    assert result.stderr == (
        "WARN: New offset (9) is lower than earliest offset for topic partition t-0. "
        "Value will be set to 10\n"
        "WARN: New offset (9) is higher than latest offset for topic partition t-2. "
        "Value will be set to 0\n"
    )


def test_a_time_after_all_records_falls_back_to_the_end_of_the_log(
    run: RunLine,
) -> None:
    line = "--reset-offsets --group g --topic t:2 --by-duration PT0S --dry-run --export"
    text = "\nWarn: Partition 2 from topic t is empty. Falling back to latest known "
    result = run(line)
    assert result.stdout == "t,2,0\n\n"
    assert result.stderr == f"{text}offset.\n"


@pytest.mark.fact("C-61")
def test_a_group_with_members_is_refused_and_others_are_reset(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--reset-offsets --all-groups --all-topics --to-latest --execute")
    assert result.stderr == (
        "\nError: Assignments can only be reset if the group 'active' is inactive, but "
        "the current state is Stable.\n"
    )
    assert is_golden("reset-all", result.stdout)
    assert result.exit_code == 1
    assert set(cluster.altered) == {"g", "h"}


@pytest.mark.fact("C-61")
def test_a_missing_group_is_created(cluster: FakeCluster, run: RunLine) -> None:
    result = run("--reset-offsets --group new --topic u --to-earliest --execute")
    assert rows(result.stdout) == [("new", "u", "0", "5")]
    assert cluster.altered["new"] == {TopicPartition("u", 0): CommittedOffset(5)}
    assert result.exit_code == 0


def test_a_shift_without_a_commit_is_refused(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--reset-offsets --group g --topic t --shift-by 1 --execute")
    assert result.stderr == (
        "Cannot shift offset for partition t-2 since there is no current committed "
        "offset\n"
    )
    assert (result.stdout, result.exit_code) == ("", 1)
    assert cluster.altered == {}


def test_a_group_with_unknown_partitions_is_not_written(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--reset-offsets --group g --topic t:0,7,8 --to-latest --execute")
    assert result.stderr == (
        "\nError: Offsets of consumer group 'g' are not reset: "
        'The partitions "t-7,t-8" do not exist\n'
    )
    assert (result.stdout, result.exit_code) == ("", 1)
    assert cluster.altered == {}


def test_partitions_without_a_leader_are_an_error(
    cluster: FakeCluster, run: RunLine
) -> None:
    cluster.log_errors[T1] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "our words")
    result = run("--reset-offsets --group g --all-topics --to-latest --dry-run")
    assert 'The partitions "t-1" have no leader' in result.stderr


def test_an_unknown_topic_is_an_error(run: RunLine) -> None:
    result = run("--reset-offsets --group g --topic nope --to-latest --dry-run")
    assert result.stderr == (
        "\nError: Offsets of consumer group 'g' are not reset: no such topic\n"
    )


def test_a_group_whose_commit_fails_does_not_affect_the_others(
    cluster: FakeCluster, run: RunLine
) -> None:
    """Deviate from kafka-consumer-groups.sh, which stops at the failed group and does
    not print the groups that it changed before."""
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not")
    cluster.alter_errors["g"] = refused
    result = run(
        "--reset-offsets --group g --group h --all-topics --to-latest --execute"
    )
    assert rows(result.stdout) == [("h", "u", "0", "6")]
    assert "Offsets of consumer group 'g' are not reset: you may not" in result.stderr
    assert result.exit_code == 1


def test_a_group_that_cannot_be_described_is_an_error(
    cluster: FakeCluster, run: RunLine
) -> None:
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not")
    cluster.group_errors["g"] = refused
    line = "--reset-offsets --group g --all-topics --to-latest --dry-run"
    assert "are not reset: you may not" in run(line).stderr


@pytest.mark.fact("C-60e", "C-63")
def test_an_export_has_group_ids_unless_one_group_is_named(
    run: RunLine,
) -> None:
    line = "--all-topics --to-latest --dry-run --export"
    result = run(f"--reset-offsets --group g {line}")
    assert result.stdout == "t,0,20\nt,1,30\n\n"
    result = run(f"--reset-offsets --group g --group h {line}")
    assert result.stdout == "g,t,0,20\ng,t,1,30\nh,u,0,6\n\n"
    result = run(f"--reset-offsets --all-groups {line}")
    assert result.stdout == "g,t,0,20\ng,t,1,30\nh,u,0,6\n\n"


@pytest.mark.fact("C-63")
@pytest.mark.parametrize(
    ("text", "groups", "new"),
    [
        (
            "t,0,11\nt,1,99\n",
            "--group g",
            [("g", "t", "0", "11"), ("g", "t", "1", "30")],
        ),
        ("g,t,0,11\nh,u,0,5\n", "--group g", [("g", "t", "0", "11")]),
        (
            "g,t,0,11\nh,u,0,5\n",
            "--group h --group g",
            [("g", "t", "0", "11"), ("h", "u", "0", "5")],
        ),
    ],
)
def test_a_plan_is_read_from_a_file(
    text: str,
    groups: str,
    new: list[tuple[str, ...]],
    tmp_path: Path,
    run: RunLine,
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    result = run(f"--reset-offsets {groups} --from-file '{file}' --dry-run")
    assert rows(result.stdout) == new
    assert result.exit_code == 0


def test_a_group_without_a_plan_is_an_error(tmp_path: Path, run: RunLine) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("h,u,0,5\n")
    result = run(f"--reset-offsets --group g --from-file '{file}' --dry-run")
    assert result.stderr == "\nError: No reset plan for group g found\n"
    assert rows(result.stdout) == []
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("text", "why"), [("t,0\n", "line 1: "), (None, "Unable to read file ")]
)
def test_an_invalid_file_is_an_error(
    text: str | None, why: str, tmp_path: Path, run: RunLine
) -> None:
    file = tmp_path / "plan.csv"
    if text is not None:
        file.write_text(text)
    result = run(f"--reset-offsets --group g --from-file '{file}' --dry-run")
    assert result.stderr.startswith(f"\nError: {why}")
    assert (result.stdout, result.exit_code) == ("", 1)


@pytest.mark.parametrize(
    "how", ["--to-datetime yesterday", "--by-duration 7d", "--to-datetime 2026-11-21"]
)
def test_an_invalid_time_is_an_error_before_any_request(
    how: str, cluster: FakeCluster, run: RunLine
) -> None:
    result = run(f"--reset-offsets --group g --all-topics {how} --execute")
    assert result.stderr.startswith("\nError: '")
    assert (result.stdout, result.exit_code) == ("", 1)
    assert cluster.altered == {}
