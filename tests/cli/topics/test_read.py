"""`coterie topics records read`."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.cli.topics.read import Start, read_start
from coterie.client import CommittedOffset, SyncAdmin
from coterie.errors import SettingError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.record_batch import TRANSACTIONAL, LogRecord, Producer, encode_batch
from tests.broker.server.apis.fake_broker import produce_request
from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell

Feed = Callable[[bytes], None]
HOUR_MS = 3_600_000


def read(records: ServerShell, topic: str, words: str = "") -> list[dict[str, Any]]:
    text = records(f"read {topic} --output jsonl {words}")
    return [json.loads(line) for line in text.splitlines()]


def values(records: ServerShell, topic: str, words: str = "") -> list[str]:
    return [each["value"] for each in read(records, topic, words)]


@pytest.fixture
def ten(records: ServerShell, topic: str, feed: Feed) -> str:
    """A topic with the values 0 to 9 in partition 1."""
    feed("\n".join(map(str, range(10))).encode())
    records(f"produce {topic} --partition 1")
    return topic


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        ("latest", 10),
        ("7", 7),
        ("-3", 7),
        ("-99", 0),
        ("1h", 0),
        ("2999-01-01T00:00", 10),
    ],
)
def test_reading_starts_where_from_says(
    records: ServerShell, ten: str, start: str, first: int
) -> None:
    expected = [str(number) for number in range(first, 10)]
    assert values(records, ten, f"--from {start}") == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--to 3", "012"),
        ("--from 4 --to 6", "45"),
        ("--from 6 --to 4", ""),
        ("--to 99", "0123456789"),
        ("--to -2", "01234567"),
        ("--to 1h", ""),
        ("--from 8 --to 2999-01-01T00:00", "89"),
    ],
)
def test_reading_ends_where_to_says(
    records: ServerShell, ten: str, words: str, expected: str
) -> None:
    assert "".join(values(records, ten, f"--partition 1 {words}")) == expected


def test_tables_show_decoded_records_of_the_coordinator(
    records: ServerShell, topic: str, server: ThreadServer
) -> None:
    [(host, port)] = server.addresses
    with SyncAdmin(f"{host}:{port}") as admin:
        at = {TopicPartition(topic, 1): CommittedOffset(7)}
        admin.group_offsets.alter("billing", at)
    text = records("read __consumer_offsets --output md")
    assert '{"type": "offset_commit", "group": "billing"' in text
    assert '{"offset": 7, ' in text


def test_an_offset_outside_the_log_is_noted(records: ServerShell, ten: str) -> None:
    assert values(records, ten, "--from 50 --partition 1") == []
    assert records.error == "partition 1 has offsets 0 to 10, not 50\n"


def test_a_limit_ends_reading(records: ServerShell, ten: str) -> None:
    assert values(records, ten, "--from 2 --limit 3") == ["2", "3", "4"]
    document = json.loads(records(f"read {ten} --limit 4 --output json"))
    assert [each["offset"] for each in document["items"]] == [0, 1, 2, 3]


def test_partitions_are_selected(records: ServerShell, ten: str) -> None:
    assert values(records, ten, "--partition 0,2") == []
    *found, failure = read_failing(records, f"read {ten} --partition 1,7")
    assert len(found) == 10
    assert failure["error"]["id"] == f"{ten}-7"


def read_failing(records: ServerShell, line: str) -> list[dict[str, Any]]:
    text = records(f"{line} --output jsonl", code=1)
    return [json.loads(each) for each in text.splitlines()]


@pytest.mark.slow
def test_reading_starts_at_the_offsets_of_a_group(
    records: ServerShell,
    ten: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(f"{ten},1,8\n")
    words = f"groups reset readers-{ten} --yes {records.connection}".split()
    paths = ("--from-file", str(file), "--snapshots", str(tmp_path))
    assert main([*words, *paths]) == 0
    capsys.readouterr()
    assert values(records, ten, f"--group readers-{ten}") == ["8", "9"]
    assert f"group readers-{ten} has no committed offset for partition 0, 2" in (
        records.error
    )


def test_tables_escape_and_clip(records: ServerShell, topic: str, feed: Feed) -> None:
    feed(b"k:a\x1b[31mb\nlong:" + b"x" * 500 + b"\nbin:\xff\xfe\nnull:NULL\nempty:\n")
    records(f"produce {topic} --key-separator : --null-value NULL --partition 0")
    lines = records(f"read {topic} --max-value-bytes 10").splitlines()
    assert lines[0].split() == [
        "PARTITION",
        "OFFSET",
        "TIME",
        "KEY",
        "VALUE",
        "HEADERS",
    ]
    assert "\x1b" not in "".join(lines)
    assert "a\\x1b[31mb" in lines[1]
    assert f"{'x' * 10}... (500 characters)" in lines[2]
    assert "base64://4=" in lines[3]
    assert "(null)" in lines[4]
    assert "(null)" not in lines[5]


@pytest.mark.slow
def test_records_larger_than_a_fetch_are_read(
    topics: ServerShell, records: ServerShell, topic: str, feed: Feed
) -> None:
    topics(f"configs set {topic} --config max.message.bytes=3000000 --yes")
    for partition in range(3):
        for letter in b"ab":
            feed(bytes([letter]) * 2_000_000)
            records(f"produce {topic} --partition {partition}")
    found = read(records, topic)
    assert sorted((each["partition"], each["value"][:1]) for each in found) == [
        (partition, letter) for partition in range(3) for letter in "ab"
    ]
    assert {len(each["value"]) for each in found} == {2_000_000}


def test_csv_has_one_header(records: ServerShell, topic: str, feed: Feed) -> None:
    feed(b"a\n=b\n")
    records(f"produce {topic} --header h=1 --partition 0")
    header, *rows = records(f"read {topic} --output csv").splitlines()
    assert header.startswith("topic,partition,offset,timestamp_ms,key,")
    assert len(rows) == 2
    assert records(f"read {topic} --partition 1 -o csv") == f"{header}\n"


def test_read_lines_are_produced_again(
    topics: ServerShell, records: ServerShell, topic: str, feed: Feed
) -> None:
    time = datetime(2026, 11, 21, 10, tzinfo=UTC)
    lines = [
        {"key": "k", "value": None},
        {"key": None, "value": ""},
        {"key": "", "value": "line\n\x9b\u2028é", "partition": 2},
        {
            "value": "AP8=",
            "value_encoding": "base64",
            "key": "/w==",
            "key_encoding": "base64",
        },
        {"value": "v", "timestamp_ms": round(time.timestamp() * 1000)},
        {
            "value": "h",
            "headers": [
                {"key": "a", "value": "1"},
                {"key": "a", "value": None},
                {"key": "b", "value": "AP8=", "encoding": "base64"},
            ],
        },
    ]
    feed("\n".join(map(json.dumps, lines)).encode())
    records(f"produce {topic} --format jsonl")
    copied = records(f"read {topic} --output jsonl")
    assert "\x9b" not in copied
    topics(f"create {topic}-copy --partitions 3")
    feed(copied.encode())
    records(f"produce {topic}-copy --format jsonl")
    again = records(f"read {topic}-copy --output jsonl")
    assert again.replace(f"{topic}-copy", topic) == copied
    assert len(copied.splitlines()) == len(lines)


def transact(
    server: ThreadServer, topic: str, value: bytes, *, commit: bool | None
) -> None:
    """Append a record in a transaction to partition 0, and end it unless None."""
    with server.client() as client:
        name = f"tx-{value.decode()}"
        made = client.call(
            m.InitProducerIdRequest(
                transactional_id=name, transaction_timeout_ms=60_000
            )
        )
        added = m.AddPartitionsToTxnTopic(name=topic, partitions=[0])
        client.call(
            m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=made.producer_id,
                v3_and_below_producer_epoch=made.producer_epoch,
                v3_and_below_topics=[added],
            ),
            3,
        )
        batch = encode_batch(
            [LogRecord(0, 1, None, value)],
            producer=Producer(made.producer_id, made.producer_epoch, 0),
            attributes=TRANSACTIONAL,
        )
        request = produce_request(batch, topic=topic)
        request.transactional_id = name
        response = client.call(request, 11)
        assert response.responses[0].partition_responses[0].error_code == 0
        if commit is not None:
            client.call(
                m.EndTxnRequest(
                    transactional_id=name,
                    producer_id=made.producer_id,
                    producer_epoch=made.producer_epoch,
                    committed=commit,
                ),
                4,
            )


def test_read_committed_leaves_out_aborted_and_open_transactions(
    server: ThreadServer, records: ServerShell, topic: str
) -> None:
    transact(server, topic, b"aborted", commit=False)
    transact(server, topic, b"committed", commit=True)
    transact(server, topic, b"open", commit=None)
    assert values(records, topic) == ["aborted", "committed", "open"]
    assert values(records, topic, "--read-committed") == ["committed"]


def test_a_follower_reads_new_records_until_its_limit(
    records: ServerShell, ten: str
) -> None:
    assert values(records, ten, "--follow --from 5 --limit 2") == ["5", "6"]
    table = records(f"read {ten} --follow --limit 3").splitlines()
    assert [line.split()[0] for line in table] == ["PARTITION", "1", "1", "1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--from yesterday", "'yesterday' is not earliest, latest, an offset"),
        ("--partition x", "'x' is not the number of a partition"),
        ("--follow --output json", "--follow has no end"),
        ("--follow --to 3", "use either --to or --follow"),
        ("--to x", "--to: 'x' is not earliest"),
        ("--output jsonl --columns key", "jsonl always has every key"),
    ],
)
def test_a_usage_error_is_reported_before_reading(
    records: ServerShell, words: str, message: str
) -> None:
    records(f"read t {words}", code=2)
    assert message in records.error


def test_starts_are_parsed() -> None:
    assert read_start("-5", 0) == Start("last", 5)
    assert read_start("PT1H", 2 * HOUR_MS) == Start("time", HOUR_MS)
    assert read_start("1970-01-01T01:00", 0) == Start("time", HOUR_MS)
    with pytest.raises(SettingError):
        read_start("", 0)
