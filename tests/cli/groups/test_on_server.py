"""The verbs that look, through the whole command line, at groups on a real server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.client import AdminClient, GroupMember
from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.topic_values import NewTopic
from coterie.types import TopicPartition
from tests.client.diary import Diary
from tests.client.scripted import OPTIONS
from tests.data.world import batch_of, produce_request
from tests.server.harness import ThreadServer

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
U0 = TopicPartition("u", 0)
BY_NAME = 12
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with topics t and u, ten records in t-0, and two groups
    whose offsets somebody committed by hand."""
    with ThreadServer() as server:
        host, port = server.addresses[0]
        address = f"{host}:{port}"
        asyncio.run(_make_groups(server, address))
        yield address


async def _make_groups(server: ThreadServer, address: str) -> None:
    async with AdminClient(address, OPTIONS) as admin:
        topics = [NewTopic("t", 2, 1), NewTopic("u", 1, 1)]
        (await admin.create_topics(topics)).all()
        now_ms = round(time.time() * 1000)
        with server.client() as client:
            for number in range(10):  # the last one an hour ago
                batch = batch_of(b"v", timestamp_ms=now_ms - (10 - number) * HOUR_MS)
                client.call(produce_request(batch, topic="t"), BY_NAME)
        a = {T0: CommittedOffset(4), T1: CommittedOffset(0), U0: CommittedOffset(0)}
        (await admin.alter_group_offsets("a", a)).all()
        (await admin.alter_group_offsets("b", {T0: CommittedOffset(10)})).all()


class Cli:
    """Runs verbs against the server."""

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


def test_groups_whose_offsets_are_committed_by_hand_are_listed_as_simple(
    cli: Cli,
) -> None:
    items = cli.items("groups list --protocol simple")
    assert [(each["group_id"], each["is_simple"]) for each in items] == [
        ("a", True),
        ("b", True),
    ]
    assert [each["group_id"] for each in cli.items("groups list --lag >5")] == ["a"]
    assert cli.code == 0


@pytest.mark.fact("A-70", "A-71", "A-73")
def test_two_groups_on_the_same_partitions_have_each_its_own_lag(cli: Cli) -> None:
    items = cli.items("groups describe --all --topic t --time-lag")
    assert [
        (each["group_id"], each["partition"], each["committed_offset"], each["lag"])
        for each in items
    ] == [("a", 0, 4, 6), ("a", 1, 0, 0), ("b", 0, 10, 0)]
    assert {each["time_lag_method"] for each in items} == {"exact"}
    assert {each["member_id"] for each in items} == {None}


def test_the_time_of_the_first_unread_record_is_found(cli: Cli) -> None:
    rows = cli.items("groups describe a --topic t --time-lag")
    lag_ms = rows[0]["time_lag_ms"]
    # Since the records were written it is later by as long as the tests take.
    assert 6 * HOUR_MS <= lag_ms <= 6 * HOUR_MS + 120_000


def test_who_reads_a_topic(cli: Cli) -> None:
    items = cli.items("topics consumers t u")
    assert [(each["topic"], each["group_id"], each["lag"]) for each in items] == [
        ("t", "a", 6),
        ("t", "b", 0),
        ("u", "a", 0),
    ]
    assert cli.items("topics consumers nothing") == []
    assert cli.code == 1


def test_a_member_of_kip_848_is_shown_with_what_it_owns(cli: Cli, server: str) -> None:
    async def while_joined() -> list[list[dict[str, Any]]]:
        diary = Diary("m", [])
        member: GroupMember = diary.member(server, group_id="new", topics=["t"])
        async with member:
            await diary.holds(2)
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
