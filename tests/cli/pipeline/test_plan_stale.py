"""`coterie pipeline plan-stale`: the plan files and their application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli.main import main
from coterie.cli.pipeline.plan_stale import plan_item
from coterie.client import GroupMember
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.operations.plan_files import (
    Action,
    OffsetEntry,
    PlanItem,
    Verdict,
    item_id_of,
    read_plan,
)
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import encode
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.operations.cluster_model import ClusterModel, ModelGroup
from tests.operations.small_cluster import applied
from tests.operations.test_apply_properties import Event, events, is_changed, worlds
from tests.pipeline.lakes import CLUSTER, make_lake
from tests.pipeline.sources.transactions import Transaction

T0 = TopicPartition("t", 0)


def set_cluster(lake: Path, cluster_id: str | None) -> None:
    identity = msgspec.structs.replace(Lake.open(lake).identity, cluster_id=cluster_id)
    (lake / "lake.json").write_bytes(encode(identity))


def stale(group_id: str, score: int = 40, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "class": "abandoned",
        "score": score,
        "reasons": ["no members, and idle for 40.0 days"],
        "plan_item_id": item_id_of(Action.DELETE_GROUP, group_id),
    } | more


def blocked(group_id: str) -> dict[str, Any]:
    blockers = ["it has 2 members", "the log covers only 1.0 days"]
    about: dict[str, Any] = {"class": "keep", "score": 0, "plan_item_id": None}
    return stale(group_id, blockers=blockers, **about)


def simple(group_id: str) -> dict[str, Any]:
    return {"group_id": group_id, "group_type": "simple", "state": "Empty"}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    consumer = {"group_type": "consumer", "epoch": 5, "assignment_epoch": 4}
    classic = {"group_type": "classic", "epoch": 7, "protocol_type": "consumer"}
    rows = {
        "stale_group_candidates": [
            stale("old"),
            stale("older", 90, **{"class": "dead"}),
            stale("not-so-old", 20),
            blocked("alive"),
        ],
        "current_groups": [
            {"group_id": "old"} | consumer,
            {"group_id": "older"} | classic,
            simple("not-so-old"),
            simple("alive"),
        ],
        "current_offsets": [
            {
                "group_id": "old",
                "topic": topic,
                "partition": 1,
                "committed_offset": 6,
                "leader_epoch": epoch,
                "metadata": metadata,
            }
            for topic, epoch, metadata in [("u", None, None), ("t", 3, "m")]
        ],
    }
    return make_lake(tmp_path / "lake", rows)


class Shell:
    """A runner of `coterie pipeline plan-stale` on a lake."""

    def __init__(self, lake: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.file = lake.with_name("cleanup.json")
        self.error = ""
        self._lake = lake
        self._capture = capture

    def __call__(self, line: str = "") -> int:
        words = [str(self.file), "--lake", str(self._lake), *line.split()]
        code = main(["pipeline", "plan-stale", *words])
        self.out, self.error = self._capture.readouterr()
        return code

    def items(self) -> dict[str, PlanItem]:
        return {item.group_id: item for item in read_plan(self.file).items}


@pytest.fixture
def shell(lake: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(lake, capsys)


def test_a_plan_has_the_highest_scores_first_and_the_reasons(shell: Shell) -> None:
    assert shell() == 0
    plan = read_plan(shell.file)
    assert plan.cluster_id == CLUSTER
    assert [item.item_id for item in plan.items] == [
        "delete-group:older",
        "delete-group:old",
    ]
    assert plan.items[0].reason == "no members, and idle for 40.0 days"
    assert f"2 items are in {shell.file}: coterie groups apply" in shell.error


def test_an_item_has_the_state_of_the_group_in_the_log(shell: Shell) -> None:
    shell()
    items = shell.items()
    seen = items["old"].seen
    assert (seen.exists, seen.state, seen.type) == (True, "Empty", "consumer")
    assert (seen.group_epoch, seen.assignment_epoch, seen.generation_id) == (5, 4, None)
    assert seen.offsets == (OffsetEntry("t", 1, 6, 3, "m"), OffsetEntry("u", 1, 6))
    older = items["older"].seen
    assert (older.type, older.generation_id, older.group_epoch) == ("classic", 7, None)


def test_groups_are_selected_by_score_and_class(shell: Shell) -> None:
    assert shell("--min-score 20 --class abandoned") == 0
    assert list(shell.items()) == ["old", "not-so-old"]


def test_a_group_with_a_blocker_is_never_in_a_plan(shell: Shell) -> None:
    assert shell("--group alive --group old --group nobody --min-score 0") == 1
    assert list(shell.items()) == ["old"]
    assert "it has 2 members; the log covers only 1.0 days" in shell.error
    assert "nobody: UNKNOWN: the lake has no such group" in shell.error


def test_without_candidates_no_file_is_written(shell: Shell) -> None:
    assert shell("--min-score 100") == 0
    assert not shell.file.exists()
    assert "no plan was written" in shell.error


def test_an_existing_file_is_not_overwritten(shell: Shell) -> None:
    shell.file.write_text("mine")
    assert shell() == 2
    assert shell.file.read_text() == "mine"


def test_the_cluster_id_must_be_known_and_match(shell: Shell, lake: Path) -> None:
    assert shell("--cluster-id other") == 2
    assert "not other" in shell.error
    set_cluster(lake, None)
    assert shell() == 2
    assert "add --cluster-id ID" in shell.error
    assert shell("--cluster-id mine") == 0
    assert read_plan(shell.file).cluster_id == "mine"


def test_the_json_output_lists_the_items_of_the_file(shell: Shell) -> None:
    assert shell("--output json") == 0
    document = json.loads(shell.out)
    assert document["schema"] == "coterie.pipeline.plan-stale"
    assert document["lake_version"] == 1
    assert [each["score"] for each in document["items"]] == [90, 40]


# Plans applied to a cluster.


def item_for(group_id: str, group: ModelGroup) -> PlanItem:
    """Return the item of a group from rows with the state of the model."""
    about = {"group_type": "simple" if group.is_simple else "consumer"}
    epochs = {"epoch": group.epoch, "assignment_epoch": group.epoch}
    offsets = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "committed_offset": each.offset,
            "leader_epoch": each.leader_epoch,
            "metadata": each.metadata or None,
        }
        for at, each in group.offsets.items()
    ]
    return plan_item(stale(group_id), about | epochs, offsets)


@pytest.mark.slow
@given(worlds(), st.lists(events, max_size=3))
def test_a_group_that_changed_after_the_plan_is_never_deleted(
    model: ClusterModel, since: list[Event]
) -> None:
    items = [
        item_for(group_id, group) for group_id, group in model.known_groups.items()
    ]
    before = {
        group_id: dict(group.offsets) for group_id, group in model.known_groups.items()
    }
    for event in since:
        event.happen(model)
    after = {
        group_id: dict(group.offsets) for group_id, group in model.known_groups.items()
    }
    for result in applied(model, items):
        item = result.item
        mine = [each for each in since if each.group_id == item.group_id]
        same = after[item.group_id] == before[item.group_id]
        joined = any(each.kind.startswith("join") for each in mine)
        opened = any(
            each.kind == "transaction" and is_changed(each, item, before[item.group_id])
            for each in mine
        )
        is_touched = joined or opened or not same
        assert (result.verdict is Verdict.REFUSED) is is_touched
        assert (item.group_id in model.known_groups) is is_touched


GROUPS = ("still", "commits", "joined", "came-and-went", "transaction", "gone")


@pytest.fixture
def server() -> Iterator[ThreadServer]:
    with ThreadServer(offsets_topic_num_partitions=2) as server:
        with SyncAdmin(address(server), OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
            for group_id in GROUPS:
                admin.group_offsets.alter(group_id, {T0: CommittedOffset(7)}).all()
        yield server


def address(server: ThreadServer) -> str:
    return "{}:{}".format(*server.addresses[0])


@pytest.mark.slow
def test_apply_refuses_changed_groups_and_deletes_the_others(
    server: ThreadServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SyncAdmin(address(server), OPTIONS) as admin:
        cluster_id = admin.brokers.describe().cluster_id
    rows = {
        "stale_group_candidates": [stale(each) for each in GROUPS],
        "current_groups": [simple(each) for each in GROUPS],
        "current_offsets": [
            {"group_id": each, "topic": "t", "committed_offset": 7, "metadata": ""}
            for each in GROUPS
        ],
    }
    lake = make_lake(tmp_path / "lake", rows)
    set_cluster(lake, cluster_id)
    shell = Shell(lake, capsys)
    assert shell() == 0
    asyncio.run(_change_and_apply(server, shell.file))
    assert _verdicts(shell.file) == {
        "still": "done",
        "commits": "refused",
        "joined": "refused",
        "came-and-went": "refused",
        "transaction": "refused",
        "gone": "already",
    }
    with SyncAdmin(address(server), OPTIONS) as admin:
        left = {each.group_id for each in admin.groups.list().groups}
    assert left == {"commits", "joined", "came-and-went", "transaction"}


async def _change_and_apply(server: ThreadServer, file: Path) -> None:
    """Change groups after the plan was made, then apply it."""
    with SyncAdmin(address(server), OPTIONS) as admin:
        admin.group_offsets.alter("commits", {T0: CommittedOffset(8)}).all()
        admin.groups.delete(["gone"]).all()
    async with GroupMember(address(server), group_id="came-and-went", topics=["t"]):
        pass
    with server.client() as client:
        open_one = Transaction(client, "tx").commit("transaction", 9)
        async with GroupMember(address(server), group_id="joined", topics=["t"]):
            words = ["groups", "apply", str(file), "--execute", "--yes"]
            words += ["--bootstrap-server", address(server)]
            words += ["--snapshots", str(file.with_name("kept"))]
            assert await asyncio.to_thread(main, words) == 1
        open_one.end(commit=False)


def _verdicts(file: Path) -> dict[str, str]:
    """Return the verdict on each group."""
    lines = Path(f"{file}.results.jsonl").read_text().splitlines()[1:]
    results = [json.loads(line) for line in lines]
    return {each["group_id"]: each["verdict"] for each in results}
