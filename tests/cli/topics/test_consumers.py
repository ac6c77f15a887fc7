"""`coterie topics consumers`."""

from __future__ import annotations

import pytest

from coterie.client.admin.groups import GroupState, GroupType, MemberDescription
from coterie.types import TopicPartition
from tests.cli.groups.cli_cluster import CliAdmin, Shell, is_golden, make_shell
from tests.operations.fake_admin import FakeLog, group, member


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    logs = {TopicPartition(topic, 0): FakeLog.of(0, 100) for topic in ("t", "u")}
    admin = CliAdmin(known_logs=logs)
    two = (member("m", ("t", 0)), member("n", ("u", 0)))
    admin.add(group("both", *two, type=GroupType.CONSUMER), t=40, u=100)
    admin.add(group("past", state=GroupState.EMPTY), t=5)
    waits = MemberDescription("w", "w", "/w", subscribed_topics=("t",))
    admin.add(group("waits", waits))
    admin.add(group("other"), u=1)
    admin.add(group("stale", state=GroupState.EMPTY), gone=1)
    return make_shell(admin, monkeypatch, capsys)


def test_a_group_reads_a_topic_by_commit_assignment_or_subscription(
    shell: Shell,
) -> None:
    assert is_golden("consumers", shell("topics consumers t"))
    assert shell.code == 0


def test_topics_have_the_order_of_the_command_line(shell: Shell) -> None:
    items = shell.json("topics consumers u t u --sort lag")["items"]
    assert [(each["topic"], each["group_id"], each["lag"]) for each in items] == [
        ("u", "other", 99),
        ("t", "past", 95),
        ("t", "both", 60),
        ("u", "both", 0),
        ("t", "waits", None),
    ]


def test_groups_of_a_deleted_topic_are_listed(shell: Shell) -> None:
    document = shell.json("topics consumers gone")
    (item,) = document["items"]
    assert (item["group_id"], item["lag"], item["unknown"]) == ("stale", None, 1)
    assert item["error"]["code"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert [(each["kind"], each["id"]) for each in document["errors"]] == [
        ("topic", "gone")
    ]
    assert shell.code == 1


def test_a_note_reports_a_topic_without_groups(shell: Shell) -> None:
    shell.admin.known_logs[TopicPartition("unread", 0)] = FakeLog.of(0, 1)
    assert shell("topics consumers unread") == ""
    assert (shell.code, shell.error) == (0, "no group reads unread\n")
