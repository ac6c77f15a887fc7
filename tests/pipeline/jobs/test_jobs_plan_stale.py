"""Stale groups of a server, from its log to a plan file and their deletion.

Groups that change after the plan was made are not deleted.
"""

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
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.client.sync import SyncAdmin
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.tables.all_tables import GOLD, Query
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS, WAIT_S
from tests.pipeline.jobs.lakes import IN_PROCESS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

T0 = TopicPartition("t", 0)
CONSUMER = ("consumer", "consumer-commits", "consumer-joined")
CLASSIC = ("classic", "classic-came-and-went")
SIMPLE = ("simple", "simple-joined")
NO_GUARD_TIME = GoldSettings(guard_ms=0, simple_guard_ms=0)
"""Settings under which a group without members is stale at once."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadServer(offsets_topic_num_partitions=2) as server:
        address = "{}:{}".format(*server.addresses[0])
        with SyncAdmin(address, OPTIONS) as admin:
            admin.topics.create([NewTopic("t", 1, 1)]).all()
        yield address


@asynccontextmanager
async def _member(address: str, group_id: str) -> AsyncIterator[GroupMember]:
    """Run a member of the consumer protocol until it has an assigned partition."""
    is_assigned = asyncio.Event()

    async def on_assigned(_: object) -> None:
        is_assigned.set()

    member = GroupMember(
        address, group_id=group_id, topics=["t"], on_assigned=on_assigned
    )
    async with member:
        await asyncio.wait_for(is_assigned.wait(), WAIT_S)
        yield member


async def _consumer(address: str, group_id: str) -> None:
    """Join with the consumer protocol, commit and leave."""
    async with _member(address, group_id) as member:
        await member.commit({T0: 3})


def _classic(address: str, group_id: str) -> None:
    """Join with the classic protocol and leave."""
    config = {"bootstrap.servers": address, "group.id": group_id}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.subscribe(["t"])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()


def _commit(address: str, group_id: str, offset: int) -> None:
    with SyncAdmin(address, OPTIONS) as admin:
        admin.group_offsets.alter(group_id, {T0: CommittedOffset(offset)}).all()


async def _run_with_active_member(
    address: str, lake: Path, spark: SparkSession
) -> None:
    """Run the pipeline while one group has a member with a newer commit."""
    async with _member(address, "alive") as member:
        await member.commit({T0: 1})
        await asyncio.to_thread(_run, address, lake, spark)


def _run(address: str, folder: Path, spark: SparkSession) -> None:
    source = open_source(address)
    with SyncAdmin(address, OPTIONS) as admin:
        cluster_id = admin.brokers.describe().cluster_id
    lake = Lake.open_or_create(folder, source.describe(), cluster_id)
    run_once(
        Job(
            start_spark=lambda: spark,
            lake=lake,
            source=source,
            settings=NO_GUARD_TIME,
            limits=IN_PROCESS,
            gold=tuple(_needed("stale_group_candidates")),
        )
    )


def _needed(name: str) -> list[Query]:
    """Return a gold table and its inputs in build order."""
    needed = {name}
    for each in reversed(GOLD):
        if each in needed:
            needed |= GOLD[each].inputs
    return [query for each, query in GOLD.items() if each in needed]


async def _apply_while(address: str, plan: Path) -> None:
    """Apply the plan while two groups have members again."""
    one = _member(address, "consumer-joined")
    other = _member(address, "simple-joined")
    words = ["groups", "apply", str(plan), "--execute", "--yes"]
    words += ["--bootstrap-server", address, "--snapshots", str(plan.parent / "kept")]
    async with one, other:
        assert await asyncio.to_thread(main, words) == 1


def test_stale_groups_are_deleted_unless_they_changed_after_the_plan(
    server: str, spark: SparkSession, tmp_path: Path
) -> None:
    lake, plan = tmp_path / "lake", tmp_path / "cleanup.json"
    for group_id in CONSUMER:
        asyncio.run(_consumer(server, group_id))
    for group_id in CLASSIC:
        _classic(server, group_id)
    for group_id in (*CLASSIC, *SIMPLE):
        _commit(server, group_id, 2)
    asyncio.run(_run_with_active_member(server, lake, spark))
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
