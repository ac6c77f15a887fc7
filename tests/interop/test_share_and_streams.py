"""Share groups and streams groups of Apache Kafka, which Coterie's server lacks."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.groups import GroupState, GroupType, Task
from coterie.types import TopicPartition
from tests.real_clients.confluent_admin import create_topic, produce
from tests.support.waiting import eventually

from .conftest import KAFKA
from .group_members import GroupMember, join_share_group, join_streams_group
from .kafka import JARS, START_S, GroupCommand, java_command

pytestmark = pytest.mark.slow

_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
_SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
_WAIT_S = 60


@pytest.fixture
def bootstrap() -> str:
    """The address of the node of Apache Kafka."""
    return os.environ[KAFKA]


@pytest.fixture
def topic(bootstrap: str, name: str) -> str:
    """A topic of two partitions with three records each."""
    topic = create_topic(bootstrap, f"t-{name}", partitions=2)
    produce(bootstrap, topic, {0: [b"v"] * 3, 1: [b"v"] * 3})
    return topic


class Groups:
    """A runner of `coterie groups` in this process."""

    def __init__(
        self, bootstrap: str, capture: pytest.CaptureFixture[str], home: Path
    ) -> None:
        self._bootstrap, self._capture, self._home = bootstrap, capture, home
        self.notes = ""

    def items(
        self, *words: str, exit_code: int = 0, execute: bool = False
    ) -> list[dict[str, Any]]:
        """Run a command; return the items of its output."""
        more = ["--execute", "--yes", "--snapshots", str(self._home)] * execute
        server = ["--bootstrap-server", self._bootstrap, "--output", "json"]
        code = main(["groups", *words, *more, *server])
        out, self.notes = self._capture.readouterr()
        assert code == exit_code, (out, self.notes)
        found = json.loads(out)
        self.errors = found["errors"]
        if execute:
            self.snapshot_id = str(found["summary"]["snapshot_id"])
        return list(found["items"])

    def starts(self, group: str) -> dict[int, int | None]:
        """Return the start offsets of a share group by partition."""
        items = self.items("describe", group)
        return {each["partition"]: each["start_offset"] for each in items}


@pytest.fixture
def groups(
    bootstrap: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Groups:
    return Groups(bootstrap, capsys, tmp_path)


def make_empty(
    join: Callable[..., Any], bootstrap: str, group: str, *topics: str
) -> None:
    """Create a group by a member that joins and leaves."""

    async def run() -> None:
        member: GroupMember = await join(bootstrap, group, *topics)
        await member.leave()

    asyncio.run(run())


def share_consumer(bootstrap: str, group: str, topic: str, records: int) -> None:
    """Consume and acknowledge records by Kafka's own share consumer."""
    command = [
        *java_command(Path(os.environ[JARS]), "error"),
        _SHARE_CONSUMER,
        f"--bootstrap-server={bootstrap}",
        f"--topic={topic}",
        f"--group={group}",
        f"--max-messages={records}",
    ]
    subprocess.run(
        command, check=True, timeout=START_S + _WAIT_S, stdout=subprocess.DEVNULL
    )


def test_the_lag_of_a_share_group_is_what_it_has_not_acknowledged(
    bootstrap: str, groups: Groups, group: str, topic: str
) -> None:
    make_empty(join_share_group, bootstrap, group, topic)
    groups.items("reset", group, "--to-earliest", "--partitions", topic, execute=True)
    assert groups.starts(group) == {0: 0, 1: 0}
    share_consumer(bootstrap, group, topic, 4)

    def lag() -> int:
        (item,) = groups.items("lag", group)
        assert (item["group_type"], item["state"]) == ("share", "Empty")
        return int(item["lag"])

    eventually(lambda: lag() == 2, expected="a lag of the 2 records left")
    described = groups.items("describe", group, "--time-lag")
    lagging = [each for each in described if each["lag"]]
    assert all(each["time_lag_ms"] > 0 for each in lagging)
    assert all(each["committed_offset"] is None for each in described)
    assert sum(6 // 2 - each["start_offset"] for each in described) >= 2


def test_a_share_group_is_described_as_by_kafkas_own_tool(
    bootstrap: str, groups: Groups, group: str, topic: str
) -> None:
    places = [f"{topic}:0=1", f"{topic}:1=3"]
    make_empty(join_share_group, bootstrap, group, topic)
    groups.items("offsets", "set", group, *places, execute=True)
    command = [*java_command(Path(os.environ[JARS]), "error"), _SHARE_TOOL]
    command += [f"--bootstrap-server={bootstrap}", "--describe", f"--group={group}"]
    text = subprocess.run(
        command, check=True, timeout=_WAIT_S, capture_output=True, text=True
    ).stdout
    theirs = [line.split() for line in text.splitlines() if line.startswith(group)]
    keys = ("group_id", "topic", "partition", "start_offset", "lag")
    ours = [
        [str(each[key]) for key in keys] for each in groups.items("describe", group)
    ]
    assert (
        ours == theirs == [[group, topic, "0", "1", "2"], [group, topic, "1", "3", "0"]]
    )


def test_start_offsets_are_set_reset_deleted_and_restored(
    bootstrap: str, groups: Groups, group: str, topic: str
) -> None:
    make_empty(join_share_group, bootstrap, group, topic)
    places = [f"{topic}:0=1", f"{topic}:1=2"]
    groups.items("offsets", "set", group, *places, execute=True)
    assert groups.starts(group) == {0: 1, 1: 2}
    groups.items("reset", group, "--to-latest", execute=True)
    assert groups.starts(group) == {0: 3, 1: 3}
    groups.items("undo", groups.snapshot_id, execute=True)
    assert groups.starts(group) == {0: 1, 1: 2}
    groups.items("clone", group, f"{group}-copy", execute=True)
    assert groups.starts(f"{group}-copy") == {0: 1, 1: 2}
    (listed,) = groups.items("list", f"{group}-copy")
    assert listed["group_type"] == "share"
    one = ["offsets", "delete", group, "--partitions", f"{topic}:0"]
    groups.items(*one, exit_code=1, execute=True)
    assert groups.errors[0]["code"] == "UnsupportedGroupType"
    groups.items("offsets", "delete", group, "--partitions", topic, execute=True)
    assert groups.items("describe", group) == []
    groups.items("undo", groups.snapshot_id, execute=True)
    groups.items("delete", group, f"{group}-copy", execute=True)
    deleted = groups.snapshot_id
    groups.items("list", group, exit_code=1)
    groups.items("undo", deleted, execute=True)
    assert groups.starts(group) == {0: 1, 1: 2}
    (listed,) = groups.items("list", group)
    assert (listed["group_type"], listed["state"]) == ("share", "Empty")


def test_members_of_a_streams_group_have_tasks(
    bootstrap: str, groups: Groups, group: str, topic: str
) -> None:
    async def describe() -> Any:
        async with AdminClient(bootstrap) as admin:
            return (await admin.groups.describe([group])).one(group)

    with asyncio.Runner() as runner:
        member = runner.run(join_streams_group(bootstrap, group, topic))
        eventually(
            lambda: runner.run(member.heartbeat()).active_tasks,
            expected="active tasks, after the initial rebalance delay",
        )
        found = runner.run(describe())
        runner.run(member.close())
    assert found.type is GroupType.STREAMS
    assert found.topology.subtopologies[0].source_topics == (topic,)
    (described,) = found.members
    assert described.tasks.active == (Task("0", 0), Task("0", 1))
    assert described.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    (item,) = groups.items("members", group)
    assert item["member_id"] == member.member_id
    assert item["tasks"] == {"active": ["0_0", "0_1"], "standby": [], "warmup": []}
    assert (item["protocol"], item["process_id"]) == ("streams", "process-1")
    rows = groups.items("describe", group)
    assert [each["member_id"] for each in rows] == [member.member_id] * 2
    assert [each["lag_status"] for each in rows] == ["no_commit"] * 2
    groups.items("remove-members", group, "--all", exit_code=1)
    assert groups.errors[0]["code"] == "UnsupportedGroupType"
    groups.items("reset", group, "--to-earliest", exit_code=1)
    assert groups.errors[0]["code"] == "NON_EMPTY_GROUP"


def test_an_empty_streams_group_is_reset_deleted_and_restored(
    bootstrap: str, groups: Groups, group: str, topic: str
) -> None:
    make_empty(join_streams_group, bootstrap, group, topic)
    groups.items("reset", group, "--to-earliest", "--partitions", topic, execute=True)
    rows = groups.items("describe", group)
    assert [(each["committed_offset"], each["lag"]) for each in rows] == [(0, 3)] * 2
    assert {each["group_type"] for each in rows} == {"streams"}
    groups.items("delete", group, execute=True)
    groups.items("list", group, exit_code=1)
    groups.items("undo", groups.snapshot_id, execute=True)
    rows = groups.items("describe", group)
    assert [each["committed_offset"] for each in rows] == [0, 0]


def test_commands_about_all_groups_succeed_beside_share_and_streams_groups(
    bootstrap: str, groups: Groups, group: str, topic: str
) -> None:
    make_empty(join_share_group, bootstrap, f"{group}-share", topic)
    make_empty(join_streams_group, bootstrap, f"{group}-streams", topic)
    places = [f"{topic}:0=1", f"{topic}:1=1"]
    for each in ("share", "streams", "plain"):
        groups.items("offsets", "set", f"{group}-{each}", *places, execute=True)
    ours = ["--glob", f"{group}-*"]
    for words in (
        ["list", "--topic", topic],
        ["list", "--state", "Empty", "--lag", ">0"],
        ["describe"],
        ["describe", "--by", "topic"],
        ["lag", "--wide"],
        ["members"],
        ["offsets", "list"],
        ["reset", "--to-earliest"],
        ["reset", "--shift-by", "1"],
        ["offsets", "delete", "--partitions", topic],
        ["delete"],
    ):
        items = groups.items(*words, *ours)
        ids = {each["group_id"] for each in items}
        expected = {f"{group}-{each}" for each in ("share", "streams", "plain")}
        assert ids == (set() if words == ["members"] else expected), words
    items = groups.items("offsets", "delete", "--partitions", f"{topic}:0", *ours)
    assert {each["group_id"] for each in items} == {
        f"{group}-plain",
        f"{group}-streams",
    }
    assert f"1 group is left out, of a type without this operation: {group}-share" in (
        groups.notes
    )


@pytest.mark.parametrize("join", [join_share_group, join_streams_group])
@pytest.mark.parametrize("what", [[], ["--members"], ["--state"]])
def test_the_drop_in_refuses_groups_of_other_types_as_kafkas_tool_does(
    apache: GroupCommand,
    bootstrap: str,
    group: str,
    topic: str,
    join: Callable[..., Any],
    what: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_empty(join, bootstrap, group, topic)
    words = ["--bootstrap-server", bootstrap, "--describe", "--group", group, *what]
    theirs = apache.run(*words).stdout
    assert f"Group {group} is not a consumer group." in theirs
    assert main(["kafka-consumer-groups", *words]) == 1
    ours = capsys.readouterr().err
    assert re.search(
        f"Group '{group}' is a (share|streams) group, not a consumer group", ours
    )


@pytest.mark.asyncio
async def test_share_and_streams_groups_are_listed_with_state(
    bootstrap: str, group: str, topic: str
) -> None:
    share = await join_share_group(bootstrap, f"{group}-share", topic)
    await share.leave()
    streams = await join_streams_group(bootstrap, f"{group}-streams", topic)
    await streams.leave()
    async with AdminClient(bootstrap) as admin:
        types = [GroupType.SHARE, GroupType.STREAMS]
        listed = await admin.groups.list(types=types, states=[GroupState.EMPTY])
        found = {each.group_id: each.type for each in listed.groups}
    assert found[f"{group}-share"] is GroupType.SHARE
    assert found[f"{group}-streams"] is GroupType.STREAMS
