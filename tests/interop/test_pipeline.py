"""The pipeline on logs of real clients, from Coterie and from Apache Kafka.

Its tables must agree with the brokers."""

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
from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.tables.all_tables import needed
from coterie.types import TopicPartition as OurTopicPartition
from tests.real_clients.confluent_admin import (
    ANSWER_S,
    admin_client,
    alter_offsets,
    create_topic,
)
from tests.real_clients.confluent_members import consumer_settings

from .conftest import Broker
from .consumer_groups import PROTOCOLS, consuming, make_empty_group
from .kafka import run as run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMAND_S = 60.0


@dataclass
class Pipeline:
    """A lake of one broker; all runs share one Spark session to save time."""

    bootstrap: str
    lake: Path
    spark: SparkSession

    def run(self) -> None:
        """Ingest new records, as `coterie pipeline run` does."""
        source = open_source(f"kafka:{self.bootstrap}")
        assert isinstance(source, ClusterSource)
        lake = Lake.open_or_create(self.lake, source.describe(), source.cluster_id())
        gold = needed("current_groups", "current_members", "current_offsets")
        run_once(
            Job(start_spark=lambda: self.spark, lake=lake, source=source, gold=gold)
        )

    def check(self) -> dict[str, Any]:
        """Run `coterie pipeline check`, which must be clean; return its JSON."""
        program = str(Path(sys.executable).with_name("coterie"))
        words = ["pipeline", "check", "--lake", str(self.lake), "--output", "json"]
        output = run_to_end([program, *words], COMMAND_S)
        assert output.stdout, output.stderr
        found: dict[str, Any] = json.loads(output.stdout)
        wrong = [each for each in found["items"] if each["error"]]
        assert not wrong, "\n".join(map(str, wrong))
        assert output.exit_code == 0, output.stderr
        return found

    def rows(self, table: str, **expected: Any) -> list[dict[str, Any]]:
        """Return the rows of a table that have these values."""
        rows: list[dict[str, Any]] = Lake.open(self.lake).read(table).to_pylist()
        return [row for row in rows if expected.items() <= row.items()]


class Groups:
    """Groups of every kind, created by real clients; some have live members."""

    def __init__(self, bootstrap: str, stack: ExitStack) -> None:
        self.bootstrap = bootstrap
        self.name = f"pipeline-{secrets.token_hex(4)}"
        self._stack = stack
        self.ids: list[str] = []
        """Ids of the groups that `build` created."""

    def group(self, what: str) -> str:
        return f"{self.name}-{what}"

    def topic(self, what: str) -> str:
        return f"t-{self.name}-{what}"

    def build(self) -> None:
        """Create groups with members, without members, and with deleted offsets."""
        for protocol in PROTOCOLS:
            for end in ("empty", "gone", "less"):
                self.make_empty(f"{protocol}-{end}", protocol)
            where = self.make_topic(protocol)
            crew = consuming(
                self.bootstrap, self.group(protocol), where, protocol, members=2
            )
            self._stack.enter_context(crew)
            self.delete_offsets(f"{protocol}-less")
        self.alter("simple", 7)
        self.begin("simple", 11).commit_transaction(ANSWER_S)
        self.begin("simple", 12).abort_transaction(ANSWER_S)
        gone = [self.group(f"{each}-gone") for each in PROTOCOLS]
        admin = admin_client(self.bootstrap)
        for future in admin.delete_consumer_groups(gone).values():
            future.result(ANSWER_S)
        kinds = ("", "-empty", "-gone", "-less")
        built = [f"{each}{kind}" for each in PROTOCOLS for kind in kinds]
        self.ids = [self.group(each) for each in (*built, "simple")]

    def make_topic(self, what: str) -> str:
        return create_topic(self.bootstrap, self.topic(what), partitions=2)

    def make_empty(self, what: str, protocol: str) -> None:
        where = self.make_topic(what)
        make_empty_group(self.bootstrap, self.group(what), where, protocol)

    def alter(self, what: str, offset: int) -> None:
        """Commit for a group without members."""
        where = {(self.topic("classic"), each): offset for each in (0, 1)}
        alter_offsets(self.bootstrap, self.group(what), where)

    def delete_offsets(self, what: str) -> None:
        """Delete the committed offset of partition 0."""
        with SyncAdmin(self.bootstrap) as admin:
            partitions = [OurTopicPartition(self.topic(what), 0)]
            admin.group_offsets.delete(self.group(what), partitions).all()

    def begin(self, what: str, offset: int) -> Producer:
        """Begin a transaction that commits an offset for a group without members."""
        config = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": f"{self.group(what)}-{offset}",
            "transaction.timeout.ms": 600_000,
        }
        producer = Producer(config)
        producer.init_transactions(ANSWER_S)
        producer.begin_transaction()
        consumer = Consumer(consumer_settings(self.bootstrap, self.group(what)))
        offsets = [TopicPartition(self.topic("classic"), 0, offset)]
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, ANSWER_S)
        consumer.close()
        return producer


@pytest.fixture(scope="module")
def groups(broker: Broker) -> Iterator[Groups]:
    with ExitStack() as stack:
        groups = Groups(broker.bootstrap, stack)
        groups.build()
        yield groups


@pytest.fixture(scope="module")
def pipeline(
    groups: Groups, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Pipeline:
    """A lake with the log of the groups."""
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    pipeline = Pipeline(groups.bootstrap, folder, spark)
    pipeline.run()
    return pipeline


def items_of(checked: dict[str, Any], *groups: str) -> list[dict[str, Any]]:
    """Return the items of a check for these groups, without groups of other tests."""
    return [each for each in checked["items"] if each["group_id"] in groups]


def test_the_tables_equal_the_state_of_the_brokers(
    groups: Groups, pipeline: Pipeline
) -> None:
    checked = pipeline.check()
    assert items_of(checked, *groups.ids) == []
    assert checked["summary"]["differs"] == 0


def test_commits_after_the_run_are_reported_as_changed(
    groups: Groups, pipeline: Pipeline
) -> None:
    group = groups.group("since")
    groups.alter("since", 20)
    changed = items_of(pipeline.check(), group)
    assert {each["verdict"] for each in changed} == {"changed"}
    assert {each["about"] for each in changed} == {"group", "offset"}


@pytest.mark.fact("H-90")
def test_an_open_transaction_stops_the_ingest_of_its_log_partition(
    groups: Groups, pipeline: Pipeline
) -> None:
    group = groups.group("held")
    groups.alter("held", 1)
    open_one = groups.begin("held", 30)
    groups.alter("held", 2)
    pipeline.run()
    checked = pipeline.check()
    assert {each["verdict"] for each in items_of(checked, group)} == {"held back"}
    assert checked["summary"]["held_back_partitions"]
    open_one.commit_transaction(ANSWER_S)
    pipeline.run()
    assert items_of(pipeline.check(), group) == []
    [row] = pipeline.rows("current_offsets", group_id=group, partition=0)
    assert row["committed_offset"] == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_tables_contain_members_and_deletions(
    groups: Groups, pipeline: Pipeline, protocol: str
) -> None:
    [row] = pipeline.rows("current_groups", group_id=groups.group(protocol))
    assert (row["group_type"], row["state"]) == (protocol, "Stable")
    assert (row["member_count"], row["owned_partition_count"]) == (2, 2)
    members = pipeline.rows("current_members", group_id=row["group_id"])
    assert [len(each["assigned"]) for each in members] == [1, 1]
    empty = groups.group(f"{protocol}-empty")
    [row] = pipeline.rows("current_groups", group_id=empty)
    assert (row["state"], row["member_count"]) == ("Empty", 0)
    gone = groups.group(f"{protocol}-gone")
    assert pipeline.rows("current_groups", group_id=gone) == []
    less = pipeline.rows("current_offsets", group_id=groups.group(f"{protocol}-less"))
    assert [(row["partition"], row["committed_offset"]) for row in less] == [(1, 3)]


def test_the_tables_omit_records_of_aborted_transactions(
    groups: Groups, pipeline: Pipeline
) -> None:
    rows = pipeline.rows("current_offsets", group_id=groups.group("simple"))
    offsets = {row["partition"]: row["committed_offset"] for row in rows}
    assert offsets == {0: 11, 1: 7}
    [row] = pipeline.rows("current_groups", group_id=groups.group("simple"))
    assert row["group_type"] == "simple"


def test_partition_ends_are_sampled(groups: Groups, pipeline: Pipeline) -> None:
    rows = pipeline.rows("partition_end_samples", topic=groups.topic("classic"))
    assert {(row["partition"], row["high_watermark"]) for row in rows} == {
        (0, 5),
        (1, 5),
    }
    assert all(row["topic_id"] for row in rows)
