"""The pipeline on logs that real clients wrote, of Coterie and of Apache Kafka: what
its tables say is what the brokers say."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.client.sync import SyncAdmin
from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.look import Gold
from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.source import open_source
from coterie.types import TopicPartition as OurTopicPartition
from tests.clients.admin import ANSWER_S, admin_of, alter_offsets, create_topic
from tests.clients.members import settings_of

from .conftest import Broker
from .groups import PROTOCOLS, consuming, make_empty_group
from .kafka import run as run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMAND_S = 60.0


def needed(*names: str) -> tuple[Gold, ...]:
    """These gold tables and what they are made from, in order."""
    by_name = {each.table.name: each for each in GOLD}
    wanted = set(names)
    for each in reversed(GOLD):
        if each.table.name in wanted:
            wanted.update(by_name.keys() & set(each.inputs))
    return tuple(each for each in GOLD if each.table.name in wanted)


@dataclass
class Pipeline:
    """A lake of one broker, `coterie pipeline check`, and a Spark that stays: starting
    one for each run would take most of the time."""

    bootstrap: str
    lake: Path
    spark: SparkSession

    def run(self) -> None:
        """Read what is new, as `coterie pipeline run` does."""
        source = open_source(f"kafka:{self.bootstrap}")
        assert isinstance(source, ClusterSource)
        lake = Lake.open_or_create(self.lake, source.describe(), source.cluster_id())
        gold = needed("current_groups", "current_members", "current_offsets")
        run_once(Job(spark=self.spark, lake=lake, source=source, gold=gold))

    def check(self) -> dict[str, Any]:
        """The envelope of a check that is clean."""
        program = str(Path(sys.executable).with_name("coterie"))
        words = ["pipeline", "check", "--lake", str(self.lake), "--output", "json"]
        ran = run_to_end([program, *words], COMMAND_S)
        found: dict[str, Any] = json.loads(ran.stdout)
        wrong = [each for each in found["items"] if each["error"]]
        assert not wrong, "\n".join(map(str, wrong))
        assert ran.exit_code == 0, ran.stderr
        return found

    def rows(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        """Rows of a table with these values."""
        rows: list[dict[str, Any]] = Lake.open(self.lake).read(table).to_pylist()
        return [row for row in rows if wanted.items() <= row.items()]


class World:
    """Groups of every kind that real clients made, some of them at work."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        self.bootstrap = bootstrap
        self.name = f"pipeline-{secrets.token_hex(4)}"
        self._stack = stack
        self.groups: list[str] = []
        """Those that it was built with."""

    def group(self, what: str) -> str:
        return f"{self.name}-{what}"

    def topic(self, what: str) -> str:
        return f"t-{self.name}-{what}"

    def build(self) -> None:
        """Members of both protocols, groups without, and what was deleted."""
        for protocol in PROTOCOLS:
            for end in ("empty", "gone", "less"):
                self.make_empty(f"{protocol}-{end}", protocol)
            where = self.make_topic(protocol)
            crew = consuming(
                self.bootstrap, self.group(protocol), where, protocol, members=2
            )
            self._stack.enter_context(crew)
            self.forget_offsets(f"{protocol}-less")
        self.alter("simple", 7)
        self.begin("simple", 11).commit_transaction(ANSWER_S)
        self.begin("simple", 12).abort_transaction(ANSWER_S)
        gone = [self.group(f"{each}-gone") for each in PROTOCOLS]
        admin = admin_of(self.bootstrap)
        for future in admin.delete_consumer_groups(gone).values():
            future.result(ANSWER_S)
        kinds = ("", "-empty", "-gone", "-less")
        built = [f"{each}{kind}" for each in PROTOCOLS for kind in kinds]
        self.groups = [self.group(each) for each in (*built, "simple")]

    def make_topic(self, what: str) -> str:
        return create_topic(self.bootstrap, self.topic(what), partitions=2)

    def make_empty(self, what: str, protocol: str) -> None:
        where = self.make_topic(what)
        make_empty_group(self.bootstrap, self.group(what), where, protocol)

    def alter(self, what: str, offset: int) -> None:
        """Commit from outside, for a group that nobody joins."""
        where = {(self.topic("classic"), each): offset for each in (0, 1)}
        alter_offsets(self.bootstrap, self.group(what), where)

    def forget_offsets(self, what: str) -> None:
        """Delete what a group committed for partition 0."""
        with SyncAdmin(self.bootstrap) as admin:
            wanted = [OurTopicPartition(self.topic(what), 0)]
            admin.delete_group_offsets(self.group(what), wanted).all()

    def begin(self, what: str, offset: int) -> Producer:
        """A transaction, still open, that commits an offset for a group that nobody
        joins."""
        config = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": f"{self.group(what)}-{offset}",
            "transaction.timeout.ms": 600_000,
        }
        producer = Producer(config)
        producer.init_transactions(ANSWER_S)
        producer.begin_transaction()
        consumer = Consumer(settings_of(self.bootstrap, self.group(what)))
        offsets = [TopicPartition(self.topic("classic"), 0, offset)]
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, ANSWER_S)
        consumer.close()
        return producer


@pytest.fixture(scope="module")
def world(broker: Broker) -> Iterator[World]:
    with ExitStack() as stack:
        world = World(broker.bootstrap, stack)
        world.build()
        yield world


@pytest.fixture(scope="module")
def pipeline(
    world: World, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Pipeline:
    """A lake of that world."""
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    pipeline = Pipeline(world.bootstrap, folder, spark)
    pipeline.run()
    return pipeline


def found(said: dict[str, Any], *groups: str) -> list[dict[str, Any]]:
    """What a check says about these groups; other tests have groups there, too."""
    return [each for each in said["items"] if each["group_id"] in groups]


def test_the_log_says_what_the_brokers_say(world: World, pipeline: Pipeline) -> None:
    said = pipeline.check()
    assert found(said, *world.groups) == []
    assert said["summary"]["differs"] == 0


def test_what_came_since_is_named_as_changed(world: World, pipeline: Pipeline) -> None:
    group = world.group("since")
    world.alter("since", 20)
    changed = found(pipeline.check(), group)
    assert {each["verdict"] for each in changed} == {"changed"}
    assert {each["about"] for each in changed} == {"group", "offset"}


@pytest.mark.fact("H-90")
def test_an_open_transaction_holds_its_log_partition_back(
    world: World, pipeline: Pipeline
) -> None:
    group = world.group("held")
    world.alter("held", 1)
    open_one = world.begin("held", 30)
    world.alter("held", 2)
    pipeline.run()
    said = pipeline.check()
    assert {each["verdict"] for each in found(said, group)} == {"held back"}
    assert said["summary"]["held_back_partitions"]
    open_one.commit_transaction(ANSWER_S)
    pipeline.run()
    assert found(pipeline.check(), group) == []
    [row] = pipeline.rows("current_offsets", group_id=group, partition=0)
    assert row["committed_offset"] == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_tables_tell_of_members_and_of_what_was_deleted(
    world: World, pipeline: Pipeline, protocol: str
) -> None:
    [row] = pipeline.rows("current_groups", group_id=world.group(protocol))
    assert (row["group_type"], row["state"]) == (protocol, "Stable")
    assert (row["member_count"], row["owned_partition_count"]) == (2, 2)
    members = pipeline.rows("current_members", group_id=row["group_id"])
    assert [len(each["assigned"]) for each in members] == [1, 1]
    empty = world.group(f"{protocol}-empty")
    [row] = pipeline.rows("current_groups", group_id=empty)
    assert (row["state"], row["member_count"]) == ("Empty", 0)
    gone = world.group(f"{protocol}-gone")
    assert pipeline.rows("current_groups", group_id=gone) == []
    less = pipeline.rows("current_offsets", group_id=world.group(f"{protocol}-less"))
    assert [(row["partition"], row["committed_offset"]) for row in less] == [(1, 3)]


def test_the_tables_leave_out_what_a_transaction_aborted(
    world: World, pipeline: Pipeline
) -> None:
    rows = pipeline.rows("current_offsets", group_id=world.group("simple"))
    offsets = {row["partition"]: row["committed_offset"] for row in rows}
    assert offsets == {0: 11, 1: 7}
    [row] = pipeline.rows("current_groups", group_id=world.group("simple"))
    assert row["group_type"] == "simple"


def test_where_topics_ended_is_sampled(world: World, pipeline: Pipeline) -> None:
    rows = pipeline.rows("partition_end_samples", topic=world.topic("classic"))
    assert {(row["partition"], row["high_watermark"]) for row in rows} == {
        (0, 5),
        (1, 5),
    }
    assert all(row["topic_id"] for row in rows)
