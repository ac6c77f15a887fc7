"""A store with changed bytes: the server refuses to start and says why, or answers
every request, with an error code where it cannot read. It returns no wrong data."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coterie.broker.log.sqlite_file import CLEAN_NAME, FILE_NAME, LOCK_NAME
from coterie.broker.log.stores import STORES, open_log
from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.compression import Codec
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, decode_records, encode_batch
from tests.broker.server.harness import ThreadServer, WireClient

PAGE = 4_096
JOURNAL_BYTES = 64 * 1024
KINDS = (*STORES, "journal running")
TOPICS = ("small", "large")
GROUPS = tuple(f"group-{number}" for number in range(12))
LOADING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
UNREADABLE = {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
SETTINGS: dict[str, Any] = {"offsets_topic_num_partitions": 2, "num_partitions": 1}


@dataclass(frozen=True)
class Store:
    """The directory of a server, the value of its log.store, and the time of its first
    record."""

    directory: Path
    name: str
    began_ms: int
    is_stopped: bool
    """Whether the server was stopped; else its files are those while it ran."""


def value_of(topic: str, offset: int) -> bytes:
    return b"%d " % offset * (1 if topic == "small" else 2_000)


def produce(client: WireClient, topic: str, records: list[LogRecord]) -> int:
    codec = Codec.NONE if len(records) > 1 else Codec.ZSTD
    part = m.PartitionProduceData(index=0, records=encode_batch(records, codec=codec))
    data = m.TopicProduceData(name=topic, partition_data=[part])
    request = m.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data])
    code: int = client.call(request, 9).responses[0].partition_responses[0].error_code
    return code


def commit(client: WireClient, group_id: str, offset: int) -> int:
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata="m" * 50
    )
    topic = m.OffsetCommitRequestTopic(name="small", partitions=[partition])
    request = m.OffsetCommitRequest(group_id=group_id, topics=[topic])
    code: int = client.call(request, 8).topics[0].partitions[0].error_code
    return code


@pytest.fixture(scope="module", params=KINDS)
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Store:
    directory = tmp_path_factory.mktemp("store")
    running = tmp_path_factory.mktemp("running")
    name, _, state = request.param.partition(" ")
    began_ms = int(time.time() * 1_000)
    log = open_log(directory, name, journal_bytes=JOURNAL_BYTES)
    with ThreadServer(log=log, **SETTINGS) as server, server.client() as client:
        topics = [
            m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in TOPICS
        ]
        client.call(m.CreateTopicsRequest(topics=topics, timeout_ms=5_000), 5)
        for topic in TOPICS:
            for offset in range(0, 12, 2):
                records = [
                    LogRecord(at, began_ms + offset + at, b"k", value)
                    for at in range(2)
                    for value in [value_of(topic, offset + at)]
                ]
                assert produce(client, topic, records) == 0
        for number, group_id in enumerate(GROUPS):
            while commit(client, group_id, number) in LOADING:
                pass
        shutil.copytree(directory, running, dirs_exist_ok=True)
    if state:
        return Store(running, name, began_ms, is_stopped=False)
    return Store(directory, name, began_ms, is_stopped=True)


def read_all(client: WireClient, topic: str) -> None:
    """Fetch from each offset: the records that were produced, or a storage error."""
    for offset in range(12):
        part = m.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        request = m.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            topics=[m.FetchTopic(topic=topic, partitions=[part])],
        )
        [response] = client.call(request, 11).responses[0].partitions
        code = ErrorCode(response.error_code)
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        assert code in UNREADABLE, (topic, offset, code)
        if code is ErrorCode.NONE:
            records = response.records
            assert records, (topic, offset)
            for record in decode_records(bytes(records)[: _size(records)]):
                assert record.value == value_of(topic, record.offset)


def _size(records: bytes) -> int:
    return int.from_bytes(bytes(records[8:12]), "big") + 12


def list_all(client: WireClient, topic: str, began_ms: int) -> None:
    for timestamp in (-1, -2, began_ms, began_ms + 11):
        part = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        request = m.ListOffsetsRequest(
            topics=[m.ListOffsetsTopic(name=topic, partitions=[part])]
        )
        [response] = client.call(request, 5).topics[0].partitions
        assert response.error_code in {
            *UNREADABLE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        if response.error_code == 0 and timestamp > 0:
            assert response.offset == timestamp - began_ms


def check_offsets(client: WireClient) -> None:
    """Fetch the offsets of every group: those committed, or an error."""
    ends = time.monotonic() + 1
    for number, group_id in enumerate(GROUPS):
        topic = m.OffsetFetchRequestTopic(name="small", partition_indexes=[0])
        request = m.OffsetFetchRequest(group_id=group_id, topics=[topic])
        response = client.call(request, 7)
        # A shard that cannot be loaded stays in this state.
        while response.error_code in LOADING and time.monotonic() < ends:
            response = client.call(request, 7)
        if response.error_code:
            assert response.error_code in LOADING
            continue
        [part] = response.topics[0].partitions
        assert part.committed_offset == number


def use(directory: Path, store: Store) -> None:
    began_ms = store.began_ms
    log = open_log(directory, store.name, verify=True, journal_bytes=JOURNAL_BYTES)
    with ThreadServer(log=log, **SETTINGS) as server, server.client() as client:
        client.call(m.MetadataRequest(topics=None), 8)
        for topic in TOPICS:
            read_all(client, topic)
            list_all(client, topic, began_ms)
        check_offsets(client)
        for topic in TOPICS:
            produce(client, topic, [LogRecord(0, began_ms, b"k", b"v")])


class Damage(NamedTuple):
    """Changed bytes in a page of a file; pattern 0 is a page of zeros."""

    file: str
    page: int
    pattern: int


def changed(store: Store, to: Path, damage: Damage) -> Path:
    """Copy the store with changed bytes in a page."""
    shutil.copytree(store.directory, to, dirs_exist_ok=True)
    path = to / damage.file
    data = bytearray(path.read_bytes())
    begin = damage.page * PAGE
    end = min(begin + PAGE, len(data))
    if damage.pattern == 0:  # a lost page
        data[begin:end] = bytes(end - begin)
    else:
        for at in range(begin + damage.pattern, end, 509):
            data[at] ^= 0x40
    path.write_bytes(bytes(data))
    if store.is_stopped:
        (to / f"{FILE_NAME}-wal").unlink(missing_ok=True)
    (to / f"{FILE_NAME}-shm").unlink(missing_ok=True)
    return to


def damages(store: Store) -> Iterator[Damage]:
    """Yield damages of each page that is not zeros."""
    for path in sorted(store.directory.rglob("*")):
        if path.is_dir() or path.name in {LOCK_NAME, CLEAN_NAME}:
            continue
        data = path.read_bytes()
        if not store.is_stopped and path.suffix == ".journal":
            # A damaged end is taken for a write that was not finished.
            data = data[: len(data.rstrip(b"\0")) // PAGE * PAGE]
        for page in range(-(-len(data) // PAGE)):
            if any(data[page * PAGE : (page + 1) * PAGE]):
                for pattern in (0, 3, 150, 331):
                    file = str(path.relative_to(store.directory))
                    yield Damage(file, page, pattern)


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False])
def test_changed_pages_are_errors_and_no_wrong_data(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture, clean: bool
) -> None:
    refused = served = 0
    for number, damage in enumerate(damages(store)):
        directory = changed(store, tmp_path / str(number), damage)
        if not clean:
            (directory / CLEAN_NAME).unlink(missing_ok=True)
        try:
            use(directory, store)
            served += 1
        except LogError as error:
            message = str(error)
            assert damage.file in message or "is damaged" in message, (damage, message)
            refused += 1
        except BaseException as error:
            error.add_note(str(damage))
            raise
        for record in caplog.records:
            assert record.exc_info is None, (damage, caplog.text)
        caplog.clear()
        shutil.rmtree(directory)
    assert refused > 0
    assert served > 0
