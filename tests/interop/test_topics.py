"""`coterie topics` and `coterie cluster` on Coterie and on Apache Kafka.

librdkafka, kcat and Kafka's console tools read what `records produce` wrote, and
`records read` reads what they wrote.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from coterie.cli.main import main
from tests.support.waiting import eventually

from .kafka import JARS, START_S, java_command

pytestmark = pytest.mark.slow

WAIT_S: Final = 120.0
PARTITIONS: Final = 2
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
TIME_MS: Final = 1_764_000_000_000
BINARY: Final = b"\x00\xff\xfe"
TOOLS: Final = "org.apache.kafka.tools"
has_kcat: Final = pytest.mark.skipif(shutil.which("kcat") is None, reason="needs kcat")


class Shell:
    """A runner of `coterie` in this process."""

    def __init__(
        self,
        bootstrap: str,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.bootstrap = bootstrap
        self._capture = capture
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: bytes = b"", code: int = 0) -> str:
        stream = io.TextIOWrapper(io.BytesIO(stdin))
        self._monkeypatch.setattr(sys, "stdin", stream)
        assert main([*words, "--bootstrap-server", self.bootstrap]) == code
        return self._capture.readouterr().out

    def items(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        document = json.loads(self(*words, "--output", "json", code=code))
        items: list[dict[str, Any]] = document["items"]
        return items

    def read(self, topic: str, *words: str) -> list[dict[str, Any]]:
        text = self("topics", "records", "read", topic, "--output", "jsonl", *words)
        return [json.loads(line) for line in text.splitlines()]

    def produce(self, topic: str, text: str, *words: str) -> None:
        self("topics", "records", "produce", topic, *words, stdin=text.encode())


@pytest.fixture
def shell(
    bootstrap: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Shell:
    return Shell(bootstrap, capsys, monkeypatch)


def consume(bootstrap: str, topic: str, count: int) -> list[Message]:
    """Return records of a topic, read by librdkafka."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"{topic}-readers",
        "enable.auto.commit": False,
        "check.crcs": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
    messages: list[Message] = []
    while len(messages) < count:
        got = consumer.consume(count - len(messages), WAIT_S)
        assert got, messages
        assert all(each.error() is None for each in got)
        messages += got
    consumer.close()
    return messages


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_produced_records(
    shell: Shell, topic: str, codec: str
) -> None:
    lines = [
        {
            "key": f"k{number}",
            "value": f"value {number} " * 20,
            "headers": [
                {"key": "h", "value": base64.b64encode(BINARY).decode()}
                | {"encoding": "base64"},
                {"key": "empty", "value": None},
            ],
            "timestamp_ms": TIME_MS + number,
        }
        for number in range(10)
    ]
    lines.append({"key": "k0", "value": None})
    text = "\n".join(map(json.dumps, lines))
    shell.produce(topic, text, "--format", "jsonl", "--compression", codec)
    messages = consume(shell.bootstrap, topic, len(lines))
    tombstone = next(each for each in messages if each.value() is None)
    assert tombstone.key() == b"k0"
    found = {each.key(): each for each in messages if each is not tombstone}
    for number in range(10):
        message = found[f"k{number}".encode()]
        assert message.value() == (f"value {number} " * 20).encode()
        assert message.headers() == [("h", BINARY), ("empty", None)]
        assert message.timestamp()[1] == TIME_MS + number
    assert tombstone.partition() == found[b"k0"].partition()


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_librdkafka_are_read(shell: Shell, topic: str, codec: str) -> None:
    settings = {
        "bootstrap.servers": shell.bootstrap,
        "compression.type": codec,
        "partitioner": "murmur2_random",
        "linger.ms": 100,
    }
    producer = Producer(settings)
    values = [b"text " * 50, None, b"", BINARY]
    for number, value in enumerate(values):
        key = f"k{number}".encode()
        producer.produce(topic, value, key, headers=[("h", BINARY), ("n", None)])
    assert producer.flush(WAIT_S) == 0
    theirs = {each["key"]: each for each in shell.read(topic)}
    assert [theirs[f"k{number}"]["value"] for number in range(4)] == [
        "text " * 50,
        None,
        "",
        base64.b64encode(BINARY).decode(),
    ]
    assert theirs["k3"]["value_encoding"] == "base64"
    assert theirs["k0"]["headers"] == [
        {
            "key": "h",
            "value": base64.b64encode(BINARY).decode(),
            "encoding": "base64",
        },
        {"key": "n", "value": None, "encoding": None},
    ]
    # The same keys, produced by the command, go to the same partitions.
    shell.produce(
        topic, "".join(f"k{n}:again\n" for n in range(4)), "--key-separator=:"
    )
    for each in shell.read(topic):
        assert each["partition"] == theirs[each["key"]]["partition"]


def test_transactions_of_librdkafka_are_read_committed(
    shell: Shell, topic: str
) -> None:
    settings = {"bootstrap.servers": shell.bootstrap, "transactional.id": f"x-{topic}"}
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    for value, is_committed in (("no", False), ("yes", True)):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(topic, value, partition=partition)
        producer.flush(WAIT_S)
        if is_committed:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)

    def committed() -> list[str]:
        return [row["value"] for row in shell.read(topic, "--read-committed")]

    # Kafka answers a commit before the partitions have its markers.
    eventually(lambda: committed() == ["yes"] * PARTITIONS, expected="the markers")
    assert len(shell.read(topic)) == 4


def test_a_topic_is_copied_without_a_difference(
    shell: Shell, topic: str, name: str
) -> None:
    keys = [None, "", "k", "é"]
    lines = [{"key": key, "value": f"v{at}"} for at, key in enumerate(keys)]
    shell.produce(topic, "\n".join(map(json.dumps, lines)), "--format", "jsonl")
    copy = f"t-{name}-copy"
    shell("topics", "create", copy, "--partitions", str(PARTITIONS))
    text = shell("topics", "records", "read", topic, "--output", "jsonl")
    shell.produce(copy, text, "--format", "jsonl")
    again = shell("topics", "records", "read", copy, "--output", "jsonl")
    assert again.replace(copy, topic) == text


def test_a_topic_is_created_altered_and_deleted(shell: Shell, name: str) -> None:
    topic = f"t-{name}-made"
    create = ("topics", "create", topic, "--partitions", "2")
    (valid,) = shell.items(*create, "--validate-only")
    assert (valid["result"], valid["partitions"]) == ("valid", 2)
    (created,) = shell.items(*create, "--config", "retention.ms=60000")
    assert (created["result"], created["replication_factor"]) == ("created", 1)
    (failed,) = shell.items(*create, code=1)
    assert failed["error"]["code"] == "TOPIC_ALREADY_EXISTS"
    (planned,) = shell.items("topics", "alter", topic, "--partitions", "3")
    assert planned["result"] == "planned"
    shell("topics", "alter", topic, "--partitions", "3", "--yes")
    items = shell.items("topics", "describe", topic)
    assert [each["partition"] for each in items] == [0, 1, 2]
    (listed,) = shell.items("topics", "list", topic, "--size")
    assert (listed["partitions"], listed["size_bytes"]) == (3, 0)
    shell("topics", "delete", topic, "--yes")
    assert shell.items("topics", "list", "--glob", topic) == []


def test_configs_are_validated_set_and_unset(shell: Shell, topic: str) -> None:
    change = ("topics", "configs", "set", topic, "--config")
    (refused,) = shell.items(*change, "retention.ms=never", code=1)
    assert refused["error"]["code"] == "INVALID_CONFIG"
    (planned,) = shell.items(*change, "retention.ms=1000")
    assert (planned["value"], planned["new_value"]) == ("604800000", "1000")
    shell(*change, "retention.ms=1000", "--yes")
    show = ("topics", "configs", "show", topic)
    found = {each["config"]: each for each in shell.items(*show)}
    assert found["retention.ms"]["value"] == "1000"
    assert found["retention.ms"]["source"] == "dynamic_topic"
    shell("topics", "configs", "unset", topic, "--config", "retention.ms", "--yes")
    assert "retention.ms" not in {each["config"] for each in shell.items(*show)}


def test_a_cluster_is_described(shell: Shell, broker_kind: str) -> None:
    (node,) = shell.items("cluster", "describe")
    assert node["release"] == "4.4"
    versions = shell.items("cluster", "describe", "--api-versions")
    assert {"api_key": 0, "max_version": 13}.items() <= next(
        each.items() for each in versions if each["api"] == "PRODUCE"
    )


@has_kcat
def test_kcat_and_the_command_read_each_other(shell: Shell, topic: str) -> None:
    kcat = ["kcat", "-q", "-b", shell.bootstrap, "-t", topic]
    shell.produce(topic, "a=1\n", "--key-separator", "=", "--header", "h=x")
    read = [*kcat, "-C", "-e", "-f", "%k %s %h\\n"]
    done = subprocess.run(read, capture_output=True, timeout=WAIT_S, check=True)
    assert done.stdout == b"a 1 h=x\n"
    write = [*kcat, "-P", "-K", "=", "-H", "h=y", "-z", "lz4"]
    subprocess.run(write, input=b"b=2\n", timeout=WAIT_S, check=True)
    (found,) = [each for each in shell.read(topic) if each["key"] == "b"]
    assert (found["value"], found["headers"][0]["value"]) == ("2", "y")


def run_java(tool: str, *words: str, stdin: bytes = b"") -> list[str]:
    """Run a console tool of Apache Kafka; return the lines of its output."""
    command = [*java_command(Path(os.environ[JARS]), "error"), f"{TOOLS}.{tool}"]
    done = subprocess.run(
        [*command, *words],
        input=stdin,
        capture_output=True,
        timeout=START_S,
        check=True,
    )
    return done.stdout.decode().splitlines()


@pytest.mark.apache_tools
def test_kafkas_console_tools_and_the_command_read_each_other(
    shell: Shell, topic: str, name: str
) -> None:
    keys = [f"key-{number}" for number in range(20)]
    text = "".join(f"h:x\t{key}\tvalue of {key}\n" for key in keys)
    properties = ("parse.key=true", "parse.headers=true")
    run_java(
        "ConsoleProducer",
        f"--bootstrap-server={shell.bootstrap}",
        f"--topic={topic}",
        *(f"--reader-property={each}" for each in properties),
        stdin=text.encode(),
    )
    theirs = shell.read(topic)
    assert sorted(each["key"] for each in theirs) == sorted(keys)
    assert all(each["value"] == f"value of {each['key']}" for each in theirs)
    assert all(each["headers"][0]["value"] == "x" for each in theirs)

    own = f"t-{name}-own"
    shell("topics", "create", own, "--partitions", str(PARTITIONS))
    text = "".join(f"{key}:v:{key}\n" for key in keys)
    shell.produce(own, text, "--key-separator", ":", "--compression", "zstd")
    shown = ("print.key=true", "print.partition=true", "key.separator=|")
    lines = run_java(
        "consumer.ConsoleConsumer",
        f"--bootstrap-server={shell.bootstrap}",
        f"--topic={own}",
        "--from-beginning",
        f"--max-messages={len(keys)}",
        *(f"--formatter-property={each}" for each in shown),
    )
    partitions = {each["key"]: each["partition"] for each in theirs}
    assert sorted(lines) == sorted(
        f"Partition:{partitions[key]}|{key}|v:{key}" for key in keys
    )
