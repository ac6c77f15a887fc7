"""Tests for reading Coterie's own store while its server runs, or without it."""

from __future__ import annotations

import pickle
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from coterie.broker.catalog.entries import Entry, EntryKind
from coterie.broker.catalog.topics import OFFSETS_TOPIC, Topic
from coterie.broker.log.compaction import compact, run_steps
from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError, SettingError
from coterie.pipeline.sources.journal_store import JournalStore
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.sources.store import StoreSource, open_store
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.pipeline.sources.log_files import FILES, open_files
from tests.pipeline.sources.logs import (
    marker,
    of_transaction,
    plain,
    read_all,
    read_in_many_runs,
    read_ranges,
)

TOPIC_ID = bytes(range(16))
LOG = [
    plain(0, 3),
    of_transaction(3, 7, 2),
    plain(5),
    marker(6, 7, commit=True),
    of_transaction(7, 8),
    marker(8, 8, commit=False),
    plain(9, 2),
]


@contextmanager
def a_log(directory: Path, store: str) -> Iterator[Log]:
    """Open a log whose batches are in the file or the files that `store` names."""
    log = open_files(directory, store)
    topic = Topic(OFFSETS_TOPIC, TOPIC_ID, 2)
    entry = Entry(EntryKind.TOPIC, topic.name, topic.to_value())
    log.put(entry.space, *entry.encode())
    for topic_id in (bytes(16), TOPIC_ID):
        for partition in range(2):
            log.create(LogPartition(topic_id, partition))
    log.flush()
    yield log
    log.close()


@pytest.fixture(params=FILES)
def store(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def log(tmp_path: Path, store: str) -> Iterator[Log]:
    with a_log(tmp_path / "data", store) as log:
        yield log


def append(log: Log, *batches: bytes, partition: int = 1) -> None:
    for batch in batches:
        log.append(LogPartition(TOPIC_ID, partition), batch)
    log.flush()


def again(offset: int, key: bytes) -> bytes:
    return encode_batch([LogRecord(offset, 1_000, key, b"w")])


def place(log: Log) -> str:
    return str(log.directory)


def files_of(log: Log) -> dict[str, bytes]:
    assert log.directory is not None
    found = [path for path in log.directory.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in found}


def test_a_store_is_read_while_its_server_writes(log: Log, store: str) -> None:
    source = open_source(place(log))
    assert source.describe() == f"store:{log.directory}"
    assert [each[:3] for each in source.heads().values()] == [(0, 0, 0), (0, 0, 0)]
    append(log, *LOG)
    if store == "segments":
        assert isinstance(log, JournalLog)
        log.checkpoint()  # waits for the one in progress
    before = files_of(log)
    read = read_all(source)
    assert {name: data for name, data in before.items() if "shm" not in name} == {
        name: data for name, data in files_of(log).items() if "shm" not in name
    }
    assert read.offsets == list(range(11))
    assert [each for each in read.outcomes.values() if each] == [
        "committed",
        "committed",
        "aborted",
    ]
    assert (read.positions, read.faults, read.gaps) == ({1: 11}, [], [])
    append(log, plain(11))
    heads = source.heads({1: 11})
    assert heads[1][:3] == (0, 12, 12)
    assert read_ranges(source, plan(heads, {1: 11})).offsets == [11]


def test_a_store_without_a_server_is_read_and_no_file_is_created(
    tmp_path: Path, store: str
) -> None:
    with a_log(tmp_path, store) as log:
        append(log, *LOG)
    before = files_of(log)
    assert str(tmp_path / f"{MANIFEST_NAME}-wal") not in before
    source: StoreSource = pickle.loads(pickle.dumps(open_store(place(log))))
    assert read_in_many_runs(source, 1) == read_all(source)
    assert read_all(source).offsets == list(range(11))
    assert files_of(log) == before


def test_records_after_an_open_transaction_are_not_read(log: Log) -> None:
    append(log, *LOG, of_transaction(11, 9), plain(12))
    source = open_store(place(log))
    assert source.heads()[1][:3] == (0, 11, 13)
    assert read_all(source).positions == {1: 11}
    append(log, marker(13, 9, commit=True))
    assert read_in_many_runs(source, 1).outcomes[11] == "committed"


def test_offsets_removed_by_compaction_are_gaps(
    log: Log,
) -> None:
    append(log, plain(0), plain(1, 3), again(4, b"k0"), again(5, b"k2"), plain(6))
    source = open_store(place(log))
    assert read_all(source).missing == []
    where = LogPartition(TOPIC_ID, 1)
    run_steps(compact(log, where, start=0, end=7, tombstones_before_ms=0))
    log.flush()
    read = read_all(source)
    assert read.offsets == [1, 3, 4, 5, 6]
    assert read.missing == [(0, 1, "log_start"), (2, 3, "missing")]
    assert read_in_many_runs(source, 1) == read


def test_a_file_that_is_not_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"has no coterie\.db: give the directory"):
        open_source(f"store:{tmp_path}")
    path = tmp_path / MANIFEST_NAME
    path.write_bytes(b"not a database, and longer than a header of one" * 99)
    with pytest.raises(LogError, match="is not a Coterie store"):
        open_store(str(tmp_path))
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE batches (place INTEGER)")
    connection.close()
    with pytest.raises(SettingError, match="is not a Coterie store"):
        open_store(str(tmp_path))


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path, store: str) -> None:
    with a_log(tmp_path, store):
        pass
    with sqlite3.connect(tmp_path / MANIFEST_NAME) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SettingError, match=r"another .* .store version 99"):
        open_store(str(tmp_path))


def test_a_log_shorter_than_the_read_position_is_an_error(log: Log) -> None:
    append(log, *LOG)
    source = open_store(place(log))
    parts = plan(source.heads(), {})
    log.delete(LogPartition(TOPIC_ID, 1))
    log.flush()
    with pytest.raises(LogError, match="no longer has log partition 1"):
        read_ranges(source, parts)


def segment_of(log: Log) -> Path:
    assert log.directory is not None
    [path] = log.directory.glob("segments/*-1/*.log")
    return path


def test_a_corrupt_batch_of_a_segment_is_a_fault(tmp_path: Path) -> None:
    with a_log(tmp_path, "segments") as log:
        append(log, *LOG)
    path = segment_of(log)
    data = bytearray(path.read_bytes())
    at = data.index(plain(5))
    data[at + 65] ^= 1
    path.write_bytes(data)
    read = read_all(open_store(str(tmp_path)))
    assert read.missing == [(5, 6, "unreadable")]
    assert [each["source"] for each in read.faults] == [str(path.relative_to(tmp_path))]
    assert read_in_many_runs(open_store(str(tmp_path)), 1) == read


def test_bytes_that_a_segment_has_lost_are_a_fault(tmp_path: Path) -> None:
    with a_log(tmp_path, "segments") as log:
        append(log, *LOG)
    log = open_files(tmp_path, "journal")
    append(log, plain(11))
    path = segment_of(log)
    path.write_bytes(path.read_bytes()[:-3])
    read = read_all(open_store(str(tmp_path)))
    log.close()
    assert read.offsets[-1] == 11
    assert read.missing == [(9, 11, "unreadable")]
    assert {each["source"] for each in read.faults} == {str(path.relative_to(tmp_path))}


def test_a_segment_that_is_replaced_meanwhile_is_read_in_its_new_form(
    tmp_path: Path,
) -> None:
    with a_log(tmp_path, "segments") as log:
        append(log, plain(0), plain(1, 3), again(4, b"k0"), again(5, b"k2"), plain(6))
    log = open_files(tmp_path, "segments")
    before = segment_of(log)
    store = JournalStore(StoreFile(tmp_path))
    [part] = [each for each in store.partitions(TOPIC_ID) if each.partition == 1]
    where = LogPartition(TOPIC_ID, 1)
    run_steps(compact(log, where, start=0, end=7, tombstones_before_ms=0))
    log.close()
    assert segment_of(log) != before
    runs = list(store.batches(part.number, 0))
    assert [each[0] for run in runs for each in run.batches] == [1, 4, 5, 6]


@pytest.mark.slow
def test_a_store_is_read_while_checkpoints_are_made(tmp_path: Path) -> None:
    count = 150
    errors: list[BaseException] = []
    with a_log(tmp_path, "segments") as log:

        def write() -> None:
            try:
                for offset in range(count):
                    append(log, plain(offset))
            except BaseException as error:
                errors.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        source, position, offsets = open_store(str(tmp_path)), 0, list[int]()
        while position < count and not errors:
            heads = source.heads({1: position})
            read = read_ranges(source, plan(heads, {1: position}))
            assert (read.faults, read.gaps) == ([], [])
            offsets += read.offsets
            position = heads[1].stable_offset
        writer.join()
    assert not errors
    assert offsets == list(range(count))
