"""From a server whose groups were left, through its log, tables and a plan, to groups
that are deleted; and those that are not, as somebody came meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from coterie.cli.main import main
from coterie.client import GroupMember
from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.topic_values import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.look import Gold
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import open_source
from coterie.types import TopicPartition
from tests.client.scripted import OPTIONS, WAIT_S
from tests.pipeline.jobs.lakes import ALONE
from tests.server.harness import ThreadServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

T0 = TopicPartition("t", 0)
CONSUMER = ("consumer", "consumer-commits", "consumer-joined")
CLASSIC = ("classic", "classic-came-and-went")
SIMPLE = ("simple", "simple-joined")
AT_ONCE = GoldSettings(guard_ms=0, simple_guard_ms=0)
"""Who is gone for a moment is stale."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadServer(offsets_topic_num_partitions=2) as server:
        address = "{}:{}".format(*server.addresses[0])
        with SyncAdmin(address, OPTIONS) as admin:
            admin.create_topics([NewTopic("t", 1, 1)]).all()
        yield address


@asynccontextmanager
async def _member(address: str, group_id: str) -> AsyncIterator[GroupMember]:
    """A member of KIP-848 that has its partition."""
    has_it = asyncio.Event()

    async def heard(_: object) -> None:
        has_it.set()

    member = GroupMember(address, group_id=group_id, topics=["t"], on_assigned=heard)
    async with member:
        await asyncio.wait_for(has_it.wait(), WAIT_S)
        yield member


async def _consumer(address: str, group_id: str) -> None:
    """A member of KIP-848 comes, commits and goes."""
    async with _member(address, group_id) as member:
        await member.commit({T0: 3})


def _classic(address: str, group_id: str) -> None:
    """A member of the classic protocol comes and goes."""
    config = {"bootstrap.servers": address, "group.id": group_id}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


def _commit(address: str, group_id: str, offset: int) -> None:
    with SyncAdmin(address, OPTIONS) as admin:
        admin.alter_group_offsets(group_id, {T0: CommittedOffset(offset)}).all()


async def _busy_while(address: str, lake: Path, spark: SparkSession) -> None:
    """A run, while one group has a member; its commit is the newest record."""
    async with _member(address, "alive") as member:
        await member.commit({T0: 1})
        await asyncio.to_thread(_run, address, lake, spark)


def _run(address: str, folder: Path, spark: SparkSession) -> None:
    source = open_source(address)
    with SyncAdmin(address, OPTIONS) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    lake = Lake.open_or_create(folder, source.describe(), cluster_id)
    run_once(
        Job(
            spark=spark,
            lake=lake,
            source=source,
            settings=AT_ONCE,
            step=ALONE,
            gold=tuple(_needed("stale_group_candidates")),
        )
    )


def _needed(name: str) -> list[Gold]:
    """A table and all that it is made from, in their order."""
    wanted = {name}
    for gold in reversed(GOLD):
        if gold.table.name in wanted:
            wanted |= {*gold.inputs}
    return [gold for gold in GOLD if gold.table.name in wanted]


async def _apply_while(address: str, plan: Path) -> None:
    """Apply it while two groups have members again."""
    one = _member(address, "consumer-joined")
    other = _member(address, "simple-joined")
    words = ["groups", "apply", str(plan), "--execute", "--yes"]
    words += ["--bootstrap-server", address, "--snapshots", str(plan.parent / "kept")]
    async with one, other:
        assert await asyncio.to_thread(main, words) == 1


def test_stale_groups_are_deleted_unless_somebody_came_meanwhile(
    server: str, spark: SparkSession, tmp_path: Path
) -> None:
    lake, plan = tmp_path / "lake", tmp_path / "cleanup.json"
    for group_id in CONSUMER:
        asyncio.run(_consumer(server, group_id))
    for group_id in CLASSIC:
        _classic(server, group_id)
    for group_id in (*CLASSIC, *SIMPLE):
        _commit(server, group_id, 2)
    asyncio.run(_busy_while(server, lake, spark))
    command = ["pipeline", "plan-stale", str(plan), "--lake", str(lake)]
    assert main([*command, "--min-score", "0"]) == 0
    _commit(server, "consumer-commits", 4)
    _classic(server, "classic-came-and-went")
    asyncio.run(_apply_while(server, plan))
    lines = Path(f"{plan}.results.jsonl").read_text().splitlines()[1:]
    found = {each["group_id"]: each for each in map(json.loads, lines)}
    assert {name: each["verdict"] for name, each in found.items()} == {
        "consumer": "done",
        "consumer-commits": "refused",
        "consumer-joined": "refused",
        "classic": "done",
        "classic-came-and-went": "refused",
        "simple": "done",
        "simple-joined": "refused",
    }
    reasons = found["classic-came-and-went"]["reasons"]
    assert any(each.startswith("generation id was") for each in reasons)
