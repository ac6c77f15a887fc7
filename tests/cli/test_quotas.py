"""`coterie quotas list`, `set` and `remove`, on a server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell

KEYS = ["user", "client_id", "ip", "quota", "value"]


class Shell(ServerShell):
    """A runner of `coterie quotas` commands."""

    def listed(self, words: str = "") -> list[tuple[Any, ...]]:
        """Return user, client id, address, quota and value of each row."""
        items = self.items(f"list {words}")
        return [tuple(each[key] for key in KEYS) for each in items]


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    with ThreadServer() as server:
        yield Shell("quotas", server, capsys)


def test_nothing_is_set_without_execute(shell: Shell) -> None:
    words = "set --user etl producer_byte_rate=1048576 request_percentage=12.5"
    assert shell(words).count("planned") == 2
    assert "nothing was written: use --execute" in shell.error
    assert shell.listed() == []
    assert [each["result"] for each in shell.items(f"{words} --execute")] == ["set"] * 2
    assert shell.listed() == [
        ("etl", None, None, "producer_byte_rate", 1048576.0),
        ("etl", None, None, "request_percentage", 12.5),
    ]


def test_quotas_are_listed_by_their_entity(shell: Shell) -> None:
    shell("set --user u --client-id <default> consumer_byte_rate=5 --execute")
    shell("set --user <default> consumer_byte_rate=6 --execute")
    shell("set --ip 10.0.0.7 connection_creation_rate=7 --execute")
    pair = ("u", "<default>", None, "consumer_byte_rate", 5.0)
    default = ("<default>", None, None, "consumer_byte_rate", 6.0)
    address = (None, None, "10.0.0.7", "connection_creation_rate", 7.0)
    assert sorted(shell.listed(), key=str) == sorted([pair, default, address], key=str)
    assert shell.listed("--user u") == [pair]
    assert shell.listed("--user <default>") == [default]
    assert shell.listed("--ip 10.0.0.7") == [address]
    assert shell.listed("--client-id c") == []


def test_only_named_quotas_of_the_entity_are_removed(shell: Shell) -> None:
    shell("set --user u consumer_byte_rate=5 producer_byte_rate=6 --execute")
    shell("set --user u --client-id c producer_byte_rate=7 --execute")
    assert len(shell.items("remove --user u")) == 2
    assert len(shell.listed()) == 3
    [removed] = shell.items("remove --user u producer_byte_rate --execute")
    assert (removed["value"], removed["result"]) == (6.0, "removed")
    assert len(shell.listed()) == 2
    shell("remove --user u --execute")
    assert shell.listed() == [("u", "c", None, "producer_byte_rate", 7.0)]
    shell("remove --user u --execute", code=1)
    assert "quota 'user u': NO_QUOTA: it has no quota" in shell.error
    shell("remove --user u --client-id c consumer_byte_rate", code=1)
    assert "NO_QUOTA: it has no consumer_byte_rate" in shell.error


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("set producer_byte_rate=1", "no entity is named; use --user"),
        ("remove", "no entity is named; use --user"),
        ("set --ip ::1 --user u producer_byte_rate=1", "--ip cannot be combined"),
        ("set --user u producer_byte_rate", "write for example producer_byte_rate="),
        ("set --user u retention.ms=1", "'retention.ms' is not a quota; quotas are"),
        ("remove --user u retention.ms", "'retention.ms' is not a quota"),
        ("set --user u producer_byte_rate=inf", "is not a quota with a number"),
        ("set --user u producer_byte_rate=nan", "is not a quota with a number"),
        ("set --user u producer_byte_rate=1e400", "is not a quota with a number"),
    ],
)
def test_an_impossible_quota_is_a_usage_error(
    shell: Shell, line: str, message: str
) -> None:
    shell(line, code=2)
    assert message in shell.error


@pytest.mark.parametrize(
    "line",
    ["set --user u\udcff producer_byte_rate=1", "list --user u\udcff --output json"],
)
def test_an_argument_that_is_not_utf_8_is_a_usage_error(
    shell: Shell, line: str
) -> None:
    shell(line, code=2)
    assert shell.error == "coterie: the argument 'u\\udcff' is not UTF-8\n"


@pytest.mark.parametrize("execute", ["", "--execute"])
def test_a_quota_that_the_server_refuses_is_a_failed_row(
    shell: Shell, execute: str
) -> None:
    [item] = shell.items(f"set --user u producer_byte_rate=-1 {execute}", code=1)
    assert (item["result"], item["error"]["code"]) == ("failed", "INVALID_REQUEST")
    assert "must be greater than 0" in item["error"]["message"]


def test_items_have_documented_keys(shell: Shell) -> None:
    [added] = shell.items("set --user u producer_byte_rate=1 --execute")
    [listed] = shell.items("list")
    assert [*added] == [*KEYS, "result", "error"]
    assert [*listed] == [*KEYS, "error"]
