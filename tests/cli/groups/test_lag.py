"""`coterie groups describe` and `coterie groups lag`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from coterie.cli.output import emit
from coterie.client.admin.groups import GroupState, GroupType, MemberDescription
from coterie.errors import ApiError, ConnectionLost
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group

from .cli_cluster import CliAdmin, Shell, is_golden, make_shell

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBER = MemberDescription(
    "m1",
    "app one",
    "/10.0.0.1",
    assignment=(T0, T1),
    instance_id="i1",
    rack_id="eu-1",
    target_assignment=(T0,),
    epoch=7,
    subscribed_topics=("t",),
)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    logs = {T0: FakeLog.of(10, 100), T1: FakeLog.of(0, 50)}
    admin = CliAdmin(known_logs={**logs, TopicPartition("u", 0): FakeLog.of(0, 9)})
    admin.add(group("orders", MEMBER, type=GroupType.CONSUMER), t=40, u=9)
    admin.add(group("audit", state=GroupState.EMPTY), t=5)
    now = datetime(1970, 1, 1, 0, 10, tzinfo=UTC)
    monkeypatch.setattr(emit, "wall_clock", lambda: now)
    return make_shell(admin, monkeypatch, capsys)


@pytest.mark.fact("C-33")
def test_the_table_has_the_columns_of_kafka_consumer_groups_sh(
    shell: Shell,
) -> None:
    text = shell("groups describe orders")
    assert is_golden("describe", text)
    assert (shell.code, shell.error) == (0, "")
    header, *_, last = text.splitlines()
    narrowed = shell("groups describe orders --topic u").splitlines()
    assert [line.split() for line in narrowed] == [header.split(), last.split()]


def test_the_wide_table_has_every_column_and_warnings(shell: Shell) -> None:
    text = shell("groups describe audit orders --topic t --wide")
    assert is_golden("describe-wide", text)
    assert shell.error.splitlines() == [
        "no active members in audit",
        "warning: commits below the log start offset, so that records were deleted "
        "before they were read: 1 (--wide shows them)",
        "offsets expire 7d00h after the event in EXPIRY",
    ]


def test_an_unreadable_retention_is_null(shell: Shell) -> None:
    summary = shell.json("groups describe orders --wide")["summary"]
    assert summary["offsets_retention_ms"] == 7 * 24 * 60 * 60_000
    shell.admin.retention = None
    hidden = shell.json("groups describe orders --wide")["summary"]
    assert (hidden["offsets_retention_ms"], shell.code) == (None, 0)


def test_a_json_item_has_every_key(shell: Shell) -> None:
    document = shell.json("groups describe orders --topic t --time-lag")
    assert document["schema"] == "coterie.groups.describe.partition"
    assert document["summary"] == {
        "ok": 2,
        "failed": 0,
        "unit": "partitions",
        "groups": 1,
        "lag": 60,
    }
    assert document["items"][0] == {
        "group_id": "orders",
        "group_type": "consumer",
        "state": "Stable",
        "coordinator_id": 1,
        "topic": "t",
        "partition": 0,
        "committed_offset": 40,
        "start_offset": None,
        "leader_epoch": None,
        "metadata": "",
        "log_start_offset": 10,
        "log_end_offset": 100,
        "lag": 60,
        "lag_raw": 60,
        "lag_status": "normal",
        "time_lag_ms": 560_000,
        "time_lag_method": "exact",
        "time_lag_error_ms": 0,
        "last_commit_ms": None,
        "margin": 30,
        "expiry_clock": "stopped",
        "member_id": "m1",
        "member_epoch": 7,
        "instance_id": "i1",
        "client_id": "app one",
        "host": "/10.0.0.1",
        "rack_id": "eu-1",
        "error": None,
    }


def test_time_lag_is_not_computed_by_default(shell: Shell) -> None:
    items = shell.json("groups describe orders")["items"]
    assert {each["time_lag_method"] for each in items} == {None}
    assert len(shell.admin.logs_asked) == 2


def test_every_format_has_the_same_rows(shell: Shell) -> None:
    lines = {
        form: len(shell(f"groups describe --output {form}").splitlines())
        for form in ("table", "wide", "jsonl", "csv", "md")
    }
    assert lines == {"table": 5, "wide": 5, "jsonl": 4, "csv": 5, "md": 6}


@pytest.mark.parametrize("by", ["group", "topic", "member", "host"])
def test_lag_is_summed_by_each_unit(shell: Shell, by: str) -> None:
    assert is_golden(f"describe-by-{by}", shell(f"groups describe --by {by}"))


def test_lag_has_one_row_per_group(shell: Shell) -> None:
    assert is_golden("lag-wide", shell("groups lag --wide"))
    assert shell.json("groups lag --by topic")["schema"] == "coterie.groups.lag.topic"


def column(shell: Shell, line: str, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(each[key] for key in keys) for each in shell.json(line)["items"]]


def test_rows_are_sorted_by_a_column_and_limited(shell: Shell) -> None:
    line = "groups describe --sort lag"
    assert column(shell, line, "lag") == [(90,), (60,), (0,), (None,)]
    assert column(shell, f"{line} --top 2", "lag") == [(90,), (60,)]
    assert column(shell, "groups describe --sort TOPIC", "topic") == [
        *[("t",)] * 3,
        ("u",),
    ]
    assert column(shell, f"{line} --only-lagging", "lag") == [(90,), (60,)]


def test_rows_with_errors_are_always_shown(shell: Shell) -> None:
    shell.admin.log_errors[T1] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    line = "groups describe --sort lag --top 1 --only-lagging"
    rows = shell(line).splitlines()
    assert [row.split()[0] for row in rows] == ["GROUP", "audit", "orders"]
    assert rows[2].endswith("  LEADER_NOT_AVAILABLE")
    assert (shell.code, shell.error.splitlines()[-1]) == (
        1,
        "ok=1 failed=1 (partitions)",
    )


@pytest.mark.parametrize(
    ("condition", "code"), [(">89", 3), (">90", 0), ("0", 3), ("<0", 0)]
)
def test_the_exit_code_is_3_when_any_row_meets_the_lag_condition(
    shell: Shell, condition: str, code: int
) -> None:
    shell(f"groups describe --fail-if-lag {condition} --top 1")
    assert shell.code == code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("describe orders --fail-if-time-lag >9m", 3),
        ("describe orders --fail-if-time-lag >=PT9M20S", 3),
        ("describe orders --fail-if-time-lag >10m", 0),
        ("lag --fail-if-time-lag >9m", 3),
        ("lag --by topic --fail-if-time-lag >10m", 0),
        ("watch --count 1 --fail-if-time-lag 9m", 3),
    ],
)
def test_the_exit_code_is_3_when_any_row_meets_the_time_lag_condition(
    shell: Shell, line: str, code: int
) -> None:
    shell(f"groups {line}")
    assert shell.code == code
    assert ("--fail-if-time-lag '" in shell.error) == (code == 3)


@pytest.mark.parametrize(
    "line",
    [
        *("groups describe orders", "groups lag", "groups describe --by member"),
        *("groups watch --count 1", "topics consumers t"),
    ],
)
def test_a_partition_without_a_commit_can_fail_the_command(
    shell: Shell, line: str
) -> None:
    shell(f"{line} --fail-if-uncommitted")
    assert shell.code == 3
    assert "--fail-if-uncommitted is true for orders" in shell.error
    # T1 has an owner and no commit, so no condition on its lag is true.
    shell("groups describe orders --topic t --fail-if-lag >60")
    assert shell.code == 0


def test_committed_partitions_do_not_fail_the_command(shell: Shell) -> None:
    shell("groups describe audit --fail-if-uncommitted")
    assert (shell.code, "--fail-if" in shell.error) == (0, False)


def test_a_true_condition_names_the_groups(shell: Shell) -> None:
    shell("groups lag --fail-if-lag >50 --fail-if-uncommitted")
    assert shell.error.splitlines()[-2:] == [
        "--fail-if-lag '>50' is true for audit, orders",
        "--fail-if-uncommitted is true for orders",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--sort speed",
            "coterie: --sort: unknown column 'speed'; columns are group_id",
        ),
        (
            "--fail-if-lag big",
            "coterie: --fail-if-lag: 'big' is not a condition: use >10",
        ),
        (
            "--fail-if-time-lag >5",
            "coterie: --fail-if-time-lag: '>5' is not a condition: use >5m, >=90s",
        ),
    ],
)
def test_an_invalid_option_value_returns_exit_code_2(
    shell: Shell, options: str, message: str
) -> None:
    assert shell(f"groups describe {options}") == ""
    assert (shell.code, shell.error[: len(message)]) == (2, message)
    assert options.startswith("--sort") or "list_groups" not in shell.admin.calls


@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_a_count_below_one_is_refused(shell: Shell, value: str) -> None:
    with pytest.raises(SystemExit) as exited:
        shell(f"groups describe --top={value}")
    assert exited.value.code == 2


def test_a_group_that_cannot_be_read_does_not_affect_the_others(shell: Shell) -> None:
    shell.admin.group_errors["orders"] = ConnectionLost("broker:9092 hung up")
    document = shell.json("groups describe absent orders audit")
    assert {each["group_id"] for each in document["items"]} == {"audit", "orders"}
    assert [(each["id"], each["code"]) for each in document["errors"]] == [
        ("absent", "GROUP_ID_NOT_FOUND"),
        ("orders", "ConnectionLost"),
    ]
    assert shell.code == 1


def test_a_deleted_topic_does_not_affect_other_groups_or_topics(shell: Shell) -> None:
    del shell.admin.known_logs[T0]
    rows = shell("groups describe --all").splitlines()
    assert [row.split()[-1] for row in rows[1:]] == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "-",
        "-",
    ]
    assert shell.code == 1


def test_the_error_of_a_failed_group_is_reported_once(shell: Shell) -> None:
    document = shell.json("groups lag absent audit")
    assert [each["group_id"] for each in document["items"]] == ["absent", "audit"]
    assert document["items"][0]["error"]["code"] == "GROUP_ID_NOT_FOUND"
    assert (document["items"][0]["lag"], document["errors"]) == (None, [])
    assert document["summary"] == {
        "ok": 1,
        "failed": 1,
        "unit": "groups",
        "groups": 2,
        "lag": 90,
    }


def test_a_note_reports_a_rebalancing_group(shell: Shell) -> None:
    orders = shell.admin.known_groups["orders"]
    shell.admin.known_groups["orders"] = replace(orders, state=GroupState.RECONCILING)
    shell("groups describe orders")
    assert shell.error == (
        "warning: owners may change, because of a rebalance in orders\n"
    )


def test_read_committed_fetches_last_stable_offsets(shell: Shell) -> None:
    shell("groups describe --read-committed --topic t")
    assert [flag for _, flag in shell.admin.logs_asked][-2:] == [False, True]


@pytest.mark.parametrize(
    "line",
    [
        "groups lag",
        "groups describe orders --topic t",
        "groups list --lag >0",
        "groups offsets list orders",
        "groups offsets export orders",
        "groups watch orders --count 1",
        "topics consumers t",
    ],
)
def test_topics_that_may_be_hidden_are_said(shell: Shell, line: str) -> None:
    shell.admin.hides_topics = True
    shell(line)
    assert "warning: this principal may not describe all topics" in shell.error
    shell.admin.hides_topics = False
    shell(line)
    assert "principal" not in shell.error
