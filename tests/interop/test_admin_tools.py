"""Apache Kafka's command-line tools for administrators, run against both brokers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.real_clients.confluent_admin import produce, transactional_producer

from .kafka import JARS, run_tool

pytestmark = pytest.mark.slow

TOOLS: Final = "org.apache.kafka.tools."
CONFIGS: Final = "org.apache.kafka.tools.ConfigCommand"
TRANSACTIONS: Final = TOOLS + "TransactionsCommand"
REASSIGN: Final = TOOLS + "reassign.ReassignPartitionsCommand"
ANSWER_S: Final = 60.0


class Tools:
    """A runner of tools, given by their classes, that returns stdout."""

    def __init__(self, bootstrap: str) -> None:
        self._address = ("--bootstrap-server", bootstrap)

    def run(self, tool: str, *words: str) -> str:
        jars = Path(os.environ[JARS])
        output = run_tool(jars, tool, *self._address, *words)
        assert output.exit_code == 0, output
        assert "Exception" not in output.stdout + output.stderr, output
        return output.stdout

    def rows(self, tool: str, *words: str) -> list[list[str]]:
        """Return the cells of the printed table, without its titles."""
        _, *rows = self.run(tool, *words).splitlines()
        return [[cell.strip() for cell in row.split("\t")] for row in rows]


@pytest.fixture
def tools(bootstrap: str) -> Tools:
    return Tools(bootstrap)


@pytest.fixture
def producer(bootstrap: str, name: str, topic: str) -> Iterator[Producer]:
    """A producer with an open transaction, of one record in partition 0."""
    opened = transactional_producer(bootstrap, f"x-{name}")
    opened.begin_transaction()
    opened.produce(topic, b"v", partition=0)
    assert opened.flush(ANSWER_S) == 0
    yield opened
    opened.purge()


# kafka-transactions


def test_kafka_transactions_lists_and_describes_an_open_transaction(
    tools: Tools, producer: Producer, name: str, topic: str
) -> None:
    transactional_id = f"x-{name}"
    pattern = "--transactional-id-pattern", f"{transactional_id}.*"
    [listed] = tools.rows(TRANSACTIONS, "list", *pattern)
    assert [listed[0], listed[1], listed[3]] == [transactional_id, "1", "Ongoing"]
    of_id = "--transactional-id", transactional_id
    [described] = tools.rows(TRANSACTIONS, "describe", *of_id)
    assert described[:2] == ["1", transactional_id]
    assert (described[2], described[4]) == (listed[2], "Ongoing")
    assert described[8] == f"{topic}-0"
    of_partition = "--topic", topic, "--partition", "0"
    [active] = tools.rows(TRANSACTIONS, "describe-producers", *of_partition)
    producer_id, _, _, sequence, _, start_offset, *_ = active
    assert (producer_id, sequence, start_offset) == (listed[2], "0", "0")


def test_kafka_transactions_finds_no_hanging_transaction(
    tools: Tools, producer: Producer, topic: str
) -> None:
    options = "--topic", topic, "--max-transaction-timeout", "0"
    assert tools.rows(TRANSACTIONS, "find-hanging", *options) == []


def test_kafka_transactions_terminates_an_open_transaction(
    tools: Tools, producer: Producer, name: str
) -> None:
    transactional_id = f"x-{name}"
    tools.run(
        TRANSACTIONS,
        "forceTerminateTransaction",
        "--transactionalId",
        transactional_id,
    )
    of_id = "--transactional-id", transactional_id
    [described] = tools.rows(TRANSACTIONS, "describe", *of_id)
    assert (described[4], described[8]) == ("Empty", "")


# kafka-log-dirs, kafka-leader-election, kafka-metadata-quorum


def test_kafka_log_dirs_prints_the_sizes_of_partitions(
    tools: Tools, bootstrap: str, topic: str
) -> None:
    produce(bootstrap, topic, {0: [b"v" * 1_000]})
    printed = tools.run(
        TOOLS + "LogDirsCommand", "--describe", "--topic-list", topic
    ).splitlines()
    [broker] = json.loads(printed[-1])["brokers"]
    [directory] = broker["logDirs"]
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sizes.keys() == {f"{topic}-0", f"{topic}-1"}
    assert sizes[f"{topic}-0"] > 1_000 > sizes[f"{topic}-1"] == 0
    assert {each["offsetLag"] for each in directory["partitions"]} == {0}


def test_kafka_leader_election_finds_the_leaders_elected(
    tools: Tools, topic: str
) -> None:
    election = TOOLS + "LeaderElectionCommand"
    one = "--topic", topic, "--partition", "1"
    printed = tools.run(election, "--election-type", "preferred", *one)
    expected = f"Valid replica already elected for partitions {topic}-1"
    assert printed.strip() == expected
    everything = "--election-type", "unclean", "--all-topic-partitions"
    assert tools.run(election, *everything).strip() == ""


def test_kafka_metadata_quorum_describes_one_voter(tools: Tools) -> None:
    quorum = TOOLS + "MetadataQuorumCommand"
    status = dict(
        line.split(":", 1)
        for line in tools.run(quorum, "describe", "--status").splitlines()
    )
    assert (status["LeaderId"].strip(), status["MaxFollowerLag"].strip()) == ("1", "0")
    [voter] = json.loads(status["CurrentVoters"])
    assert (voter["id"], status["CurrentObservers"].strip()) == (1, "[]")
    [row] = tools.rows(quorum, "describe", "--replication")
    assert (row[0], row[6]) == ("1", "Leader")


# kafka-reassign-partitions


def test_kafka_reassign_partitions_keeps_the_current_replicas(
    tools: Tools, topic: str, tmp_path: Path
) -> None:
    assert tools.run(REASSIGN, "--list").strip() == "No partition reassignments found."
    place = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [place]}), "utf-8")
    of_plan = "--reassignment-json-file", str(plan)
    assert "Successfully started" in tools.run(REASSIGN, "--execute", *of_plan)
    verified = tools.run(REASSIGN, "--verify", *of_plan)
    assert f"Reassignment of partition {topic}-0 is completed." in verified


# kafka-configs, kafka-topics, kafka-get-offsets, kafka-delete-records


@pytest.mark.parametrize(
    ("kind", "config", "value"),
    [
        ("topics", "retention.ms", "100000"),
        ("groups", "consumer.session.timeout.ms", "46000"),
    ],
)
def test_kafka_configs_adds_and_deletes(
    tools: Tools, topic: str, kind: str, config: str, value: str
) -> None:
    entity = "--entity-type", kind, "--entity-name", topic
    tools.run(CONFIGS, "--alter", *entity, "--add-config", f"{config}={value}")
    assert f"{config}={value}" in tools.run(CONFIGS, "--describe", *entity)
    tools.run(CONFIGS, "--alter", *entity, "--delete-config", config)
    assert f"{config}={value}" not in tools.run(CONFIGS, "--describe", *entity)


def test_kafka_configs_describes_all_of_a_broker(tools: Tools) -> None:
    entity = "--entity-type", "brokers", "--entity-name", "1"
    assert "node.id=1" in tools.run(CONFIGS, "--describe", *entity, "--all")


def test_kafka_topics_creates_grows_and_deletes(tools: Tools, name: str) -> None:
    topics, topic = TOOLS + "TopicCommand", f"t-{name}"
    tools.run(topics, "--create", "--topic", topic, "--partitions", "2")
    tools.run(topics, "--alter", "--topic", topic, "--partitions", "3")
    title, *partitions = tools.run(topics, "--describe", "--topic", topic).splitlines()
    assert "PartitionCount: 3" in title
    assert len(partitions) == 3
    assert all("Leader: 1\tReplicas: 1\tIsr: 1" in each for each in partitions)
    tools.run(topics, "--delete", "--topic", topic)
    assert topic not in tools.run(topics, "--list").splitlines()


def test_kafka_delete_records_moves_the_earliest_offset(
    tools: Tools, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    produce(bootstrap, topic, {0: [b"v"] * 5, 1: [b"v"] * 2})
    offsets = TOOLS + "GetOffsetShell", "--topic", topic
    latest = tools.run(*offsets).splitlines()
    assert sorted(latest) == [f"{topic}:0:5", f"{topic}:1:2"]
    places: list[dict[str, Any]] = [{"topic": topic, "partition": 0, "offset": 3}]
    file = tmp_path / "before.json"
    file.write_text(json.dumps({"version": 1, "partitions": places}), "utf-8")
    deleted = tools.run(TOOLS + "DeleteRecordsCommand", "--offset-json-file", str(file))
    assert f"partition: {topic}-0\tlow_watermark: 3" in deleted
    earliest = tools.run(*offsets, "--time", "earliest").splitlines()
    assert sorted(earliest) == [f"{topic}:0:3", f"{topic}:1:0"]
