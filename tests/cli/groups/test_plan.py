"""`coterie groups plan`, `apply` and `undo`."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from tests.operations.small_cluster import A0, B0, small_cluster
from tests.support.full_disk import full_disk

from .write_shell import WriteShell, shell

__all__ = ["shell"]


def results(shell: WriteShell) -> list[dict[str, Any]]:
    lines = (shell.home / "p.json.results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines[1:]]


def test_a_plan_can_be_written_and_reviewed_and_applied_and_undone(
    shell: WriteShell,
) -> None:
    shell("plan HOME/p.json reset g h --to-earliest")
    assert shell.code == 0
    assert shell.error.endswith(
        f"2 items are in {shell.home}/p.json: coterie groups apply {shell.home}/p.json"
        " --execute\n"
    )
    assert "planned" in shell("apply HOME/p.json")
    assert "alter_group_offsets" not in shell.admin.calls

    assert "done" in shell.write("apply HOME/p.json")
    assert [each["verdict"] for each in results(shell)] == ["done", "done"]
    assert shell.admin.known_groups["g"].offsets[A0] == CommittedOffset(2, 1, "m")

    (snapshot_id,) = shell.snapshot_ids
    shell.write(f"undo {snapshot_id}")
    assert (
        shell.admin.known_groups["g"].offsets
        == small_cluster().known_groups["g"].offsets
    )
    assert (
        shell.admin.known_groups["h"].offsets
        == small_cluster().known_groups["h"].offsets
    )


@pytest.mark.parametrize(
    ("line", "item_id"),
    [
        ("reset g --to-earliest", "reset:g"),
        ("set g a:0=3", "set:g"),
        ("delete g", "delete-group:g"),
        ("delete-offsets g --partitions a", "delete-offsets:g"),
        ("clone g new", "clone:new"),
        ("remove-members live --all", "remove-members:live"),
    ],
)
def test_every_action_can_be_planned_and_applied(
    shell: WriteShell, line: str, item_id: str
) -> None:
    shell(f"plan HOME/p.json {line}")
    document = json.loads((shell.home / "p.json").read_text())
    assert list(document)[:2] == ["schema", "schema_version"]
    assert [item["item_id"] for item in document["items"]] == [item_id]
    shell.write("apply HOME/p.json")
    assert shell.code == 0
    assert [each["verdict"] for each in results(shell)] == ["done"]


def test_an_import_can_be_planned(shell: WriteShell) -> None:
    (shell.home / "o.csv").write_text("g,a,0,3\n")
    shell("plan HOME/p.json import HOME/o.csv")
    shell.write("apply HOME/p.json")
    assert shell.admin.known_groups["g"].offsets[A0] == CommittedOffset(3, 1, "m")


def test_a_group_that_cannot_be_planned_is_reported_and_omitted(
    shell: WriteShell,
) -> None:
    shell("plan HOME/p.json delete g live")
    assert shell.code == 1
    assert "group live: NON_EMPTY_GROUP" in shell.error
    assert "1 item is in" in shell.error


def test_no_file_is_written_for_an_empty_plan(shell: WriteShell) -> None:
    shell("plan HOME/p.json delete nobody")
    assert shell.code == 1
    assert "no plan was written" in shell.error
    assert list(shell.home.iterdir()) == []


def test_a_changed_group_is_refused_and_the_rest_is_applied(shell: WriteShell) -> None:
    shell("plan HOME/p.json delete g h")
    shell.admin.known_groups["g"].offsets[A0] = CommittedOffset(6, 1, "m")
    table = shell.write("apply HOME/p.json")
    assert [row.split()[-1] for row in table.splitlines()[1:]] == [
        *("refused", "refused"),
        "done",
    ]
    assert shell.code == 1
    assert (
        "group g is refused: a-0 was at 5 (epoch 1) and is at 6 (epoch 1)"
        in shell.error
    )
    assert shell.error.endswith("ok=1 failed=1 (groups)\n")
    assert sorted(shell.admin.known_groups) == ["g", "live"]
    assert [each["verdict"] for each in results(shell)] == ["refused", "done"]
    (item,) = shell.json("apply HOME/p.json --item delete-group:g")["items"][:1]
    assert item["error"]["code"] == "REFUSED"


def test_force_applies_a_refused_item(shell: WriteShell) -> None:
    shell("plan HOME/p.json delete g")
    shell.admin.known_groups["g"].offsets[A0] = CommittedOffset(6, 1, "m")
    shell.write("apply HOME/p.json --force")
    assert shell.code == 0
    assert "group g is written with --force: a-0 was at 5" in shell.error
    assert "g" not in shell.admin.known_groups


def test_rows_have_the_offsets_just_before_the_write(shell: WriteShell) -> None:
    shell("plan HOME/p.json reset g --to-earliest")
    shell.admin.known_groups["g"].offsets[A0] = CommittedOffset(8)
    refused = shell.json("apply HOME/p.json")["items"]
    assert [each["prior_offset"] for each in refused] == [8, 7]
    written = shell.json("apply HOME/p.json --force --yes")["items"]
    assert [(each["prior_offset"], each["delta"]) for each in written] == [
        (8, -6),
        (7, -7),
    ]


def test_a_forced_delete_has_a_row_for_each_current_offset(shell: WriteShell) -> None:
    shell("plan HOME/p.json delete h")
    shell.admin.known_groups["h"].offsets[B0] = CommittedOffset(3)
    items = shell.json("apply HOME/p.json --force --yes")["items"]
    assert [(each["topic"], each["prior_offset"]) for each in items] == [
        ("a", 9),
        ("b", 3),
    ]


def test_an_applied_item_is_skipped_by_the_next_run(shell: WriteShell) -> None:
    shell("plan HOME/p.json reset g h --to-earliest")
    assert "reset:h" in shell("apply HOME/p.json --wide")
    shell.write("apply HOME/p.json --item reset:h")
    shell.admin.known_groups["h"].offsets[A0] = CommittedOffset(10)
    shell.write("apply HOME/p.json")
    assert shell.code == 0
    assert [each["item_id"] for each in results(shell)] == ["reset:h", "reset:g"]
    assert shell.admin.known_groups["h"].offsets[A0] == CommittedOffset(10)


def test_a_plan_for_another_cluster_is_refused(shell: WriteShell) -> None:
    shell("plan HOME/p.json delete g")
    shell.admin.cluster_id = "other"
    shell.write("apply HOME/p.json")
    assert shell.code == 1
    assert shell.error == (
        f"error: the plan {shell.home}/p.json is for cluster model, and this is other: "
        "nothing was written; connect to the other cluster, or use --force\n"
        "ok=0 failed=1\n"
    )
    assert shell("apply HOME/p.json") == ""
    assert not (shell.home / "p.json.results.jsonl").exists()
    shell.write("apply HOME/p.json --force")
    assert shell.code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("apply HOME/nowhere.json", "No such file"),
        ("apply HOME/p.json --item no", "the plan has no item 'no'"),
        ("undo no", "there is no snapshot 'no'"),
        ("plan HOME/p.json delete g", "p.json: File exists"),
    ],
)
def test_a_usage_error_returns_exit_code_2(
    shell: WriteShell, line: str, message: str
) -> None:
    shell("plan HOME/p.json delete g")
    shell(line)
    assert shell.code == 2
    assert message in shell.error


def test_an_unwritable_result_file_is_an_error_before_anything_is_written(
    shell: WriteShell,
) -> None:
    shell("plan HOME/p.json reset g --to-earliest")
    shell.write("apply HOME/p.json --results HOME/nowhere/r")
    assert shell.code == 2
    assert "nowhere/r: No such file" in shell.error
    assert "alter_group_offsets" not in shell.admin.calls


@pytest.mark.parametrize(
    "action",
    ["reset", "set", "import", "delete-offsets", "delete", "clone", "remove-members"],
)
def test_every_action_has_an_example(shell: WriteShell, action: str) -> None:
    with pytest.raises(SystemExit):
        shell(f"plan FILE {action} --help")
    shown = shell.capture.readouterr().out
    assert f"example:\n  coterie groups plan FILE {action} " in shown


def test_snapshots_are_listed(shell: WriteShell) -> None:
    shell.write("reset g --to-earliest")
    table = shell("undo --list --snapshots HOME/snapshots")
    (row,) = table.splitlines()[1:]
    assert row.split()[0] == shell.snapshot_ids[0]
    assert row.split()[2:] == ["coterie", "groups", "reset", "1"]


def test_an_undo_is_a_dry_run_by_default(shell: WriteShell) -> None:
    shell.write("delete g")
    (snapshot_id,) = shell.snapshot_ids
    table = shell(f"undo {snapshot_id} --snapshots HOME/snapshots")
    assert [row.split()[-2:] for row in table.splitlines()[1:]] == [
        ["no-commit", "planned"]
    ] * 2
    assert "g" not in shell.admin.known_groups


def test_an_undo_can_be_undone(shell: WriteShell) -> None:
    shell.write("delete g")
    shell.write(f"undo {shell.snapshot_ids[0]}")
    assert shell.admin.known_groups["g"].offsets[B0] == CommittedOffset(7)
    shell.write(f"undo {shell.snapshot_ids[1]}")
    assert "g" not in shell.admin.known_groups


def test_a_group_changed_since_the_write_is_not_restored(shell: WriteShell) -> None:
    shell.write("reset g --to-earliest")
    shell.admin.known_groups["g"].offsets[A0] = CommittedOffset(4)
    (snapshot_id,) = shell.snapshot_ids
    shell.write(f"undo {snapshot_id}")
    assert shell.code == 1
    assert "a-0 moved on since the write" in shell.error
    shell.write(f"undo {snapshot_id} --force")
    assert shell.code == 0
    assert (
        shell.admin.known_groups["g"].offsets
        == small_cluster().known_groups["g"].offsets
    )


def test_a_snapshot_of_another_cluster_is_refused(shell: WriteShell) -> None:
    shell.write("reset g --to-earliest")
    shell.admin.cluster_id = "other"
    shell.write(f"undo {shell.snapshot_ids[0]}")
    assert shell.code == 2
    assert "is of cluster model, but this is cluster other" in shell.error


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("plan HOME/new.json reset g --to-earliest", "new.json"),
        ("offsets export g --to HOME/new.json", "new.json"),
        ("apply HOME/p.json --execute --results HOME/r", "r"),
    ],
)
def test_a_full_disk_leaves_no_file(shell: WriteShell, line: str, file: str) -> None:
    shell("plan HOME/p.json reset g --to-earliest")
    with full_disk(20):
        shell(line)
    assert shell.code == 1
    error = f"error: cannot write {shell.home}/{file}: File too large\nok=0 failed=1\n"
    assert shell.error.endswith(error)
    assert not (shell.home / file).exists()
    assert "alter_group_offsets" not in shell.admin.calls


def test_a_full_disk_leaves_no_snapshot_and_changes_no_group(shell: WriteShell) -> None:
    with full_disk(300):
        shell.write("reset g h --to-earliest")
    assert shell.code == 1
    assert "File too large; no group is changed without a snapshot" in shell.error
    assert shell.snapshot_ids == []
    assert "alter_group_offsets" not in shell.admin.calls


def test_a_full_disk_during_the_results_is_reported(shell: WriteShell) -> None:
    shell("plan HOME/p.json reset g h --to-earliest")
    shell("apply HOME/p.json --item reset:g --execute --snapshots HOME/snapshots")
    before = (shell.home / "p.json.results.jsonl").read_bytes()
    with full_disk(len(before) + 20):
        shell(f"apply HOME/p.json --execute --snapshots {os.devnull}")
    assert "cannot write" in shell.error
    assert (shell.home / "p.json.results.jsonl").read_bytes() == before
