"""`--list` and `--describe`: tables, notices, and the output stream of each."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from io import StringIO

import pytest

from coterie.cli import connect
from coterie.cli.kafka_consumer_groups.command import main
from coterie.client.admin.groups import GroupState, GroupType
from coterie.errors import ApiError, ConnectionLost
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .fake_cluster import FakeCluster, RunLine, is_golden, runner_for


@pytest.fixture
def cluster() -> FakeCluster:
    """Return a cluster with a classic group, an Empty group and a consumer group."""
    cluster = FakeCluster()
    cluster.known_logs = {
        TopicPartition("orders", 0): FakeLog.of(0, 150),
        TopicPartition("orders", 1): FakeLog.of(0, 10),
        TopicPartition("cut", 0): FakeLog.of(40, 50),
    }
    reads = group("reads", member("a"), member("b", ("orders", 0), ("orders", 1)))
    cluster.add(reads, orders=120, cut=2)
    cluster.add(group("waits", state=GroupState.EMPTY), orders=160)
    moves = group("moves", member("m"), type=GroupType.CONSUMER)
    cluster.add(replace(moves, state=GroupState.RECONCILING))
    return cluster


@pytest.fixture
def run(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> RunLine:
    return runner_for(cluster, monkeypatch)


def test_the_list_has_ids_in_order(run: RunLine) -> None:
    assert run("--list") == ("moves\nreads\nwaits\n", "", 0)


def test_only_consumer_groups_are_listed(cluster: FakeCluster, run: RunLine) -> None:
    cluster.add(group("shares", type=GroupType.SHARE, protocol_type="share"))
    cluster.add(group("connect", protocol_type="connect"))
    cluster.add(group("by-hand", protocol_type=""))
    assert run("--list").stdout == "by-hand\nmoves\nreads\nwaits\n"


@pytest.mark.fact("C-47b")
def test_the_list_is_filtered_by_states_and_types_in_any_case(
    cluster: FakeCluster, run: RunLine
) -> None:
    result = run("--list --state STABLE,empty --type Classic")
    assert result.stdout.split("\n")[1:] == [
        f"{'reads':<25} {'Classic':<20} {'Stable':<20}",
        f"{'waits':<25} {'Classic':<20} {'Empty':<20}",
        "",
    ]
    filters = ({GroupState.STABLE, GroupState.EMPTY}, {GroupType.CLASSIC})
    assert cluster.requests[0] == ("list_groups", filters)


@pytest.mark.fact("C-47c")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "--list --state stable,flying",
            "Invalid state list 'stable,flying'. Valid states are: PreparingRebalance, "
            "CompletingRebalance, Stable, Dead, Empty, Assigning, Reconciling",
        ),
        (
            "--list --type share",
            "Invalid types list 'share'. Valid types are: Classic, Consumer",
        ),
    ],
)
def test_unknown_states_and_types_are_refused(
    line: str, why: str, run: RunLine
) -> None:
    result = run(line)
    assert result.stderr.startswith(f"{why}\n")
    assert (result.stdout, result.exit_code) == ("", 1)


def test_an_unavailable_broker_does_not_hide_groups_of_other_brokers(
    cluster: FakeCluster, run: RunLine
) -> None:
    cluster.node_errors[2] = ConnectionLost("gone")
    result = run("--list")
    assert result.stdout == "moves\nreads\nwaits\n"
    assert result.stderr == "\nError: the groups of broker 2 are not listed: gone\n"
    assert result.exit_code == 1


@pytest.mark.fact("A-70", "A-71", "A-73a", "A-73b", "C-46b")
def test_offsets_are_described_group_by_group_in_order_of_names(run: RunLine) -> None:
    result = run("--describe --all-groups")
    assert is_golden("describe-all", result.stdout)
    assert result.exit_code == 0


@pytest.mark.fact("A-74a", "A-74b")
def test_notices_about_the_state_go_to_stderr(run: RunLine) -> None:
    err = run("--describe --all-groups --members").stderr
    assert err == (
        "\nWarning: Consumer group 'moves' is rebalancing.\n"
        "\nConsumer group 'waits' has no active members.\n"
    )


def test_a_commit_outside_the_log_is_a_warning_and_its_lag_is_clamped(
    run: RunLine,
) -> None:
    """Deviate from kafka-consumer-groups.sh, which counts deleted records and prints a
    negative lag."""
    err = run("--describe --group reads --group waits").stderr
    assert (
        "Consumer group 'reads' is at offset 2 of cut-0, but its log starts at "
        "40: the records between are deleted." in err
    )
    assert (
        "Consumer group 'waits' is at offset 160 of orders-0, but its log ends "
        "at 150." in err
    )


@pytest.mark.fact("I-11")
@pytest.mark.parametrize("table", ["--offsets", "--members", "--state"])
def test_a_missing_group_is_an_error_on_stderr(table: str, run: RunLine) -> None:
    result = run(f"--describe --group nope {table}")
    assert result == ("", "\nError: Consumer group 'nope' does not exist.\n", 1)


@pytest.mark.fact("A-74c")
@pytest.mark.parametrize("table", ["--offsets", "--members", "--state"])
def test_a_dead_group_has_no_table(
    table: str, cluster: FakeCluster, run: RunLine
) -> None:
    cluster.add(group("gone", member("m"), state=GroupState.DEAD), orders=1)
    text = "\nError: Consumer group 'gone' does not exist.\n"
    assert run(f"--describe --group gone {table}") == ("", text, 1)


@pytest.mark.parametrize("table", ["--offsets", "--members", "--state"])
def test_a_group_that_cannot_be_described_does_not_affect_the_others(
    table: str, cluster: FakeCluster, run: RunLine
) -> None:
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not authorized")
    cluster.group_errors["moves"] = refused
    result = run(f"--describe --all-groups {table}")
    assert "Consumer group 'moves' cannot be described: not authorized" in result.stderr
    assert "\nreads " in result.stdout
    assert result.exit_code == 1


def test_a_deleted_topic_does_not_affect_other_rows(
    cluster: FakeCluster, run: RunLine
) -> None:
    del cluster.known_logs[TopicPartition("cut", 0)]
    result = run("--describe --group reads")
    assert result.stderr == "\nError: Consumer group 'reads', cut-0: no such topic\n"
    rows = [line.split()[1:6] for line in result.stdout.splitlines()[2:]]
    assert ["cut", "0", "2", "-", "-"] in rows
    assert ["orders", "0", "120", "150", "30"] in rows
    assert result.exit_code == 1


def test_all_groups_are_described_with_one_call_of_each_kind(
    cluster: FakeCluster, run: RunLine
) -> None:
    for number in range(200):
        cluster.add(group(f"g{number}", state=GroupState.EMPTY), orders=1)
    run("--describe --all-groups")
    calls = sorted(name for name in cluster.calls if name != "close")
    assert calls == [
        "describe_groups",
        "list_groups",
        "list_groups_offsets",
        "list_offsets",
        "list_offsets",
    ]


@pytest.mark.fact("A-74d")
def test_an_unknown_state_is_an_error(cluster: FakeCluster, run: RunLine) -> None:
    cluster.add(group("odd", state=GroupState.UNKNOWN))
    result = run("--describe --group odd --state")
    text = "\nError: Expected a valid consumer group state, but found 'Unknown'.\n"
    assert (result.stderr, result.exit_code) == (text, 1)


@pytest.mark.fact("C-33")
@pytest.mark.parametrize(
    ("topics", "rows"),
    [
        ("--topic orders", [("orders", "0"), ("orders", "1")]),
        ("--topic orders:1,7", [("orders", "1")]),
        ("--topic orders:0 --topic cut", [("orders", "0"), ("cut", "0")]),
        ("--topic else", []),
    ],
)
def test_rows_are_selected_by_topic(
    topics: str, rows: list[tuple[str, str]], run: RunLine
) -> None:
    result = run(f"--describe --group reads {topics}")
    printed = (line.split()[1:3] for line in result.stdout.splitlines()[2:])
    assert [tuple(each) for each in printed] == rows


@pytest.mark.fact("C-51a", "C-51b")
def test_an_empty_group_has_a_state_and_the_header_of_members(run: RunLine) -> None:
    notice = "\nConsumer group 'waits' has no active members.\n"
    result = run("--describe --group waits --state")
    assert result.stderr == notice
    assert result.stdout.splitlines()[2].split()[:4] == [
        "waits",
        "broker:9092",
        "(1)",
        "range",
    ]
    result = run("--describe --group waits --members")
    assert result.stderr == notice
    assert result.stdout.split() == [
        "GROUP",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "ASSIGNMENT-STRATEGY",
    ]


def test_an_unreachable_cluster_returns_exit_code_1(
    cluster: FakeCluster, run: RunLine
) -> None:
    cluster.broken = ConnectionLost("x:1 cannot be reached")
    what = "\nError: Executing consumer group command failed due to "
    assert run("--list") == ("", f"{what}x:1 cannot be reached\n", 1)


@pytest.mark.fact("C-48")
@pytest.mark.parametrize("action", ["--list", "--describe", "--delete"])
@pytest.mark.parametrize(("given", "timeout_ms"), [("", 30_000), ("--timeout 7", 7)])
def test_the_timeout_applies_to_every_action(
    action: str,
    given: str,
    timeout_ms: int,
    cluster: FakeCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[Namespace] = []

    def open_admin(connection: Namespace) -> FakeCluster:
        opened.append(connection)
        return cluster

    monkeypatch.setattr(connect, "open_admin", open_admin)
    groups = "" if action == "--list" else "--group waits"
    main(f"--bootstrap-server x:1 {action} {groups} {given}".split())
    assert [each.timeout for each in opened] == [timeout_ms]


class Terminal(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_control_characters_of_a_client_id_are_escaped_at_a_terminal(
    cluster: FakeCluster, run: RunLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(group("odd", member("\x1b[2J")))
    assert "\x1b[2J-id" in run("--describe --group odd --members").stdout
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    words = "--bootstrap-server x:1 --describe --group odd --members"
    assert main(words.split()) == 0
    assert "\\x1b[2J-id" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_a_line_feed_in_a_client_id_makes_no_row_at_a_terminal(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, run: RunLine
) -> None:
    client_id = "a\nreads forged"
    evil = replace(member("a"), client_id=client_id)
    cluster.add(group("reads", evil), orders=120)
    line = "--bootstrap-server x:1 --describe --group reads --members"
    # In a pipe the output is that of kafka-consumer-groups.sh.
    assert f"{client_id} " in run(line.partition("x:1 ")[2]).stdout
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    main(line.split())
    assert "a\\nreads forged " in terminal.getvalue()


def test_a_line_feed_in_a_group_id_makes_no_group_at_a_terminal(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, run: RunLine
) -> None:
    cluster.add(group("z\nforged"))
    assert run("--list").stdout.endswith("waits\nz\nforged\n")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    main(["--bootstrap-server", "x:1", "--list"])
    assert terminal.getvalue().endswith("waits\nz\\nforged\n")


@pytest.mark.parametrize("kind", [GroupType.SHARE, GroupType.STREAMS])
@pytest.mark.parametrize("what", ["", " --members", " --state"])
def test_a_group_of_another_type_is_not_a_consumer_group(
    cluster: FakeCluster, run: RunLine, kind: GroupType, what: str
) -> None:
    cluster.add(group("other", type=kind, protocol_type=kind.value))
    name = kind.value
    out, err, code = run(f"--describe{what} --group other --group reads")
    assert err.startswith(
        f"\nError: Group 'other' is a {name} group, not a consumer group;"
    )
    assert "reads" in out
    assert code == 1


def test_a_group_of_another_type_is_not_reset(
    cluster: FakeCluster, run: RunLine
) -> None:
    cluster.add(
        group(
            "shares",
            type=GroupType.SHARE,
            protocol_type="share",
            state=GroupState.EMPTY,
        )
    )
    line = "--reset-offsets --to-earliest --topic orders:0 --dry-run"
    out, err, code = run(f"{line} --group shares --group waits")
    assert "'shares' is a share group, not a consumer group" in err
    assert "waits" in out
    assert "shares" not in out
    assert code == 1
