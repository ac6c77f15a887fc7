"""Commands that read groups, on a server over TCP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.client import AdminClient, GroupMember
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.types import TopicPartition
from tests.broker.server.apis.fake_broker import batch_of, produce_request
from tests.broker.server.harness import ThreadServer
from tests.client.recorded_callbacks import RecordedCallbacks
from tests.client.scripted_broker import OPTIONS

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0 = TopicPartition("u", 0)
BY_NAME = 12
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Return the address of a server with topics t and u, ten records in t-0, and two
    simple groups: their offsets were committed without members."""
    with ThreadServer() as server:
        host, port = server.addresses[0]
        address = f"{host}:{port}"
        asyncio.run(_make_groups(server, address))
        yield address


async def _make_groups(server: ThreadServer, address: str) -> None:
    async with AdminClient(address, OPTIONS) as admin:
        topics = [NewTopic("t", 2, 1), NewTopic("u", 1, 1)]
        (await admin.topics.create(topics)).all()
        now_ms = round(time.time() * 1000)
        with server.client() as client:
            for number in range(10):  # the last one is an hour old
                batch = batch_of(b"v", timestamp_ms=now_ms - (10 - number) * HOUR_MS)
                client.call(produce_request(batch, topic="t"), BY_NAME)
        a = {T0: CommittedOffset(4), T1: CommittedOffset(0), U0: CommittedOffset(0)}
        (await admin.group_offsets.alter("a", a)).all()
        (await admin.group_offsets.alter("b", {T0: CommittedOffset(10)})).all()


class Cli:
    """A runner of command lines against the server."""

    def __init__(self, address: str, capture: pytest.CaptureFixture[str]) -> None:
        self._address = address
        self._capture = capture
        self.code = 0

    def items(self, line: str) -> list[dict[str, Any]]:
        words = [*line.split(), "--bootstrap-server", self._address, "-o", "json"]
        self.code = main(words)
        items: list[dict[str, Any]] = json.loads(self._capture.readouterr().out)[
            "items"
        ]
        return items


@pytest.fixture
def cli(server: str, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(server, capsys)


def test_groups_that_never_had_members_are_listed_as_simple(
    cli: Cli,
) -> None:
    items = cli.items("groups list --protocol simple")
    assert [(each["group_id"], each["is_simple"]) for each in items] == [
        ("a", True),
        ("b", True),
    ]
    assert [each["group_id"] for each in cli.items("groups list --lag >5")] == ["a"]
    assert cli.code == 0


@pytest.mark.fact("A-70", "A-71", "A-73a", "A-73b")
def test_two_groups_of_one_topic_have_separate_lag(cli: Cli) -> None:
    items = cli.items("groups describe --all --topic t --time-lag")
    assert [
        (each["group_id"], each["partition"], each["committed_offset"], each["lag"])
        for each in items
    ] == [("a", 0, 4, 6), ("a", 1, 0, 0), ("b", 0, 10, 0)]
    assert {each["time_lag_method"] for each in items} == {"exact"}
    assert {each["member_id"] for each in items} == {None}


def test_the_time_lag_is_the_age_of_the_first_unread_record(cli: Cli) -> None:
    rows = cli.items("groups describe a --topic t --time-lag")
    lag_ms = rows[0]["time_lag_ms"]
    # The upper bound allows two minutes from writing the records to this check.
    assert 6 * HOUR_MS <= lag_ms <= 6 * HOUR_MS + 120_000


def test_the_consumers_of_a_topic_are_listed(cli: Cli) -> None:
    items = cli.items("topics consumers t u")
    assert [(each["topic"], each["group_id"], each["lag"]) for each in items] == [
        ("t", "a", 6),
        ("t", "b", 0),
        ("u", "a", 0),
    ]
    assert cli.items("topics consumers nothing") == []
    assert cli.code == 1


def test_a_consumer_group_member_is_shown_with_its_assignment(
    cli: Cli, server: str
) -> None:
    async def while_joined() -> list[list[dict[str, Any]]]:
        recorded = RecordedCallbacks("m", [])
        member: GroupMember = recorded.member(server, group_id="new", topics=["t"])
        async with member:
            await recorded.wait_for_count(2)
            lines = ("groups members new", "groups describe new", "groups lag new")
            return [await asyncio.to_thread(cli.items, line) for line in lines]

    members, rows, (sums,) = asyncio.run(while_joined())
    (item,) = members
    assert (item["protocol"], item["assignment"]) == ("consumer", {"t": [0, 1]})
    assert item["target_assignment"] == item["assignment"]
    assert item["member_epoch"] == item["group_epoch"]
    assert [(each["partition"], each["member_id"]) for each in rows] == [
        (0, item["member_id"]),
        (1, item["member_id"]),
    ]
    assert (sums["members"], sums["uncommitted"], sums["lag"]) == (1, 2, None)


@pytest.mark.parametrize("verb", ["list", "describe", "lag", "members"])
def test_a_server_without_share_groups_lists_none(
    server: str, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    words = ["groups", verb, "--type", "share,streams", "--bootstrap-server", server]
    assert main(words) == 0
    assert "no group is selected" in capsys.readouterr().err
