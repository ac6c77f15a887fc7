"""`coterie topics create`, `delete` and `alter`."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import pytest

from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell

Feed = Callable[[bytes], None]


def names(topics: ServerShell, words: str) -> list[str]:
    return [each["topic"] for each in topics.items(f"list {words}")]


def test_an_existing_topic_fails_unless_it_may_exist(topics: ServerShell) -> None:
    topics("create twice --partitions 1")
    old, new = topics.items("create twice other --partitions 1", code=1)
    assert (old["result"], old["error"]["code"]) == ("failed", "TOPIC_ALREADY_EXISTS")
    assert (new["result"], new["error"]) == ("created", None)
    old, new = topics.items("create twice third --partitions 1 --if-not-exists")
    assert (old["result"], new["result"]) == ("exists", "created")


def test_validation_creates_nothing(topics: ServerShell) -> None:
    (item,) = topics.items("create no --partitions 2 --validate-only")
    assert (item["result"], item["partitions"]) == ("valid", 2)
    table = topics("create no --config retention.ms=never --validate-only", code=1)
    assert "INVALID_CONFIG" in table
    assert "error: topic no: INVALID_CONFIG" in topics.error
    assert names(topics, "--glob no") == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("create t --config retention.ms", "'retention.ms' is not NAME=VALUE"),
        ("delete", "no topic is selected"),
        ("delete t --all", "do not name topics as well"),
        ("describe", "no topic is selected"),
        ("configs unset t --config a=b", "'a=b' has a value"),
    ],
)
def test_a_usage_error_is_reported_before_connecting(
    topics: ServerShell, line: str, message: str
) -> None:
    topics(line, code=2)
    assert message in topics.error


@pytest.mark.slow
def test_topics_are_deleted_only_with_execute(topics: ServerShell) -> None:
    topics("create gone-1 gone-2 kept --partitions 2")
    planned = topics.items("delete --glob gone-*")
    assert [(each["topic"], each["result"]) for each in planned] == [
        ("gone-1", "planned"),
        ("gone-2", "planned"),
    ]
    assert [(each["partitions"], each["records"]) for each in planned] == [(2, 0)] * 2
    assert "use --execute" in topics.error
    topics("delete --glob gone-* --execute")
    assert names(topics, "--glob gone-* --glob kept") == ["kept"]
    topics("delete gone-1 --yes", code=1)
    assert topics.items("delete gone-1 --if-exists --yes") == []


def test_internal_topics_are_not_deleted(topics: ServerShell) -> None:
    topics("create plain --partitions 1")
    internal, plain = topics.items("delete __consumer_offsets plain --yes", code=1)
    assert internal["error"]["code"] == "OperationRefused"
    assert (internal["result"], plain["result"]) == ("failed", "deleted")
    assert names(topics, "__consumer_offsets") == ["__consumer_offsets"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "left"), [("n\n", ["asked"]), ("y\n", [])])
def test_a_deletion_is_confirmed_at_a_terminal(
    topics: ServerShell, monkeypatch: pytest.MonkeyPatch, answer: str, left: list[str]
) -> None:
    topics("create asked --partitions 1 --if-not-exists")
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Terminal(answer))
        patch.setattr(sys, "stderr", terminal)
        topics("delete asked --execute")
    assert "Delete this topic with all records? [y/N]" in terminal.getvalue()
    assert names(topics, "--glob asked") == left


def test_partitions_are_added_after_a_validation(topics: ServerShell) -> None:
    topics("create grows --partitions 2")
    (item,) = topics.items("alter grows --partitions 5")
    assert (item["partitions"], item["new_partitions"]) == (2, 5)
    assert item["result"] == "planned"
    (item,) = topics.items("alter grows --partitions 5 --yes")
    assert item["result"] == "altered"
    assert topics.items("list grows")[0]["partitions"] == 5
    (item,) = topics.items("alter grows --partitions 3", code=1)
    assert item["error"]["code"] == "INVALID_PARTITIONS"


@pytest.mark.slow
@pytest.mark.parametrize("release", ["0.11", "1.1", "2.3", "2.8", "3.9"])
def test_a_topic_can_be_tried_on_older_brokers(
    release: str, capsys: pytest.CaptureFixture[str], feed: Feed
) -> None:
    with ThreadServer(act_as=release) as server:
        topics = ServerShell("topics", server, capsys)
        cluster = ServerShell("cluster", server, capsys)
        topics("create t --partitions 2 --replication-factor 1")
        feed(b'{"key": "k", "value": "v", "headers": [{"key": "h", "value": "x"}]}')
        topics("records produce t --format jsonl")
        (record,) = topics("records read t --from 1h --output jsonl").splitlines()
        found = json.loads(record)
        assert (found["key"], found["value"]) == ("k", "v")
        assert found["headers"][0]["value"] == "x"
        assert sorted(each["records"] for each in topics.items("describe t")) == [0, 1]
        assert cluster("health") == ""
        (broker,) = cluster.items("describe")
        assert broker["release"].startswith(release)
        topics("delete t --yes")


@pytest.mark.slow
def test_topics_get_the_numbers_of_brokers_before_2_4(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ThreadServer(act_as="2.3", num_partitions=3) as server:
        topics = ServerShell("topics", server, capsys)
        topics("create t")
        (item,) = topics.items("list t")
    assert (item["partitions"], item["replication_factor"]) == (3, 1)
