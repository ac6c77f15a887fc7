"""Commands that change groups of real consumers. Effects and output must be equal for
Coterie and for Apache Kafka.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.real_clients.confluent_admin import alter_offsets

from .conftest import Command
from .consumer_groups import PROTOCOLS, consuming, make_empty_group

pytestmark = pytest.mark.slow


class Writer:
    """A runner of `coterie groups ...` with snapshots in a directory of the test."""

    def __init__(self, command: Command, bootstrap: str, home: Path) -> None:
        self._command = command
        self.bootstrap = bootstrap
        self.home = home

    def items(
        self, *words: str, exit_code: int = 0, executed: bool = True
    ) -> list[dict[str, Any]]:
        """Run a command, by default with --execute; return the items of its output."""
        more = ["--execute", "--snapshots", str(self.home)] if executed else []
        output = self._command(
            "groups", *words, *more, "--output", "json", exit_code=exit_code
        )
        found: dict[str, Any] = json.loads(output.stdout)
        self.errors = found["errors"]
        if executed:
            self.snapshot_id = str(found["summary"]["snapshot_id"])
        return list(found["items"])

    def offsets(self, group: str, *, exit_code: int = 0) -> list[int]:
        """Return the committed offsets of the group by partition."""
        items = self.items(
            "offsets", "list", group, exit_code=exit_code, executed=False
        )
        return [item["committed_offset"] for item in items]


@pytest.fixture
def writer(coterie: Command, bootstrap: str, tmp_path: Path) -> Writer:
    return Writer(coterie, bootstrap, tmp_path)


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.fact("C-60a", "C-62", "E29-07")
@pytest.mark.parametrize(
    ("scenario", "offsets"),
    [
        ("--to-earliest", [0, 0]),
        ("--to-latest", [5, 5]),
        ("--to-offset=99", [5, 5]),
        ("--shift-by=-2", [1, 1]),
        ("--to-datetime=1970-01-01T00:00:00.000Z", [0, 0]),
        ("--by-duration=PT0S", [5, 5]),
    ],
)
def test_a_reset_can_be_undone(
    writer: Writer,
    bootstrap: str,
    group: str,
    topic: str,
    scenario: str,
    offsets: list[int],
) -> None:
    make_empty_group(bootstrap, group, topic, "consumer")
    shown = writer.items("reset", group, scenario, executed=False)
    assert writer.offsets(group) == [3, 3]
    items = writer.items("reset", group, scenario)
    assert [item["new_offset"] for item in shown] == offsets
    assert [item["new_offset"] for item in items] == offsets
    assert [item["prior_offset"] for item in items] == [3, 3]
    assert {item["result"] for item in items} == {"done"}
    assert writer.offsets(group) == offsets
    writer.items("undo", writer.snapshot_id)
    assert writer.offsets(group) == [3, 3]


@pytest.mark.fact("C-61", "D-40", "E29-07")
def test_a_live_group_is_neither_reset_nor_deleted(
    writer: Writer, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        writer.items("reset", group, "--to-earliest", exit_code=1)
        assert "its state is Stable" in writer.errors[0]["message"]
        writer.items("delete", group, exit_code=1)
        assert writer.errors[0]["code"] == "NON_EMPTY_GROUP"
        (item, _) = writer.items(
            "offsets", "delete", group, "--partitions", topic, exit_code=1
        )
        assert item["error"]["code"] == "GROUP_SUBSCRIBED_TO_TOPIC"
        assert writer.offsets(group) == [3, 3]


def test_a_plan_is_applied_once(
    writer: Writer, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    plan = str(writer.home / "plan.json")
    writer.items("plan", plan, "reset", group, "--to-earliest", executed=False)
    assert writer.offsets(group) == [3, 3]
    assert {item["result"] for item in writer.items("apply", plan)} == {"done"}
    assert writer.offsets(group) == [0, 0]
    writer.items("offsets", "set", group, f"{topic}:0=2")
    writer.items("apply", plan)
    assert writer.offsets(group) == [2, 0]


def test_only_unchanged_items_of_a_plan_are_applied(
    writer: Writer, new_topic: Callable[[str, int], str], group: str, protocol: str
) -> None:
    changed, same = f"{group}-changed", f"{group}-same"
    for each in (changed, same):
        make_empty_group(writer.bootstrap, each, new_topic(each, 2), protocol)
    plan = str(writer.home / "plan.json")
    writer.items("plan", plan, "reset", changed, same, "--to-earliest", executed=False)
    (item, _) = writer.items("offsets", "list", changed, executed=False)
    alter_offsets(writer.bootstrap, changed, {(item["topic"], 0): 4})
    writer.items("apply", plan, exit_code=1)
    assert writer.offsets(changed) == [4, 3]
    assert writer.offsets(same) == [0, 0]


def test_a_member_that_joined_and_left_after_the_plan_is_detected(
    writer: Writer, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    plan = str(writer.home / "plan.json")
    writer.items("plan", plan, "delete", group, executed=False)
    make_empty_group(bootstrap, group, topic, protocol)
    items = writer.items("apply", plan, exit_code=1)
    assert {item["result"] for item in items} == {"refused"}
    assert {item["error"]["code"] for item in items} == {"REFUSED"}


@pytest.mark.fact("D-40", "D-43a")
def test_undo_restores_the_offsets_of_a_deleted_group(
    writer: Writer, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    writer.items("delete", group, executed=False)
    assert writer.offsets(group) == [3, 3]
    items = writer.items("delete", group, f"no {group}", exit_code=1)
    assert {item["result"] for item in items} == {"done"}
    assert [error["code"] for error in writer.errors] == ["GROUP_ID_NOT_FOUND"]
    kept = writer.snapshot_id
    assert writer.offsets(group, exit_code=1) == []
    writer.items("undo", kept)
    assert writer.offsets(group) == [3, 3]


def test_a_clone_can_be_undone(
    writer: Writer, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        writer.items("clone", group, f"{group}-2")
        kept = writer.snapshot_id
        assert writer.offsets(f"{group}-2") == [3, 3]
    writer.items("undo", kept)
    assert writer.offsets(f"{group}-2", exit_code=1) == []


def test_offsets_are_deleted_exported_and_imported(
    writer: Writer, coterie: Command, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    file = str(writer.home / "offsets.json")
    coterie("groups", "offsets", "export", group, "--to", file)
    writer.items("offsets", "delete", group, "--partitions", f"{topic}:1")
    assert writer.offsets(group) == [3]
    writer.items("offsets", "import", file)
    assert writer.offsets(group) == [3, 3]


@pytest.mark.parametrize("is_named", [True, False])
def test_members_are_removed(
    writer: Writer,
    bootstrap: str,
    group: str,
    topic: str,
    protocol: str,
    is_named: bool,
) -> None:
    with consuming(bootstrap, group, topic, protocol) as crew:
        (member,) = crew.members
        member_id = str(member.consumer.memberid())
        which = ("--member", member_id) if is_named else ("--all",)
        (item,) = writer.items("remove-members", group, *which)
        assert item["member_id"] == member_id
        assert item["result"] == "done"
        (state,) = writer.items("list", group, executed=False)
        assert state["state"] == "Empty"
