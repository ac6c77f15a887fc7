"""`coterie pipeline show`: which rows, in which order, and what is said of the lake."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli.main import VERBS
from coterie.pipeline.lake.lake import Lake
from tests.cli.pipeline.conftest import LakeShell
from tests.pipeline.lakes import CLUSTER, make_lake
from tests.pipeline.story import HOSTILE, TOPIC_ID, story

SHOWN = [each.words[-1] for each in VERBS if each.name.startswith("pipeline show ")]


def test_the_envelope_says_of_which_lake_it_is(shell: LakeShell) -> None:
    document = json.loads(shell("show offsets --output json"))
    assert document["schema"] == "coterie.pipeline.show.offsets"
    assert document["cluster_id"] == CLUSTER
    assert document["as_of_ts"] == "2026-11-21T10:00:00.000Z"
    assert document["history_from_ts"] == "2026-11-18T10:00:00.000Z"
    assert document["summary"]["rows"] == len(document["items"]) == 7


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("form", ["table", "wide", "csv", "jsonl", "md"])
def test_every_one_shows_in_every_form(name: str, form: str, shell: LakeShell) -> None:
    shown = shell(f"show {name} --output {form}")
    assert shell.code == 0
    assert len(shown.splitlines()) > 1


def test_how_old_a_lake_is_is_told(shell: LakeShell) -> None:
    shell("show current")
    assert "as of 2026-11-21 10:00:00 UTC" in shell.error
    assert " ago; history from 2026-11-18 10:00:00" in shell.error


def test_groups_topics_and_partitions_are_chosen(shell: LakeShell) -> None:
    rows = shell.items("show offsets --group billing --partition 1 --partition 3")
    assert [each["partition"] for each in rows] == [1, 3]
    assert {each["group_id"] for each in rows} == {"billing"}
    assert not shell.items("show offsets --group billing --topic reports")
    assert "nothing of that kind" in shell.error


def test_a_hostile_name_is_found_and_does_nothing_to_a_terminal(
    shell: LakeShell,
) -> None:
    shown = shell("show current", "--group", HOSTILE)
    assert len(shown.splitlines()) == 2
    assert "\\u202e" in shown


def test_members_are_shown_with_what_they_own(shell: LakeShell) -> None:
    assert "orders[0,2,4]" in shell("show current --members")


def test_the_newest_lag_of_each_partition_is_shown_the_largest_first(
    shell: LakeShell,
) -> None:
    rows = shell.items("show lag --group billing")
    assert [each["lag"] for each in rows] == [105, 104, 103, 102, 101, 100]
    assert {each["sample_ts"] for each in rows} == {"2026-11-21T10:00:00.000Z"}


def test_lag_at_a_time_is_that_of_the_sample_before(shell: LakeShell) -> None:
    rows = shell.items("show lag --group billing --at 25m")
    assert {each["sample_ts"] for each in rows} == {"2026-11-21T09:30:00.000Z"}


def test_lag_since_a_time_is_every_sample(shell: LakeShell) -> None:
    rows = shell.items("show lag --group billing --partition 0 --since 30m")
    assert [each["lag"] for each in rows] == [100, 110, 120, 130]


@pytest.mark.parametrize(
    "time", ["30m", "0d1800s", "2026-11-21T09:30:00Z", "2026-11-21 09:30:00"]
)
def test_who_owned_a_partition_at_a_time(time: str, shell: LakeShell) -> None:
    [row] = shell.items("show ownership --partition 3", "--at", time)
    assert (row["client_id"], row["because"]) == ("ada", "left: ada")


def test_an_epoch_that_comes_twice_means_the_nearer_rebalance(
    tmp_path: Path, shell: LakeShell
) -> None:
    rows = story()
    left = rows["rebalance_timeline"][2]
    upgraded = {**left, "cause": "upgraded", "left": [], "log_offset": 5_000}
    rows["rebalance_timeline"].append(upgraded)
    rows["member_sessions"].append({**rows["member_sessions"][0], "member_id": "ada-2"})
    shell.lake = make_lake(tmp_path / "lake", rows)
    [row] = shell.items("show ownership --partition 3 --at 30m")
    assert row["because"] == "left: ada-1", "two are called ada"


def test_a_topic_is_found_by_its_id_where_the_log_has_no_name(
    tmp_path: Path, shell: LakeShell
) -> None:
    rows = story()
    for each in rows["partition_ownership_history"]:
        each["topic"] = None
    for each in rows["partition_end_samples"]:
        each["topic_id"] = TOPIC_ID
    shell.lake = make_lake(tmp_path / "lake", rows)
    assert len(shell.items("show ownership --topic orders --partition 3")) == 2
    assert not shell.items("show ownership --topic other --partition 3")


def test_while_nobody_owned_it_nobody_is_shown(shell: LakeShell) -> None:
    assert not shell.items("show ownership --partition 3 --at 19m30s")


def test_an_owner_has_a_partition_from_its_first_moment_to_before_its_last(
    shell: LakeShell,
) -> None:
    assert len(shell.items("show ownership --partition 3 --at 40m")) == 1
    assert not shell.items("show ownership --partition 3 --at 20m")


def test_owners_since_a_time_are_those_that_had_it_then_or_later(
    shell: LakeShell,
) -> None:
    rows = shell.items("show ownership --partition 3 --since 19m")
    assert [each["client_id"] for each in rows] == ["linus"]


def test_a_verdict_is_of_groups_or_of_partitions(shell: LakeShell) -> None:
    rows = shell.items("show status")
    assert [each["topic"] for each in rows] == [None] * 3
    bad = shell.items("show status --bad --partitions")
    assert {each["group_id"] for each in bad} == {"billing", HOSTILE}
    assert len(bad) == 4


def test_a_verdict_is_that_of_the_time(shell: LakeShell) -> None:
    assert not shell.items("show status --bad --at 2h")


def test_the_newest_commits_come_first_and_a_limit_is_told(shell: LakeShell) -> None:
    rows = shell.items("show history --limit 3")
    assert [each["log_offset"] for each in rows] == [299, 298, 297]
    assert "3 of 300 rows; --limit 0 shows all" in shell.error
    assert len(shell.items("show history --limit 0")) == 300


def test_of_a_long_history_only_the_newest_rows_are_read(
    shell: LakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = shell.items("show history --since 2h --limit 5")
    monkeypatch.setattr("coterie.pipeline.report.rows._LONG", 10)
    assert shell.items("show history --since 2h --limit 5") == plain
    assert "5 of 120 rows" in shell.error
    assert len(shell.items("show history --since 5m --limit 50")) == 5


def test_storms_are_told_apart(shell: LakeShell) -> None:
    assert len(shell.items("show rebalances")) == 17
    assert len(shell.items("show rebalances --storms")) == 14


def test_offsets_that_never_go_are_left_out(shell: LakeShell) -> None:
    rows = shell.items("show expiry")
    assert [each["remaining_ms"] for each in rows] == [-300_000, 18_000_000, 432e6]
    assert len(shell.items("show expiry --all")) == 4


def test_groups_to_keep_are_left_out(shell: LakeShell) -> None:
    assert [each["score"] for each in shell.items("show stale")] == [80, 60]
    assert shell.items("show stale --group billing")[0]["class"] == "keep"


def test_partitions_of_the_log_are_chosen(shell: LakeShell) -> None:
    [row] = shell.items("show quality --partition 9")
    assert (row["log_partition"], row["missing_offsets"]) == (9, 40)


@pytest.mark.parametrize("time", ["soon", "", "5x", "2026-13-01T00:00:00Z"])
def test_a_time_that_is_none_is_refused(time: str, shell: LakeShell) -> None:
    shell("show lag", "--at", time)
    assert shell.code == 2
    assert "is not a time: write a date-time such as" in shell.error


def test_what_is_no_lake_is_told_with_what_makes_one(
    tmp_path: Path, shell: LakeShell
) -> None:
    shell.lake = tmp_path / "nowhere"
    assert shell("show current -o json") == ""
    assert shell.code == 2
    assert f"there is no lake in {shell.lake}" in shell.error
    assert "coterie pipeline run" in shell.error


def test_a_foreign_directory_and_a_newer_lake_are_told_apart(
    tmp_path: Path, shell: LakeShell
) -> None:
    shell.lake = tmp_path
    (tmp_path / "lake.json").write_text("{}")
    shell("show current")
    assert "is not of a lake of Coterie's" in shell.error
    newer = {"schema": "coterie.pipeline.lake", "schema_version": 99}
    (tmp_path / "lake.json").write_text(json.dumps(newer))
    shell("show current")
    assert "update Coterie" in shell.error
    assert shell.code == 2


def test_a_table_that_is_not_built_yet_is_told_in_the_form_that_was_asked_for(
    tmp_path: Path, shell: LakeShell
) -> None:
    shell.lake = tmp_path / "lake"
    Lake.create(shell.lake, "segments:log")
    document = json.loads(shell("show current -o json"))
    assert shell.code == 1
    [error] = document["errors"]
    assert "the lake has no table current_groups" in error["message"]


def test_a_lake_without_records_is_shown(tmp_path: Path, shell: LakeShell) -> None:
    shell.lake = make_lake(tmp_path / "lake", {})
    assert shell("show lag --since 1h") == ""
    assert shell.code == 0


@pytest.mark.slow
def test_no_command_that_shows_starts_spark(story_lake: Path) -> None:
    script = (
        "import sys\nfrom coterie.cli.main import main\n"
        f"for name in {SHOWN!r}:\n"
        f"    words = ['pipeline', 'show', name, '--lake', {str(story_lake)!r}]\n"
        "    assert main(words) == 0\n"
        "print('loaded:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    loaded = set(done.stdout.rpartition("loaded:")[2].split())
    assert "pyarrow" in loaded
    assert not loaded & {"pyspark", "py4j", "altair", "jinja2", "rich", "asyncio"}
