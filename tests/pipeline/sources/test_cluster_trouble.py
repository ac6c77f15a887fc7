"""Tests for unusual responses of a leader: gaps, corrupt batches, errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from coterie.errors import ClientError, CoterieError
from coterie.pipeline.sources.source import Head, OffsetRange, Source, open_source
from coterie.types import OFFSETS_TOPIC
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import read_header
from tests.client.admin.scripted_cluster import NOBODY, ScriptedCluster
from tests.pipeline.sources.logs import (
    Read,
    emptied,
    marker,
    of_transaction,
    plain,
    read_ranges,
    with_holes,
)

SETTINGS = {
    "retry.backoff.ms": "1",
    "retry.backoff.max.ms": "2",
}
EARLIEST = -2


@dataclass
class Log:
    """A scripted cluster with partition 0 of the log."""

    nodes: ScriptedCluster
    batches: Sequence[bytes] = ()
    aborted: Sequence[tuple[int, int]] = ()
    start: int = 0
    codes: list[ErrorCode] = field(default_factory=list)
    """The errors of the next fetches."""
    bytes_max: int = 1_000_000

    lost: int = 0
    """The number of offsets at the end whose batches compaction removed."""

    @property
    def end(self) -> int:
        ends = [read_header(each).last_offset + 1 for each in self.batches]
        return max(ends, default=0) + self.lost

    def fetch(self, request: m.FetchRequest) -> m.FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        part = m.PartitionData(partition_index=0, high_watermark=self.end, records=b"")
        part.aborted_transactions = [
            m.AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first in self.aborted
        ]
        if self.codes:
            part.error_code = self.codes.pop(0)
        elif not self.start <= offset <= self.end:
            part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            there = [b for b in self.batches if read_header(b).last_offset >= offset]
            part.records = b"".join(there)[: self.bytes_max]
        topic = m.FetchableTopicResponse(topic=OFFSETS_TOPIC, partitions=[part])
        return m.FetchResponse(responses=[topic])

    def offsets(self, request: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
        asked = request.topics[0].partitions[0].timestamp
        offset = self.start if asked == EARLIEST else self.end
        found = m.ListOffsetsPartitionResponse(partition_index=0, offset=offset)
        topic = m.ListOffsetsTopicResponse(name=OFFSETS_TOPIC, partitions=[found])
        return m.ListOffsetsResponse(topics=[topic])

    async def heads(self) -> dict[int, Head]:
        return dict(await asyncio.to_thread(self.source().heads))

    async def read(self, begin: int, end: int) -> Read:
        part = OffsetRange(0, begin, end)
        return await asyncio.to_thread(read_ranges, self.source(), [part])

    def source(self, timeout_ms: int = 20_000) -> Source:
        settings = {**SETTINGS, "default.api.timeout.ms": str(timeout_ms)}
        return open_source(f"kafka:{self.nodes.brokers[0].bootstrap}", **settings)


@pytest_asyncio.fixture
async def log() -> AsyncIterator[Log]:
    async with ScriptedCluster(2) as nodes:
        nodes.lead(1, OFFSETS_TOPIC, 0)
        log = Log(nodes)
        for broker in nodes.brokers:
            broker.answers[ApiKey.FETCH] = log.fetch
            broker.answers[ApiKey.LIST_OFFSETS] = log.offsets
        yield log


pytestmark = pytest.mark.asyncio


async def test_offsets_before_the_log_start_are_a_gap(log: Log) -> None:
    log.batches, log.start = [plain(10, 5), plain(15, 5)], 10
    read = await log.read(3, 20)
    assert read.offsets == list(range(10, 20))
    assert read.missing == [(3, 10, "log_start")]
    assert (await log.read(3, 8)).missing == [(3, 8, "log_start")]
    assert (await log.heads())[0][:3] == (10, 20, 20)


async def test_offsets_removed_by_compaction_are_a_gap(log: Log) -> None:
    log.batches = [plain(0, 3), with_holes([6, 8], 5, 9), emptied(10, 12)]
    read = await log.read(0, 13)
    assert read.offsets == [0, 1, 2, 6, 8]
    assert read.missing == [
        (3, 5, "missing"),
        (5, 6, "missing"),
        (7, 8, "missing"),
        (9, 10, "missing"),
        (10, 13, "missing"),
    ]


async def test_a_batch_belongs_to_the_range_that_contains_its_end(log: Log) -> None:
    log.batches = [plain(0, 4), plain(4, 4)]
    first, second = await log.read(0, 6), await log.read(6, 8)
    assert (first.offsets, second.offsets) == ([0, 1, 2, 3], [4, 5, 6, 7])
    assert first.missing == second.missing == []


async def test_missing_offsets_at_the_end_are_a_gap(
    log: Log,
) -> None:
    log.batches, log.lost = [plain(0, 4)], 5
    assert (await log.read(0, 9)).missing == [(4, 9, "missing")]
    log.batches, log.lost = [emptied(0, 9)], 0
    assert (await log.read(2, 10)).missing == [(0, 10, "missing")]


async def test_a_truncated_batch_is_fetched_with_the_next_response(log: Log) -> None:
    log.batches = [plain(at, 2) for at in range(0, 10, 2)]
    log.bytes_max = len(log.batches[0]) + 70
    read = await log.read(0, 10)
    assert (read.offsets, read.missing) == (list(range(10)), [])


async def test_a_corrupt_batch_is_a_fault(log: Log) -> None:
    broken = bytearray(plain(2, 2))
    broken[-1] ^= 1
    log.batches = [plain(0, 2), bytes(broken), plain(4, 2)]
    read = await log.read(0, 6)
    assert read.offsets == [0, 1, 4, 5]
    assert read.missing == [(2, 4, "unreadable")]
    [fault] = read.faults
    assert "checksum" in fault["message"]


@pytest.mark.fact("K-08")
async def test_aborted_transactions_are_taken_from_the_response(log: Log) -> None:
    log.batches = [
        of_transaction(0, 7),
        of_transaction(1, 8),
        plain(2),
        marker(3, 7, commit=False),
        of_transaction(4, 7),
        marker(5, 8, commit=True),
        marker(6, 7, commit=True),
    ]
    log.aborted = [(7, 0)]
    read = await log.read(0, 7)
    assert list(read.outcomes.values()) == [
        "aborted",
        "committed",
        None,
        None,
        "committed",
        None,
        None,
    ]


async def test_a_fetch_continues_at_the_new_leader(log: Log) -> None:
    log.batches = [plain(0, 4)]
    log.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
    log.nodes.lead(2, OFFSETS_TOPIC, 0)
    assert (await log.read(0, 4)).offsets == [0, 1, 2, 3]


async def test_a_log_that_ends_before_the_position_is_an_error(log: Log) -> None:
    log.batches = [plain(0, 4)]
    with pytest.raises(ClientError, match="ends before offset 90"):
        await log.read(90, 95)


async def test_an_authorization_error_contains_the_required_permissions(
    log: Log,
) -> None:
    log.nodes.refused[OFFSETS_TOPIC] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(ClientError, match="DESCRIBE and READ"):
        await log.heads()
    log.nodes.refused.clear()
    log.codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ClientError, match="DESCRIBE and READ"):
        await log.read(0, 4)


async def test_bytes_that_are_not_a_batch_are_an_error(log: Log) -> None:
    log.batches = [plain(0, 4)]
    log.bytes_max = 30
    with pytest.raises(ClientError, match="offset 0 is no record batch"):
        await log.read(0, 4)


@pytest.mark.slow
async def test_a_partition_without_a_leader_fails_after_the_timeout(log: Log) -> None:
    log.nodes.leaders.clear()
    log.nodes.lead(NOBODY, OFFSETS_TOPIC, 0)
    with pytest.raises(CoterieError, match="__consumer_offsets-0"):
        await asyncio.to_thread(log.source(1_000).heads)
