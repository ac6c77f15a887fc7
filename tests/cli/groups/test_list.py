"""`coterie groups list`, and what every command has in common."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from coterie.client.admin.group_values import GroupState, GroupType
from coterie.errors import ConnectionLost
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeLog, group, member

from .cli_cluster import CliAdmin, Shell, make_shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    admin = CliAdmin(logs={TopicPartition("t", 0): FakeLog.of(0, 1_000)})
    admin.add(group("orders", member("m", ("t", 0)), type=GroupType.CONSUMER), t=990)
    admin.add(group("audit", state=GroupState.EMPTY), t=10)
    admin.add(group("by-hand", protocol_type="", state=GroupState.EMPTY))
    return make_shell(admin, monkeypatch, capsys)


def test_the_table(shell: Shell) -> None:
    assert shell("groups list") == (
        "GROUP    TYPE      PROTOCOL  STATE\n"
        "audit    classic   consumer  Empty\n"
        "by-hand  classic   simple    Empty\n"
        "orders   consumer  consumer  Stable\n"
    )
    assert (shell.code, shell.error) == (0, "")


def test_the_wide_table(shell: Shell) -> None:
    assert shell("groups list orders --wide") == (
        "GROUP   TYPE      PROTOCOL  STATE   COORDINATOR\n"
        "orders  consumer  consumer  Stable            1\n"
    )


def test_json(shell: Shell) -> None:
    document = shell.json("groups list --glob a*")
    assert (document["schema"], document["schema_version"]) == (
        "coterie.groups.list",
        1,
    )
    assert (document["command"], document["cluster_id"]) == ("groups list", "cluster-1")
    assert document["summary"] == {"ok": 1, "failed": 0, "groups": 1}
    assert document["items"] == [
        {
            "group_id": "audit",
            "group_type": "classic",
            "protocol_type": "consumer",
            "is_simple": False,
            "state": "Empty",
            "coordinator_id": 1,
            "error": None,
        }
    ]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ("--state stable", ["orders"]),
        ("--state stable,EMPTY --exclude b*", ["audit", "orders"]),
        ("--type Consumer", ["orders"]),
        ("--empty --protocol simple", ["by-hand"]),
        ("--regex .*r.*", ["orders"]),
        ("--topic t --lag >100", ["audit"]),
        ("--all", ["audit", "by-hand", "orders"]),
    ],
)
def test_selections(shell: Shell, options: str, ids: list[str]) -> None:
    lines = shell(f"groups list {options} -o csv").splitlines()[1:]
    assert [line.partition(",")[0] for line in lines] == ids


def test_ids_from_a_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("orders\n\naudit\n")
    assert len(shell(f"groups list --file {tmp_path}/ids -o jsonl").splitlines()) == 2


def test_ids_from_stdin(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("orders\n"))
    assert [
        each["group_id"] for each in shell.json("groups list --file -")["items"]
    ] == ["orders"]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--state Lazy", "--state: there is no 'Lazy'; states are PreparingRebalance,"),
        ("--type odd", "--type: there is no 'odd'; types are classic, consumer,"),
        ("--regex (", "--regex: '(' is none: "),
        ("--lag lots", "--lag: 'lots' is no condition: say >1000"),
        ("--file /absent/file", "/absent/file cannot be read: No such"),
        ("--all orders", "--all means every group; name none besides"),
    ],
)
def test_what_cannot_be_meant_is_exit_code_2_and_a_sentence(
    shell: Shell, option: str, said: str
) -> None:
    assert shell(f"groups list {option}") == ""
    assert shell.code == 2
    assert shell.error.startswith(f"coterie: {said}")


def test_a_file_without_ids_does_not_mean_every_group(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "ids").write_text("\n")
    assert shell(f"groups list --file {tmp_path}/ids") == ""
    assert (shell.code, "there is no group's id" in shell.error) == (2, True)


def test_a_named_group_that_is_not_there_fails_and_the_rest_is_listed(
    shell: Shell,
) -> None:
    document = shell.json("groups list absent audit")
    assert [each["group_id"] for each in document["items"]] == ["audit"]
    assert document["errors"] == [
        {
            "kind": "group",
            "id": "absent",
            "code": "GROUP_ID_NOT_FOUND",
            "message": "there is no such group",
        }
    ]
    assert (shell.code, document["summary"]["failed"]) == (1, 1)
    assert shell.error.endswith("ok=1 failed=1\n")


def test_a_broker_that_is_down_fails_and_the_rest_is_listed(shell: Shell) -> None:
    shell.admin.node_errors[2] = ConnectionLost("broker:9092 hung up")
    assert len(shell("groups list").splitlines()) == 4
    assert shell.code == 1
    assert shell.error == (
        "error: node 2: ConnectionLost: broker:9092 hung up\nok=3 failed=1\n"
    )


def test_a_run_that_fails_is_told_in_the_form_that_was_asked_for(shell: Shell) -> None:
    shell.admin.run_error = ConnectionLost("no broker could be reached")
    document = shell.json("groups list")
    assert (shell.code, document["items"]) == (1, [])
    assert document["errors"][0]["message"] == "no broker could be reached"
    assert document["errors"][0]["kind"] == "run"


@pytest.mark.parametrize("verb", ["list", "describe", "lag", "members"])
def test_a_pattern_that_nothing_matches_is_told(shell: Shell, verb: str) -> None:
    assert shell(f"groups {verb} --glob nothing-*") == ""
    assert (shell.code, shell.error) == (0, "no group is selected\n")
