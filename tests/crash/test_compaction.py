"""Compaction of `__consumer_offsets` in a real server, and a crash after it, change no
committed offset."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.wire import messages as m
from coterie.wire.record_batch import decode_records, split_batches
from tests.broker.server.harness import WireClient
from tests.crash import requests
from tests.crash.requests import GROUP, TXN_GROUP
from tests.support.server_process import ServerProcess, start_server

SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "log.retention.check.interval.ms": 20,
}
COMMITS = 120
RECORDS = 3 * COMMITS
WAIT_S = 120


def offset_records(client: WireClient) -> int:
    """Return the number of records in `__consumer_offsets`, without markers."""
    partition = m.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=requests.FETCH_BYTES
    )
    topic = m.FetchTopic(topic="__consumer_offsets", partitions=[partition])
    answer = client.call(m.FetchRequest(max_wait_ms=0, topics=[topic]), 12)
    [data] = answer.responses[0].partitions
    requests.checked(data.error_code)
    return sum(
        len(decode_records(batch, header))
        for header, batch in split_batches(data.records or b"")
        if not header.is_control
    )


def commit_both(client: WireClient, numbers: Iterator[int] | range) -> None:
    """Commit each number as an offset of GROUP, and in a transaction of TXN_GROUP.

    A second transaction of TXN_GROUP with another offset is aborted each time.
    """
    requests.committed(client, GROUP)  # waits until the coordinator is loaded
    producer = requests.begin(client)
    for number in numbers:
        answer = client.call(requests.commit_request(number), 8)
        requests.checked(answer.topics[0].partitions[0].error_code)
        for value, commit in ((number, True), (number + 1_000, False)):
            requests.transaction(client, producer, value)
            requests.end(client, producer, commit=commit)
            sequence = producer.base_sequence + requests.COPIES
            producer = producer._replace(base_sequence=sequence)


def wait_until_compacted(client: WireClient) -> None:
    """Wait until half of the records are removed.

    Compaction may stop there: it retains the transaction markers, so the dirty ratio
    soon stays below one half.
    """
    until = time.monotonic() + WAIT_S
    while offset_records(client) > RECORDS // 2:
        assert time.monotonic() < until, "it was never compacted"
        time.sleep(0.02)


def assert_committed(server: ServerProcess, number: int) -> None:
    with server.client() as client:
        assert requests.committed(client, GROUP) == number
        assert requests.committed(client, TXN_GROUP) == number


@pytest.mark.timeout(60)
def test_offsets_are_the_same_after_compaction_and_a_crash(
    tmp_path: Path, store: str
) -> None:
    settings = {**SETTINGS, "log.store": store}
    with start_server(data=tmp_path, settings=settings) as server:
        with server.client() as client:
            requests.create_topics(client)
            commit_both(client, range(COMMITS))
            wait_until_compacted(client)
        server.kill()
    with start_server(data=tmp_path, settings=settings) as server:
        assert_committed(server, COMMITS - 1)


@pytest.mark.timeout(60)
def test_a_snapshot_and_a_compacted_tail_give_the_same_offsets(
    tmp_path: Path, store: str
) -> None:
    settings = {**SETTINGS, "log.store": store}
    with start_server(data=tmp_path, settings=settings) as server:
        with server.client() as client:
            requests.create_topics(client)
            commit_both(client, range(10))
        server.stop()  # stopping writes a snapshot
    with start_server(data=tmp_path, settings=settings) as server:
        with server.client() as client:
            commit_both(client, range(10, COMMITS))
        server.stop()
    with start_server(data=tmp_path, settings=settings) as server:
        with server.client() as client:
            wait_until_compacted(client)
        server.kill()
    with start_server(data=tmp_path, settings=settings) as server:
        assert_committed(server, COMMITS - 1)
