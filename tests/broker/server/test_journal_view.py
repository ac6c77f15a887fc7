"""Views of a store with journals: consistent, also while a server writes it."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.journal import JournalLog
from coterie.broker.log.manifest import PartitionRow
from coterie.broker.server.journal_view import JournalView, StoreFile
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


def the_partition(view: JournalView) -> PartitionRow:
    [part] = [each for each in view.partitions.values() if each.partition == PARTITION]
    return part


def test_a_view_has_the_writes_in_the_journals(tmp_path: Path) -> None:
    log = JournalLog(tmp_path, is_synced=False, journal_bytes=100_000)
    log.create(PARTITION)
    log.create(OTHER)
    log.put(SPACE, b"a", b"1")
    log.put(SPACE, b"b", b"2")
    append(log, records=3)
    log.flush()
    log.checkpoint()
    append(log)
    log.flush()
    log.delete(OTHER)
    log.put(SPACE, b"a", None)
    log.put(SPACE, b"c", b"3")
    log.truncate(PARTITION, 1)
    log.flush()
    view = view_of(tmp_path)
    part = the_partition(view)
    assert (view.frames, len(view.partitions)) == (2, 1)
    assert part.log_start_offset == 1
    assert [each.end_offset for each in part.segments] == [3]
    assert view.items(SPACE) == [(b"b", b"2"), (b"c", b"3")]
    log.close()
    assert view_of(tmp_path).frames == 0
    assert view_of(tmp_path).items(SPACE) == view.items(SPACE)


def test_segments_that_a_journal_removes_are_not_in_the_view(tmp_path: Path) -> None:
    log = JournalLog(tmp_path, is_synced=False, journal_bytes=100_000)
    log.create(PARTITION)
    append(log, records=3)
    log.flush()
    log.checkpoint()
    log.truncate(PARTITION, 3)
    log.flush()
    assert the_partition(view_of(tmp_path)).segments == ()
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
        found = int(dict(view.items(SPACE)).get(b"end", b"0"))
        segments = the_partition(view).segments
        ends = [each.end_offset for each in segments]
        stored = ends[-1] if ends else 0
        # Segments follow each other without a gap, and the journals follow them.
        assert [each.base_offset for each in segments] == [0, *ends[:-1]][: len(ends)]
        created = 1 if stored == 0 else 0  # a frame may be that of the partition
        assert view.frames - created <= found - stored <= view.frames
        assert found >= last
        last = found
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
