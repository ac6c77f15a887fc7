"""`coterie pipeline show`: the rows, their order, and the notes about the lake."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.registry import COMMANDS
from coterie.pipeline.lake.lake import Lake
from tests.cli.pipeline.conftest import LakeShell
from tests.pipeline.lakes import CLUSTER, make_lake
from tests.pipeline.story import HOSTILE, story

_CAUSE = {"group_id": "gone", "cause": "topic_deleted", "cause_in_log": "unknown"}
SHOWN = [each.words[-1] for each in COMMANDS if each.name.startswith("pipeline show ")]


def test_the_envelope_describes_the_lake(shell: LakeShell) -> None:
    document = json.loads(shell("show offsets --output json"))
    assert document["schema"] == "coterie.pipeline.show.offsets"
    assert document["cluster_id"] == CLUSTER
    assert document["as_of_ts"] == "2026-11-21T10:00:00.000Z"
    assert document["history_from_ts"] == "2026-11-18T10:00:00.000Z"
    assert document["summary"]["rows"] == len(document["items"]) == 7


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("form", ["table", "wide", "csv", "jsonl", "md"])
def test_every_command_supports_every_output_format(
    name: str, form: str, shell: LakeShell
) -> None:
    shown = shell(f"show {name} --output {form}")
    assert shell.code == 0
    assert len(shown.splitlines()) > 1


def test_the_age_of_the_lake_is_printed(shell: LakeShell) -> None:
    shell("show current")
    assert "as of 2026-11-21 10:00:00 UTC" in shell.error
    assert " ago; history from 2026-11-18 10:00:00" in shell.error


def test_rows_are_filtered_by_group_topic_and_partition(shell: LakeShell) -> None:
    rows = shell.items("show offsets --group billing --partition 1 --partition 3")
    assert [each["partition"] for each in rows] == [1, 3]
    assert {each["group_id"] for each in rows} == {"billing"}
    assert not shell.items("show offsets --group billing --topic reports")
    assert "no rows match" in shell.error


@pytest.mark.parametrize("name", ["offsets", "history", "lag", "ownership"])
def test_a_group_that_the_lake_never_had_is_an_error(
    name: str, shell: LakeShell
) -> None:
    document = json.loads(shell(f"show {name} --group biling --output json"))
    assert shell.code == 1
    assert document["errors"][0]["code"] == "GROUP_ID_NOT_FOUND"
    assert "'biling': did you mean 'billing'?" in shell.error
    assert "no rows match" not in shell.error


def test_the_rows_of_known_groups_are_shown_beside_an_error(shell: LakeShell) -> None:
    rows = shell.items("show offsets --group billing --group none")
    assert {each["group_id"] for each in rows} == {"billing"}
    assert shell.code == 1
    assert "group none: GROUP_ID_NOT_FOUND: the lake has no group 'none'" in shell.error


def test_a_topic_that_the_lake_never_had_is_an_error(shell: LakeShell) -> None:
    assert not shell.items("show offsets --topic orderz")
    assert shell.code == 1
    assert "'orderz': did you mean 'orders'?" in shell.error


def test_control_characters_in_a_name_are_escaped(
    shell: LakeShell,
) -> None:
    shown = shell("show current", "--group", HOSTILE)
    assert len(shown.splitlines()) == 2
    assert "\\u202e" in shown


def test_members_are_shown_with_their_assigned_partitions(shell: LakeShell) -> None:
    assert "orders[0,2,4]" in shell("show current --members")


def test_the_newest_lag_of_each_partition_is_shown_largest_first(
    shell: LakeShell,
) -> None:
    rows = shell.items("show lag --group billing")
    assert [each["lag"] for each in rows] == [105, 104, 103, 102, 101, 100]
    assert {each["sample_ts"] for each in rows} == {"2026-11-21T10:00:00.000Z"}


def test_lag_at_a_time_is_from_the_last_sample_before_that_time(
    shell: LakeShell,
) -> None:
    rows = shell.items("show lag --group billing --at 25m")
    assert {each["sample_ts"] for each in rows} == {"2026-11-21T09:30:00.000Z"}


def test_lag_since_a_time_lists_every_later_sample(shell: LakeShell) -> None:
    rows = shell.items("show lag --group billing --partition 0 --since 30m")
    assert [each["lag"] for each in rows] == [100, 110, 120, 130]


@pytest.mark.parametrize(
    "time", ["30m", "0d1800s", "2026-11-21T09:30:00Z", "2026-11-21 09:30:00"]
)
def test_the_owner_of_a_partition_at_a_time_is_shown(
    time: str, shell: LakeShell
) -> None:
    [row] = shell.items("show ownership --partition 3", "--at", time)
    assert (row["client_id"], row["because"]) == ("ada", "left: ada")


@pytest.mark.slow
def test_the_nearer_of_two_rebalances_with_one_epoch_is_the_cause(
    tmp_path: Path, shell: LakeShell
) -> None:
    rows = story()
    left = rows["rebalance_timeline"][2]
    upgraded = {**left, "cause": "upgraded", "left": [], "log_offset": 5_000}
    rows["rebalance_timeline"].append(upgraded)
    rows["member_sessions"].append({**rows["member_sessions"][0], "member_id": "ada-2"})
    shell.lake = make_lake(tmp_path / "lake", rows)
    [row] = shell.items("show ownership --partition 3 --at 30m")
    assert row["because"] == "left: ada-1", "two members have the client id ada"


def test_no_owner_is_shown_for_a_time_when_the_partition_had_none(
    shell: LakeShell,
) -> None:
    assert not shell.items("show ownership --partition 3 --at 19m30s")


def test_ownership_includes_its_start_and_excludes_its_end(
    shell: LakeShell,
) -> None:
    assert len(shell.items("show ownership --partition 3 --at 40m")) == 1
    assert not shell.items("show ownership --partition 3 --at 20m")


def test_owners_since_a_time_include_the_owner_at_that_time(
    shell: LakeShell,
) -> None:
    rows = shell.items("show ownership --partition 3 --since 19m")
    assert [each["client_id"] for each in rows] == ["linus"]


def test_status_shows_groups_or_partitions(shell: LakeShell) -> None:
    rows = shell.items("show status")
    assert [each["topic"] for each in rows] == [None] * 3
    bad = shell.items("show status --bad --partitions")
    assert {each["group_id"] for each in bad} == {"billing", HOSTILE}
    assert len(bad) == 4


def test_status_at_a_time_is_the_verdict_of_that_time(shell: LakeShell) -> None:
    assert not shell.items("show status --bad --at 2h")


def test_the_newest_commits_come_first_and_the_limit_is_reported(
    shell: LakeShell,
) -> None:
    rows = shell.items("show history --limit 3")
    assert [each["log_offset"] for each in rows] == [299, 298, 297]
    assert "3 of 300 rows; --limit 0 shows all" in shell.error
    assert len(shell.items("show history --limit 0")) == 300


def test_only_the_newest_rows_of_a_long_history_are_read(
    shell: LakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = shell.items("show history --since 2h --limit 5")
    monkeypatch.setattr("coterie.pipeline.lake.query._LONG_TABLE_ROWS", 10)
    assert shell.items("show history --since 2h --limit 5") == plain
    assert "5 of 120 rows" in shell.error
    assert len(shell.items("show history --since 5m --limit 50")) == 5


@pytest.mark.parametrize("name", ["lag --at 25m", "status --partitions"])
def test_of_a_long_history_all_columns_are_read_of_the_newest_rows_only(
    name: str, shell: LakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rows: list[int] = []
    read = Lake.read

    def recorded(
        self: Lake, table: str, columns: Any = None, filters: Any = None
    ) -> Any:
        rows = read(self, table, columns, filters)
        if columns is None:
            read_rows.append(len(rows))
        return rows

    monkeypatch.setattr(Lake, "read", recorded)
    plain = shell.items(f"show {name}")
    monkeypatch.setattr("coterie.pipeline.lake.query._LONG_TABLE_ROWS", 10)
    assert shell.items(f"show {name}") == plain
    before, after = read_rows
    assert after == len(plain) <= before / 5


def test_rebalances_are_filtered_by_storm(shell: LakeShell) -> None:
    assert len(shell.items("show rebalances")) == 17
    assert len(shell.items("show rebalances --storms")) == 14


@pytest.mark.slow
def test_the_duration_of_a_classic_rebalance_is_marked_as_an_upper_bound(
    tmp_path: Path, shell: LakeShell
) -> None:
    rows = story()
    exact = rows["rebalance_timeline"][0]
    bound = {**exact, "group_id": "old", "is_duration_exact": False}
    rows["rebalance_timeline"].append(bound | {"protocol": "classic"})
    shell.lake = make_lake(tmp_path / "lake", rows)
    lines = [
        shell("show rebalances --limit 0", "--group", group).splitlines()
        for group in (exact["group_id"], "old")
    ]
    for header, *listed in lines:
        assert re.search(r"\bTOOK +EXACT\b", header)
        word = "no" if "old" in listed[0] else "yes"
        assert all(re.search(rf"\b6\.0s +{word}\b", line) for line in listed)


@pytest.mark.slow
def test_the_history_shows_causes_that_later_records_and_samples_revealed(
    tmp_path: Path, shell: LakeShell
) -> None:
    tombstones = [
        {
            "group_id": "gone",
            "topic": topic,
            "log_partition": 1,
            "log_offset": offset,
            "direction": "tombstone",
            "tombstone_cause": cause,
        }
        for offset, (topic, cause) in enumerate(
            [("deleted", "unknown"), ("old", "expired"), ("hidden", "unknown")]
        )
    ]
    revised = {**_CAUSE, "log_partition": 1, "log_offset": 0}
    elsewhere = {**_CAUSE, "log_partition": 2, "log_offset": 2}
    rows = {
        "offset_commit_history": tombstones,
        "deleted_offsets": [revised, elsewhere],
    }
    shell.lake = make_lake(tmp_path / "lake", rows)
    items = shell.items("show history --group gone")
    assert {each["topic"]: each["cause"] for each in items} == {
        "deleted": "topic_deleted",
        "old": "expired",
        "hidden": "unknown",
    }
    assert {each["tombstone_cause"] for each in items} == {"unknown", "expired"}
    header, first, *_ = shell("show history --group gone --topic deleted").splitlines()
    assert header.endswith("GONE-BY")
    assert first.endswith("topic_deleted")


def test_offsets_that_do_not_expire_are_left_out(shell: LakeShell) -> None:
    rows = shell.items("show expiry")
    assert [each["remaining_ms"] for each in rows] == [-300_000, 18_000_000, 432e6]
    assert len(shell.items("show expiry --all")) == 4


def test_groups_of_the_class_keep_are_left_out(shell: LakeShell) -> None:
    assert [each["score"] for each in shell.items("show stale")] == [80, 60]
    assert shell.items("show stale --group billing")[0]["class"] == "keep"


def test_quality_is_filtered_by_log_partition(shell: LakeShell) -> None:
    [row] = shell.items("show quality --partition 9")
    assert (row["log_partition"], row["missing_offsets"]) == (9, 40)


@pytest.mark.parametrize("time", ["soon", "", "5x", "2026-13-01T00:00:00Z"])
def test_an_invalid_time_is_refused(time: str, shell: LakeShell) -> None:
    shell("show lag", "--at", time)
    assert shell.code == 2
    assert "is not a time: expected a date-time such as" in shell.error


def test_the_error_for_a_missing_lake_contains_the_command_to_make_one(
    tmp_path: Path, shell: LakeShell
) -> None:
    shell.lake = tmp_path / "nowhere"
    assert shell("show current -o json") == ""
    assert shell.code == 2
    assert f"there is no lake in {shell.lake}" in shell.error
    assert "coterie pipeline run" in shell.error


def test_other_directories_and_newer_lakes_have_different_errors(
    tmp_path: Path, shell: LakeShell
) -> None:
    shell.lake = tmp_path
    (tmp_path / "lake.json").write_text("{}")
    shell("show current")
    assert "does not describe a Coterie lake" in shell.error
    newer = {"schema": "coterie.pipeline.lake", "schema_version": 99}
    (tmp_path / "lake.json").write_text(json.dumps(newer))
    shell("show current")
    assert "made by another version of Coterie" in shell.error
    assert shell.code == 2


@pytest.mark.slow
def test_a_missing_table_is_an_error_in_the_requested_format(
    tmp_path: Path, shell: LakeShell
) -> None:
    shell.lake = tmp_path / "lake"
    Lake.create(shell.lake, "segments:log")
    document = json.loads(shell("show current -o json"))
    assert shell.code == 1
    [error] = document["errors"]
    assert "the lake has no table current_groups" in error["message"]


@pytest.mark.slow
def test_a_lake_without_records_is_shown(tmp_path: Path, shell: LakeShell) -> None:
    shell.lake = make_lake(tmp_path / "lake", {})
    assert shell("show lag --since 1h") == ""
    assert shell.code == 0


@pytest.mark.slow
def test_no_show_command_imports_spark(story_lake: Path) -> None:
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
    assert not loaded & {"pyspark", "py4j", "jinja2", "pandas"}
