"""`coterie groups list` and `coterie groups members`, and errors of every command."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from coterie.client.admin.groups import GroupState, GroupType, MemberDescription
from coterie.errors import ConnectionLost
from coterie.types import TopicPartition
from tests.operations.fake_admin import FakeLog, group, member

from .cli_cluster import CliAdmin, Shell, is_golden, make_shell

MEMBER = MemberDescription(
    "m1",
    "app one",
    "/10.0.0.1",
    assignment=(TopicPartition("t", 0), TopicPartition("t", 1)),
    instance_id="i1",
    rack_id="eu-1",
    target_assignment=(TopicPartition("t", 0),),
    epoch=7,
    subscribed_topics=("t",),
)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    admin = CliAdmin(known_logs={TopicPartition("t", 0): FakeLog.of(0, 1_000)})
    admin.add(group("orders", member("m", ("t", 0)), type=GroupType.CONSUMER), t=990)
    admin.add(group("audit", state=GroupState.EMPTY), t=10)
    admin.add(group("by-hand", protocol_type="", state=GroupState.EMPTY))
    return make_shell(admin, monkeypatch, capsys)


def test_the_table_has_type_protocol_and_state(shell: Shell) -> None:
    assert shell("groups list") == (
        "GROUP    TYPE      PROTOCOL  STATE\n"
        "audit    classic   consumer  Empty\n"
        "by-hand  classic   simple    Empty\n"
        "orders   consumer  consumer  Stable\n"
    )
    assert (shell.code, shell.error) == (0, "")


def test_the_wide_table_has_the_coordinator(shell: Shell) -> None:
    assert shell("groups list orders --wide") == (
        "GROUP   TYPE      PROTOCOL  STATE   COORDINATOR\n"
        "orders  consumer  consumer  Stable            1\n"
    )


def test_json_has_an_envelope_and_every_key(shell: Shell) -> None:
    document = shell.json("groups list --glob a*")
    assert (document["schema"], document["schema_version"]) == (
        "coterie.groups.list",
        1,
    )
    assert (document["command"], document["cluster_id"]) == ("groups list", "cluster-1")
    assert document["summary"] == {"ok": 1, "failed": 0, "unit": "groups", "groups": 1}
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
def test_each_filter_option_selects_the_matching_groups(
    shell: Shell, options: str, ids: list[str]
) -> None:
    lines = shell(f"groups list {options} -o csv").splitlines()[1:]
    assert [line.partition(",")[0] for line in lines] == ids


def test_group_ids_are_read_from_a_file(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("orders\n\naudit\n")
    assert len(shell(f"groups list --file '{tmp_path}/ids' -o jsonl").splitlines()) == 2


def test_only_line_feeds_separate_the_group_ids_of_a_file(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "ids").write_bytes("\ufefforders\r\nau\x0bdit\u2028\n".encode())
    shell(f"groups list --file '{tmp_path}/ids' -o jsonl")
    assert r"error: group 'au\x0bdit\u2028': GROUP_ID_NOT_FOUND" in shell.error


def test_group_ids_are_read_from_stdin(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"orders\r\n")))
    assert [
        each["group_id"] for each in shell.json("groups list --file -")["items"]
    ] == ["orders"]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--state Lazy",
            "--state: unknown state 'Lazy'; states are PreparingRebalance,",
        ),
        ("--type odd", "--type: unknown type 'odd'; types are classic, consumer,"),
        ("--regex (", "--regex: '(' is not a regular expression: "),
        ("--lag lots", "--lag: 'lots' is not a condition: use >1000"),
        ("--file /absent/file", "cannot read /absent/file: No such"),
        ("--all orders", "--all selects every group; do not name groups as well"),
    ],
)
def test_an_invalid_selection_returns_exit_code_2_and_one_sentence(
    shell: Shell, option: str, message: str
) -> None:
    assert shell(f"groups list {option}") == ""
    assert shell.code == 2
    assert shell.error.startswith(f"coterie: {message}")


def test_a_file_without_ids_does_not_select_every_group(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "ids").write_text("\n")
    assert shell(f"groups list --file '{tmp_path}/ids'") == ""
    assert (shell.code, "contains no group id" in shell.error) == (2, True)


def test_a_named_group_that_does_not_exist_fails_and_the_rest_is_listed(
    shell: Shell,
) -> None:
    document = shell.json("groups list absent audit")
    assert [each["group_id"] for each in document["items"]] == ["audit"]
    assert document["errors"] == [
        {
            "kind": "group",
            "id": "absent",
            "code": "GROUP_ID_NOT_FOUND",
            "message": "the group does not exist",
        }
    ]
    assert (shell.code, document["summary"]["failed"]) == (1, 1)
    assert shell.error.endswith("ok=1 failed=1 (groups)\n")


def test_an_unavailable_broker_fails_and_the_rest_is_listed(shell: Shell) -> None:
    shell.admin.node_errors[2] = ConnectionLost("broker:9092 hung up")
    assert len(shell("groups list").splitlines()) == 4
    assert shell.code == 1
    assert shell.error == (
        "error: node 2: ConnectionLost: broker:9092 hung up\n"
        "ok=3 failed=1 (groups and nodes)\n"
    )


def test_a_failed_run_is_printed_in_the_requested_format(shell: Shell) -> None:
    shell.admin.run_error = ConnectionLost("no broker could be reached")
    document = shell.json("groups list")
    assert (shell.code, document["items"]) == (1, [])
    assert document["errors"][0]["message"] == "no broker could be reached"
    assert document["errors"][0]["kind"] == "run"


@pytest.mark.parametrize("verb", ["list", "describe", "lag", "members"])
def test_a_note_reports_a_pattern_without_matches(shell: Shell, verb: str) -> None:
    assert shell(f"groups {verb} --glob nothing-*") == ""
    assert (shell.code, shell.error) == (0, "no group is selected\n")


def test_members_of_a_consumer_group_are_listed(shell: Shell) -> None:
    classic = replace(MEMBER, member_id="m2", instance_id=None, is_classic=True)
    upgraded = replace(MEMBER, is_classic=False, subscribed_topic_regex="t.*")
    shell.admin.known_groups["orders"] = replace(
        group("orders", upgraded, replace(classic, assignment=())),
        type=GroupType.CONSUMER,
        group_epoch=8,
        assignment_epoch=7,
    )
    assert is_golden("members", shell("groups members orders"))
    assert is_golden("members-wide", shell("groups members orders --wide"))


def test_members_of_a_classic_group_are_listed_with_their_generation(
    shell: Shell,
) -> None:
    leader = replace(
        member("m", ("t", 0)), protocols=("range", "sticky"), subscribed_topics=("t",)
    )
    old = group("old", leader)
    shell.admin.known_groups["old"] = replace(old, generation_id=3, leader_id="m-id")
    (item,) = shell.json("groups members old")["items"]
    assert (item["protocol"], item["generation_id"], item["is_leader"]) == (
        "classic",
        3,
        True,
    )
    assert (item["offers"], item["assignment"]) == (["range", "sticky"], {"t": [0]})
    assert (item["member_epoch"], item["target_assignment"]) == (None, None)


def test_empty_groups_are_notes_and_missing_groups_are_failures(
    shell: Shell,
) -> None:
    assert shell("groups members audit absent") == ""
    assert shell.code == 1
    assert shell.error.splitlines() == [
        "no active members in audit",
        "there is no group 'absent': `coterie groups list` shows all",
        "error: group absent: GROUP_ID_NOT_FOUND: no group absent",
        "ok=0 failed=1 (groups)",
    ]


def test_an_unreported_member_protocol_is_null(shell: Shell) -> None:
    orders = group("orders", MEMBER)
    shell.admin.known_groups["orders"] = replace(
        orders, type=GroupType.CONSUMER, group_epoch=8
    )
    (item,) = shell.json("groups members orders")["items"]
    assert (item["protocol"], item["group_epoch"]) == (None, 8)
