"""`coterie topics records produce`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.cli.topics import stdin_lines
from coterie.client.admin.log_offsets import LATEST
from coterie.client.sync import SyncAdmin
from coterie.types import TopicPartition
from coterie.wire.murmur2 import murmur2
from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell
from tests.support.waiting import eventually

Feed = Callable[[bytes], None]


def read(records: ServerShell, topic: str, words: str = "") -> list[dict[str, Any]]:
    """Return the records of a topic by key, value and partition."""
    return [
        json.loads(line)
        for line in records(f"read {topic} --output jsonl {words}").splitlines()
    ]


def test_lines_are_values(records: ServerShell, topic: str, feed: Feed) -> None:
    feed(b"one\r\ntwo\n\nlast")
    (item,) = records.items(f"produce {topic} --partition 1")
    assert (item["partition"], item["records"]) == (1, 4)
    assert (item["first_offset"], item["last_offset"]) == (0, 3)
    assert records.error == "4 records were produced\n"
    assert [(each["key"], each["value"]) for each in read(records, topic)] == [
        (None, "one"),
        (None, "two"),
        (None, ""),
        (None, "last"),
    ]


def test_keys_choose_partitions_as_kafka_does(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    keys = [f"key-{number}" for number in range(20)]
    feed("".join(f"{key}::v:{key}\n" for key in keys).encode())
    records(f"produce {topic} --key-separator ::")
    found = {each["key"]: each for each in read(records, topic)}
    assert sorted(found) == sorted(keys)
    for key, each in found.items():
        assert each["partition"] == murmur2(key.encode()) % 3
        assert each["value"] == f"v:{key}"


def test_records_without_a_key_stay_together(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    feed(b"a\nb\nc\n")
    (item,) = records.items(f"produce {topic}")
    assert item["records"] == 3


def test_null_values_and_headers_are_produced(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    feed(b"k=NULL\nk=x\n")
    words = "--key-separator = --null-value NULL --header a=1 --header b=x=y"
    records(f"produce {topic} {words}")
    tombstone, value = read(records, topic)
    assert (tombstone["key"], tombstone["value"], value["value"]) == ("k", None, "x")
    assert [(each["key"], each["value"]) for each in value["headers"]] == [
        ("a", "1"),
        ("b", "x=y"),
    ]


def test_base64_and_whole_files_are_binary(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    feed(b"AP8=:/w==\n")
    records(f"produce {topic} --key-separator : --base64")
    (item,) = read(records, topic)
    assert (item["key"], item["key_encoding"]) == ("AP8=", "base64")
    assert (item["value"], item["value_encoding"]) == ("/w==", "base64")
    feed(b"two\nlines\n")
    records(f"produce {topic} --format whole --key file")
    assert [
        each["value"] for each in read(records, topic) if each["key"] == "file"
    ] == ["two\nlines\n"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_are_compressed(
    records: ServerShell, topic: str, feed: Feed, codec: str
) -> None:
    feed(b"text " * 1000)
    records(f"produce {topic} --compression {codec} --acks 1")
    (item,) = read(records, topic)
    assert item["value"] == "text " * 1000


@pytest.mark.slow
def test_more_lines_than_a_chunk_keep_their_order(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    lines = [str(number) for number in range(25_000)]
    feed("\n".join(lines).encode())
    (item,) = records.items(f"produce {topic} --partition 0")
    assert item["records"] == 25_000
    assert [each["value"] for each in read(records, topic)] == lines


def test_a_batch_that_is_too_large_is_divided(
    topics: ServerShell, records: ServerShell, topic: str, feed: Feed
) -> None:
    topics(f"configs set {topic} --config max.message.bytes=2000 --yes")
    lines = [f"{number:0400}" for number in range(20)]
    feed("\n".join(lines).encode())
    records(f"produce {topic} --partition 2")
    assert [each["value"] for each in read(records, topic)] == lines
    feed(b"x" * 3000)
    (item,) = records.items(f"produce {topic} --partition 2", code=1)
    assert item["error"]["code"] == "MESSAGE_TOO_LARGE"
    assert (item["records"], item["failed"]) == (0, 1)


@pytest.mark.slow
def test_a_line_is_sent_before_the_input_ends(
    server: ThreadServer, topics: ServerShell, topic: str, monkeypatch: Any
) -> None:
    [(host, port)] = server.addresses
    incoming, outgoing = os.pipe()
    key = TopicPartition(topic, 0)

    def is_there() -> bool:
        return admin.logs.list_offsets({key: LATEST}).one(key).offset == 1

    with os.fdopen(incoming) as stdin, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(sys, "stdin", stdin)
        line = f"topics records produce {topic} --partition 0 {topics.connection}"
        code = pool.submit(main, line.split())
        lines = os.fdopen(outgoing, "wb", buffering=0)
        with lines, SyncAdmin(f"{host}:{port}") as admin:
            lines.write(b"first\nsec")
            eventually(is_there, expected="the first line is a record")
            lines.write(b"ond\n")
        assert code.result(120) == 0


def test_a_wrong_line_ends_the_input(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    feed(b"a:1\nb\nc:3\n")
    document = json.loads(
        records(f"produce {topic} --key-separator : --output json", code=1)
    )
    assert [each["records"] for each in document["items"]] == [1]
    (error,) = document["errors"]
    assert error["message"].startswith("line 2: it has no separator ':'")
    assert document["summary"]["records"] == 1


def test_a_record_that_is_too_long_ends_the_input(
    records: ServerShell, topic: str, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdin_lines, "_RECORD_BYTES_MAX", 10)
    feed(b"short\n" + b"x" * 11)
    document = json.loads(records(f"produce {topic} --output json", code=1))
    assert [each["records"] for each in document["items"]] == [1]
    assert "stdin has a record of more than" in document["errors"][0]["message"]


def test_a_partition_that_does_not_exist_is_an_error(
    records: ServerShell, topic: str, feed: Feed
) -> None:
    feed(b"v\n")
    (item,) = records.items(f"produce {topic} --partition 9", code=1)
    assert "has no partition 9: it has 3" in item["error"]["message"]


@pytest.mark.slow  # a missing topic is asked for again
def test_a_topic_that_does_not_exist_is_an_error(
    records: ServerShell, feed: Feed
) -> None:
    feed(b"v\n")
    records("produce missing", code=1)
    assert "topic missing" in records.error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--key k --key-separator :", "use either --key or --key-separator"),
        ("--format jsonl --base64", "are not for JSON lines"),
        ("--format whole --key-separator :", "is for --format lines"),
        ("--ignore-partitions", "is for --format jsonl"),
        ("--header h", "'h' is not NAME=VALUE"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    records: ServerShell, words: str, message: str
) -> None:
    records(f"produce t {words}", code=2)
    assert message in records.error
