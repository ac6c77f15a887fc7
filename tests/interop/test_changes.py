"""Commands that change groups, on Coterie and on Apache Kafka: nothing gets lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clients.admin import alter_offsets, committed_offsets

from .conftest import Command
from .groups import PROTOCOLS, consuming, make_empty_group
from .kafka import Ran

pytestmark = pytest.mark.slow

NewTopic = Callable[[str, int], str]
DO_IT = ("--execute", "--yes")


class Operator:
    """Runs `coterie groups`, with snapshots in a folder of its own."""

    def __init__(self, command: Command, bootstrap: str, folder: Path) -> None:
        self._command = command
        self.bootstrap = bootstrap
        self.folder = folder
        self._snapshots = ("--snapshots", str(folder / "snapshots"))

    def change(self, *words: str, exit_code: int = 0) -> list[dict[str, Any]]:
        """What a command says that it did or would do."""
        words = (*words, *self._snapshots, "--output", "json")
        ran = self._command("groups", *words, exit_code=exit_code)
        items: list[dict[str, Any]] = json.loads(ran.stdout)["items"]
        return items

    def run(self, *words: str, exit_code: int = 0) -> Ran:
        return self._command("groups", *words, exit_code=exit_code)

    def undo_last(self) -> None:
        newest = self.change("undo", "--list")[0]
        self.change("undo", newest["snapshot_id"], *DO_IT)


@pytest.fixture
def operator(coterie: Command, bootstrap: str, tmp_path: Path) -> Operator:
    return Operator(coterie, bootstrap, tmp_path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reset_is_shown_then_done_then_undone(
    operator: Operator, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    before = committed_offsets(bootstrap, group)
    assert before == {(topic, 0): 3, (topic, 1): 3}
    shown = operator.change("reset", group, "--to-latest")
    assert [(each["partition"], each["new_offset"]) for each in shown] == [
        (0, 5),
        (1, 5),
    ]
    assert committed_offsets(bootstrap, group) == before
    operator.change("reset", group, "--to-latest", *DO_IT)
    assert committed_offsets(bootstrap, group) == {(topic, 0): 5, (topic, 1): 5}
    operator.undo_last()
    assert committed_offsets(bootstrap, group) == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_with_members_is_left_alone(
    operator: Operator, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        before = committed_offsets(bootstrap, group)
        operator.change("reset", group, "--to-earliest", *DO_IT, exit_code=1)
        operator.change("delete", group, *DO_IT, exit_code=1)
        assert committed_offsets(bootstrap, group) == before


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_plan_is_applied_once_and_only_to_what_it_saw(
    operator: Operator, new_topic: NewTopic, group: str, protocol: str
) -> None:
    bootstrap, changed, same = operator.bootstrap, f"{group}-changed", f"{group}-same"
    one, other = new_topic("one", 2), new_topic("other", 2)
    make_empty_group(bootstrap, changed, one, protocol)
    make_empty_group(bootstrap, same, other, protocol)
    plan = str(operator.folder / "plan.json")
    operator.run("plan", plan, "reset", changed, same, "--to-earliest")
    alter_offsets(bootstrap, changed, {(one, 0): 4})
    operator.change("apply", plan, *DO_IT, exit_code=1)
    assert committed_offsets(bootstrap, changed) == {(one, 0): 4, (one, 1): 3}
    assert committed_offsets(bootstrap, same) == {(other, 0): 0, (other, 1): 0}
    alter_offsets(bootstrap, same, {(other, 0): 2})
    operator.change("apply", plan, *DO_IT, exit_code=1)
    assert committed_offsets(bootstrap, same) == {(other, 0): 2, (other, 1): 0}


def test_a_deleted_group_comes_back(
    operator: Operator, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, group, topic, "consumer")
    before = committed_offsets(bootstrap, group)
    operator.change("delete", group)
    assert committed_offsets(bootstrap, group) == before
    operator.change("delete", group, *DO_IT)
    assert committed_offsets(bootstrap, group) == {}
    operator.undo_last()
    assert committed_offsets(bootstrap, group) == before


def test_offsets_are_set_cloned_deleted_exported_and_imported(
    operator: Operator, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    file = str(operator.folder / "offsets.json")
    operator.run("offsets", "export", group, "--to", file)
    operator.change("clone", group, f"{group}-2", *DO_IT)
    assert committed_offsets(bootstrap, f"{group}-2") == {(topic, 0): 3, (topic, 1): 3}
    operator.change("offsets", "set", group, f"{topic}:0=1", *DO_IT)
    operator.change("offsets", "delete", group, "--partitions", f"{topic}:1", *DO_IT)
    assert committed_offsets(bootstrap, group) == {(topic, 0): 1}
    operator.change("offsets", "import", file, *DO_IT)
    assert committed_offsets(bootstrap, group) == {(topic, 0): 3, (topic, 1): 3}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_removed(
    operator: Operator, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol) as crew:
        (member,) = crew.members
        member_id = str(member.consumer.memberid())
        operator.change("remove-members", group, "--member", member_id, *DO_IT)
        ran = operator.run("members", group, "--output", "json", exit_code=0)
    assert member_id not in ran.stdout
