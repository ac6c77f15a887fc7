"""`--reset-offsets`: scenarios, plans, CSV, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.client.admin.group_values import GroupState
from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .fake_cluster import FakeCluster, Typed, is_golden, typed_at

T0, T1, T2 = (TopicPartition("t", each) for each in range(3))
NO_EXECUTE = "WARN: No action will be performed as the --execute option is missing."


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster()
    cluster.logs = {
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
def typed(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Typed:
    return typed_at(cluster, monkeypatch)


def rows(text: str) -> list[tuple[str, ...]]:
    """The cells of a table of new offsets, without its header."""
    return [tuple(line.split()) for line in text.splitlines()[2:]]


@pytest.mark.fact("C-60", "C-62", "C-64")
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
def test_every_scenario_is_executed(
    how: str, new: dict[TopicPartition, int], cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed(f"--reset-offsets --group g {how} --execute")
    assert rows(ran.stdout) == [
        ("g", at.topic, str(at.partition), str(offset)) for at, offset in new.items()
    ]
    assert cluster.altered["g"] == {
        at: CommittedOffset(offset) for at, offset in new.items()
    }
    assert ran.exit_code == 0


@pytest.mark.fact("C-60")
def test_without_execute_nothing_is_done_and_stderr_says_so(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--reset-offsets --group g --all-topics --to-earliest")
    assert rows(ran.stdout) == [("g", "t", "0", "10"), ("g", "t", "1", "0")]
    assert ran.stderr.startswith(NO_EXECUTE)
    assert ran.exit_code == 0
    ran = typed("--reset-offsets --group g --all-topics --to-earliest --dry-run")
    assert ran.stderr == ""
    assert cluster.altered == {}


@pytest.mark.fact("C-62")
def test_offsets_that_the_log_does_not_reach_are_warned_of(typed: Typed) -> None:
    ran = typed("--reset-offsets --group g --topic t:0,2 --to-offset 9 --dry-run")
    assert ran.stderr == (
        "WARN: New offset (9) is lower than earliest offset for topic partition t-0. "
        "Value will be set to 10\n"
        "WARN: New offset (9) is higher than latest offset for topic partition t-2. "
        "Value will be set to 0\n"
    )


def test_a_time_after_all_records_falls_back_to_the_end_of_the_log(
    typed: Typed,
) -> None:
    line = "--reset-offsets --group g --topic t:2 --by-duration PT0S --dry-run --export"
    text = "\nWarn: Partition 2 from topic t is empty. Falling back to latest known "
    ran = typed(line)
    assert ran.stdout == "t,2,0\n\n"
    assert ran.stderr == f"{text}offset.\n"
    assert typed(f"{line} --strict").stdout == f"{text}offset.\nt,2,0\n\n"


@pytest.mark.fact("C-61")
def test_a_group_with_members_is_left_alone_and_the_others_are_reset(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--reset-offsets --all-groups --all-topics --to-latest --execute")
    assert ran.stderr == (
        "\nError: Assignments can only be reset if the group 'active' is inactive, but "
        "the current state is Stable.\n"
    )
    assert is_golden("reset-all", ran.stdout)
    assert ran.exit_code == 1
    assert set(cluster.altered) == {"g", "h"}


@pytest.mark.fact("C-61")
def test_a_group_that_is_not_there_is_made(cluster: FakeCluster, typed: Typed) -> None:
    ran = typed("--reset-offsets --group new --topic u --to-earliest --execute")
    assert rows(ran.stdout) == [("new", "u", "0", "5")]
    assert cluster.altered["new"] == {TopicPartition("u", 0): CommittedOffset(5)}
    assert ran.exit_code == 0


def test_a_shift_without_a_commit_is_refused(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--reset-offsets --group g --topic t --shift-by 1 --execute")
    assert ran.stderr == (
        "Cannot shift offset for partition t-2 since there is no current committed "
        "offset\n"
    )
    assert (ran.stdout, ran.exit_code) == ("", 1)
    assert cluster.altered == {}


def test_partitions_that_do_not_exist_leave_their_group_as_it_is(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--reset-offsets --group g --topic t:0,7,8 --to-latest --execute")
    assert ran.stderr == (
        "\nError: Offsets of consumer group 'g' are not reset: "
        'The partitions "t-7,t-8" do not exist\n'
    )
    assert (ran.stdout, ran.exit_code) == ("", 1)
    assert cluster.altered == {}
    ran = typed("--reset-offsets --group g --topic t:7 --to-latest --dry-run --strict")
    assert ran.stdout == (
        "\nError: Executing consumer group command failed due to "
        'The partitions "t-7" do not exist\n'
    )


def test_partitions_without_a_leader_are_told_as_such(
    cluster: FakeCluster, typed: Typed
) -> None:
    cluster.log_errors[T1] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "our words")
    ran = typed("--reset-offsets --group g --all-topics --to-latest --dry-run")
    assert 'The partitions "t-1" have no leader' in ran.stderr


def test_a_topic_that_is_not_there_is_told(typed: Typed) -> None:
    ran = typed("--reset-offsets --group g --topic nope --to-latest --dry-run --strict")
    assert ran.stdout == (
        "\nError: Executing consumer group command failed due to "
        "This server does not host this topic-partition.\n"
    )


def test_a_group_that_refuses_its_offsets_hides_no_other(
    cluster: FakeCluster, typed: Typed
) -> None:
    """Apache's tool leaves in the middle, and does not say what was done before."""
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not")
    cluster.alter_errors["g"] = refused
    ran = typed(
        "--reset-offsets --group g --group h --all-topics --to-latest --execute"
    )
    assert rows(ran.stdout) == [("h", "u", "0", "6")]
    assert "Offsets of consumer group 'g' are not reset: you may not" in ran.stderr
    assert ran.exit_code == 1


def test_a_group_that_cannot_be_described_is_told(
    cluster: FakeCluster, typed: Typed
) -> None:
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not")
    cluster.group_errors["g"] = refused
    line = "--reset-offsets --group g --all-topics --to-latest --dry-run"
    assert "are not reset: you may not" in typed(line).stderr
    assert typed(f"{line} --strict").stdout.endswith(
        "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors."
        "GroupAuthorizationException: Group authorization failed.\n"
    )


@pytest.mark.fact("C-63")
def test_a_plan_is_exported_with_groups_only_when_there_may_be_several(
    typed: Typed,
) -> None:
    line = "--all-topics --to-latest --dry-run --export"
    ran = typed(f"--reset-offsets --group g {line}")
    assert ran.stdout == "t,0,20\nt,1,30\n\n"
    ran = typed(f"--reset-offsets --group g --group h {line}")
    assert ran.stdout == "g,t,0,20\ng,t,1,30\nh,u,0,6\n\n"
    ran = typed(f"--reset-offsets --all-groups {line}")
    assert ran.stdout == "g,t,0,20\ng,t,1,30\nh,u,0,6\n\n"


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
    typed: Typed,
) -> None:
    file = tmp_path / "plan.csv"
    file.write_text(text)
    ran = typed(f"--reset-offsets {groups} --from-file {file} --dry-run")
    assert rows(ran.stdout) == new
    assert ran.exit_code == 0


def test_a_group_without_a_plan_is_told(tmp_path: Path, typed: Typed) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("h,u,0,5\n")
    ran = typed(f"--reset-offsets --group g --from-file {file} --dry-run")
    assert ran.stderr == "\nError: No reset plan for group g found\n"
    assert rows(ran.stdout) == []
    assert ran.exit_code == 1


@pytest.mark.parametrize(
    ("text", "why"), [("t,0\n", "line 1: "), (None, "Unable to read file ")]
)
def test_a_file_that_is_no_plan_is_told(
    text: str | None, why: str, tmp_path: Path, typed: Typed
) -> None:
    file = tmp_path / "plan.csv"
    if text is not None:
        file.write_text(text)
    ran = typed(f"--reset-offsets --group g --from-file {file} --dry-run")
    assert ran.stderr.startswith(f"\nError: {why}")
    assert (ran.stdout, ran.exit_code) == ("", 1)


@pytest.mark.parametrize(
    "how", ["--to-datetime yesterday", "--by-duration 7d", "--to-datetime 2026-11-21"]
)
def test_what_is_no_time_is_told_before_anything_is_asked(
    how: str, cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed(f"--reset-offsets --group g --all-topics {how} --execute")
    assert ran.stderr.startswith("\nError: '")
    assert (ran.stdout, ran.exit_code) == ("", 1)
    assert cluster.altered == {}
