"""`--list` and `--describe`: what is printed of a cluster, and on which stream."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest

from coterie.cli.kafka_consumer_groups import main
from coterie.client.admin.group_values import GroupState, GroupType
from coterie.errors import ApiError, ConnectionLost
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .fake_cluster import FakeCluster, Typed, is_golden, typed_at


@pytest.fixture
def cluster() -> FakeCluster:
    """A group that reads, one that idles, one that reads by KIP-848, others."""
    cluster = FakeCluster()
    cluster.logs = {
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
def typed(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Typed:
    return typed_at(cluster, monkeypatch)


def test_the_list_is_ids_in_order(typed: Typed) -> None:
    assert typed("--list") == ("moves\nreads\nwaits\n", "", 0)


def test_what_no_consumer_is_in_is_not_listed(
    cluster: FakeCluster, typed: Typed
) -> None:
    cluster.add(group("shares", type=GroupType.SHARE, protocol_type="share"))
    cluster.add(group("connect", protocol_type="connect"))
    cluster.add(group("by-hand", protocol_type=""))
    assert typed("--list").stdout == "by-hand\nmoves\nreads\nwaits\n"


@pytest.mark.fact("C-47")
def test_the_list_is_filtered_by_states_and_types_in_any_case(
    cluster: FakeCluster, typed: Typed
) -> None:
    ran = typed("--list --state STABLE,empty --type Classic")
    assert ran.stdout.split("\n")[1:] == [
        f"{'reads':<25} {'Classic':<20} {'Stable':<20}",
        f"{'waits':<25} {'Classic':<20} {'Empty':<20}",
        "",
    ]
    asked = ({GroupState.STABLE, GroupState.EMPTY}, {GroupType.CLASSIC})
    assert cluster.calls[0] == ("list_groups", asked)


@pytest.mark.fact("C-47")
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
    line: str, why: str, typed: Typed
) -> None:
    ran = typed(line)
    assert ran.stderr.startswith(f"{why}\n")
    assert (ran.stdout, ran.exit_code) == ("", 1)


def test_a_broker_that_does_not_list_hides_no_group_of_the_others(
    cluster: FakeCluster, typed: Typed
) -> None:
    cluster.node_errors[2] = ConnectionLost("gone")
    ran = typed("--list")
    assert ran.stdout == "moves\nreads\nwaits\n"
    assert ran.stderr == "\nError: the groups of broker 2 are not listed: gone\n"
    assert ran.exit_code == 1


@pytest.mark.fact("A-70", "A-71", "A-72", "A-73", "C-46")
def test_offsets_of_every_group_by_name(typed: Typed) -> None:
    ran = typed("--describe --all-groups")
    assert is_golden("describe-all", ran.stdout)
    assert ran.exit_code == 0


def test_strict_tables_have_lag_as_it_is_and_no_idle_members(typed: Typed) -> None:
    assert is_golden(
        "describe-all-strict", typed("--describe --all-groups --strict").stdout
    )


@pytest.mark.fact("A-74")
def test_what_is_to_be_known_of_a_group_stands_on_stderr(typed: Typed) -> None:
    err = typed("--describe --all-groups --strict").stderr
    assert err == (
        "\nWarning: Consumer group 'moves' is rebalancing.\n"
        "\nConsumer group 'waits' has no active members.\n"
    )


def test_a_commit_outside_the_log_is_told_and_its_lag_is_what_can_be_read(
    typed: Typed,
) -> None:
    """Apache's tool counts deleted records, and negative ones."""
    err = typed("--describe --group reads --group waits").stderr
    assert (
        "Consumer group 'reads' is at offset 2 of cut-0, but its log starts at "
        "40: what lies between is deleted." in err
    )
    assert (
        "Consumer group 'waits' is at offset 160 of orders-0, but its log ends "
        "at 150." in err
    )


@pytest.mark.fact("A-75", "I-11")
@pytest.mark.parametrize("table", ["--offsets", "--members", "--state"])
def test_a_group_that_is_not_there_is_an_error_on_stderr(
    table: str, typed: Typed
) -> None:
    ran = typed(f"--describe --group nope {table}")
    assert ran == ("", "\nError: Consumer group 'nope' does not exist.\n", 1)


@pytest.mark.fact("A-74", "A-75")
@pytest.mark.parametrize("table", ["--offsets", "--members", "--state"])
def test_a_dead_group_has_no_table(
    table: str, cluster: FakeCluster, typed: Typed
) -> None:
    cluster.add(group("gone", member("m"), state=GroupState.DEAD), orders=1)
    text = "\nError: Consumer group 'gone' does not exist.\n"
    assert typed(f"--describe --group gone {table}") == ("", text, 1)
    assert typed(f"--describe --group gone {table} --strict") == (text, "", 1)


def test_strict_it_is_on_stdout_in_javas_words_but_not_with_exit_code_0(
    typed: Typed,
) -> None:
    ran = typed("--describe --group nope --strict")
    assert ran.stdout == (
        "\nError: Executing consumer group command failed due to "
        "org.apache.kafka.common.errors.GroupIdNotFoundException: "
        "Group nope not found.\n"
    )
    assert (ran.stderr, ran.exit_code) == ("", 1)


@pytest.mark.parametrize("table", ["--offsets", "--members", "--state"])
def test_a_broken_group_hides_no_other(
    table: str, cluster: FakeCluster, typed: Typed
) -> None:
    refused = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not see it")
    cluster.group_errors["moves"] = refused
    ran = typed(f"--describe --all-groups {table}")
    assert (
        "Consumer group 'moves' cannot be described: you may not see it" in ran.stderr
    )
    assert "\nreads " in ran.stdout
    assert ran.exit_code == 1


def test_a_deleted_topic_hides_no_other_row(cluster: FakeCluster, typed: Typed) -> None:
    del cluster.logs[TopicPartition("cut", 0)]
    ran = typed("--describe --group reads")
    assert ran.stderr == "\nError: Consumer group 'reads', cut-0: no such topic\n"
    rows = [line.split()[1:6] for line in ran.stdout.splitlines()[2:]]
    assert ["cut", "0", "2", "-", "-"] in rows
    assert ["orders", "0", "120", "150", "30"] in rows
    assert ran.exit_code == 1


def test_all_groups_are_described_in_one_question_of_each_kind(
    cluster: FakeCluster, typed: Typed
) -> None:
    for number in range(200):
        cluster.add(group(f"g{number}", state=GroupState.EMPTY), orders=1)
    typed("--describe --all-groups")
    asked = sorted(name for name, _ in cluster.calls if name != "close")
    assert asked == [
        "describe_groups",
        "list_groups",
        "list_groups_offsets",
        "list_offsets",
        "list_offsets",
    ]


@pytest.mark.fact("A-74")
def test_a_state_that_nobody_knows_is_an_error(
    cluster: FakeCluster, typed: Typed
) -> None:
    cluster.add(group("odd", state=GroupState.UNKNOWN))
    ran = typed("--describe --group odd --state")
    text = "\nError: Expected a valid consumer group state, but found 'Unknown'.\n"
    assert (ran.stderr, ran.exit_code) == (text, 1)


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
def test_topics_select_rows(
    topics: str, rows: list[tuple[str, str]], typed: Typed
) -> None:
    ran = typed(f"--describe --group reads {topics}")
    printed = (line.split()[1:3] for line in ran.stdout.splitlines()[2:])
    assert [tuple(each) for each in printed] == rows


@pytest.mark.fact("C-51")
def test_an_empty_group_has_a_state_and_the_header_of_members(typed: Typed) -> None:
    notice = "\nConsumer group 'waits' has no active members.\n"
    shown = typed("--describe --group waits --state")
    assert shown.stderr == notice
    assert shown.stdout.splitlines()[2].split()[:4] == [
        "waits",
        "broker:9092",
        "(1)",
        "range",
    ]
    shown = typed("--describe --group waits --members")
    assert shown.stderr == notice
    assert shown.stdout.split() == [
        "GROUP",
        "CONSUMER-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "ASSIGNMENT-STRATEGY",
    ]


@pytest.mark.fact("C-36")
def test_strict_has_no_column_of_kip_181(typed: Typed) -> None:
    for line in ("--members", "--members --verbose", "--state", "--state --verbose"):
        text = typed(f"--describe --all-groups {line} --strict").stdout
        assert "GROUP " in text
        for ours in ("GENERATION-ID", "LEADER-ID", "SUBSCRIPTION"):
            assert ours not in text
    text = typed("--describe --all-groups --members --strict").stdout
    assert "ASSIGNMENT-STRATEGY" not in text


def test_a_cluster_that_cannot_be_reached_is_exit_code_1(
    cluster: FakeCluster, typed: Typed
) -> None:
    cluster.broken = ConnectionLost("x:1 cannot be reached")
    what = "\nError: Executing consumer group command failed due to "
    assert typed("--list") == ("", f"{what}x:1 cannot be reached\n", 1)
    ran = typed("--list --strict")
    assert ran.stdout.startswith(f"{what}org.apache.kafka.common.errors.Timeout")
    assert ran.exit_code == 1


class Terminal(StringIO):
    """A stream that people look at."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_not_at_the_mercy_of_a_client_id(
    cluster: FakeCluster, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(group("odd", member("\x1b[2J")))
    assert "\x1b[2J-id" in typed("--describe --group odd --members").stdout
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    words = "--bootstrap-server x:1 --describe --group odd --members"
    assert main(words.split()) == 0
    assert "\\x1b[2J-id" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()
