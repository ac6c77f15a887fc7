"""Views of a store with journals: consistent, also while a server writes it."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.journal import JournalLog
from coterie.broker.log.journal_view import JournalView, ViewPartition
from coterie.broker.log.store_file import StoreFile
from coterie.errors import LogError
from tests.broker.log.logs import OTHER, PARTITION, append

SPACE = "space"
FLUSHES = 300


def open_small(directory: Path) -> JournalLog:
    """Open a log that moves its journals after every few writes."""
    return JournalLog(
        directory, is_synced=False, journal_bytes=1_000, segment_bytes=2_000
    )


def view_of(directory: Path) -> JournalView:
    return JournalView(StoreFile(directory))


def the_partition(view: JournalView) -> ViewPartition:
    [part] = [each for each in view.partitions.values() if each.where == PARTITION]
    return part


def test_a_view_has_the_writes_in_the_journals(tmp_path: Path) -> None:
    log = JournalLog(tmp_path, is_synced=False, journal_bytes=100_000)
    log.create(PARTITION)
    log.create(OTHER)
    log.put(SPACE, b"a", b"1")
    log.put(SPACE, b"b", b"2")
    log.flush()
    log.checkpoint()
    append(log, records=3)
    append(log)
    log.flush()
    log.delete(OTHER)
    log.put(SPACE, b"a", None)
    log.put(SPACE, b"c", b"3")
    log.truncate(PARTITION, 1)
    log.replace(PARTITION, 3, None)
    log.flush()
    view = view_of(tmp_path)
    assert (view.frames, [each.where for each in view.partitions.values()]) == (
        2,
        [PARTITION],
    )
    part = the_partition(view)
    assert (part.log_start_offset, part.next_offset, [*part.tail]) == (1, 4, [0])
    assert view.items(SPACE) == [(b"b", b"2"), (b"c", b"3")]
    log.close()
    assert view_of(tmp_path).frames == 0
    assert view_of(tmp_path).items(SPACE) == view.items(SPACE)


def test_replaced_batches_of_segments_are_in_the_view(tmp_path: Path) -> None:
    log = JournalLog(tmp_path, is_synced=False, journal_bytes=100_000)
    log.create(PARTITION)
    for _ in range(2):
        append(log, records=2)
    log.flush()
    log.checkpoint()
    log.replace(PARTITION, 0, None)
    log.flush()
    part = the_partition(view_of(tmp_path))
    assert (part.replaced, part.next_offset) == ({0: None}, 4)
    assert [each.end_offset for each in part.segments] == [4]
    log.close()


@pytest.mark.slow
def test_views_are_consistent_while_checkpoints_are_made(tmp_path: Path) -> None:
    log = open_small(tmp_path)
    log.create(PARTITION)
    log.flush()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(FLUSHES):
                append(log)
                log.put(SPACE, b"end", b"%d" % (number + 1))
                log.flush()
        except BaseException as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    last = 0
    while last < FLUSHES and not errors:
        view = view_of(tmp_path)
        part = the_partition(view)
        ends = [each.end_offset for each in part.segments]
        bases = [each.base_offset for each in part.segments]
        stored = ends[-1] if ends else 0
        # Segments and journals follow each other without a gap.
        assert bases == [0, *ends[:-1]][: len(bases)]
        assert [*part.tail] == [*range(stored, part.next_offset)]
        assert part.next_offset >= last
        last = part.next_offset
        found = dict(view.items(SPACE)).get(b"end", b"0")
        assert int(found) == the_partition(view).next_offset
    writer.join()
    assert not errors
    log.close()


def test_a_damaged_row_of_the_manifest_is_an_error(tmp_path: Path) -> None:
    log = open_small(tmp_path)
    log.create(PARTITION)
    append(log)
    log.close()
    file = StoreFile(tmp_path)
    assert file.query("SELECT count(*) FROM segments") == [(1,)]
    with sqlite3.connect(tmp_path / MANIFEST_NAME) as connection:
        connection.execute("UPDATE segments SET size_bytes = 7")
    connection.close()
    with pytest.raises(LogError, match="is damaged: the row 1 of segments"):
        JournalView(file)
