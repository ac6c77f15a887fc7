"""Keep the number of files bounded: merge small files, delete old versions.

A run does this by itself, after its refresh. Merging writes the same rows to other
files; only files that every gold table has read are merged, because builds find new
rows by file. Old versions are deleted when they are older than the lake keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple

from coterie.pipeline.lake import delta as delta_log
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import (
    Change,
    DataFile,
    Version,
    list_versions,
    path_of,
    read_version,
)
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.tables.all_tables import GOLD, TABLES

FILE_BYTES: Final = 128 * 1024 * 1024
"""Approximate size of a merged file."""
TAIL_FILES: Final = 16
"""A partition's small files are merged when there are this many."""
_GROWTH: Final = 8
"""A file is merged with smaller ones that have at least 1/8 of its size together, so
each row is rewritten a few times only, and few files remain."""
_VACUUM_VERSIONS: Final = 50
"""Old files are deleted after this many versions."""


class Maintained(NamedTuple):
    """The numbers of merged, written and deleted files."""

    merged: int = 0
    into: int = 0
    deleted: int = 0


def maintain(lake: Lake, tail_files: int = TAIL_FILES) -> Maintained:
    """Merge the small files of partitions that have at least `tail_files` of them, and
    sometimes delete old versions. Raises LogError on a concurrent commit.
    """
    rebuilt = {query.name for query in GOLD.values() if query.merge == "replace"}
    changes = [
        change
        for name in lake.version.tables
        # A table that every build writes again has few files.
        if name not in rebuilt
        and (change := _merge(lake, name, tail_files)) is not None
    ]
    if changes:
        lake.commit(changes)
    merged = sum(len(change.removed) for change in changes)
    into = sum(len(change.added) for change in changes)
    is_due = lake.version.number - lake.version.vacuumed >= _VACUUM_VERSIONS
    return Maintained(merged, into, vacuum(lake) if is_due else 0)


def vacuum(lake: Lake) -> int:
    """Delete versions older than the lake keeps, and files in no version; return the
    number of deleted files."""
    kept = _delete_manifests(lake)
    deleted = 0
    for name, table in TABLES.items():
        versions = {each.of(name).delta for each in kept}
        # Builds read earlier versions of the tables that they were built from.
        versions |= {
            state.read[name]
            for state in lake.version.tables.values()
            if name in state.read
        }
        delta = delta_log.open_table(lake.storage, table)
        deleted += len(delta_log.vacuum(delta, lake.keep_hours, sorted(versions)))
    lake.adopt(vacuumed=lake.version.number)
    return deleted


def _delete_manifests(lake: Lake) -> list[Version]:
    """Delete the manifests of old versions; return the versions that stay."""
    oldest = datetime.now(UTC) - timedelta(hours=lake.keep_hours)
    numbers = list_versions(lake.storage)
    kept = []
    for number in numbers:
        version = read_version(lake.storage, number)
        assert version is not None, f"version {number} was just listed"
        is_old = version.committed_ts is not None and version.committed_ts < oldest
        if is_old and number != lake.version.number:
            lake.storage.delete(path_of(number))
        else:
            kept.append(version)
    return kept


def _merge(lake: Lake, name: str, tail_files: int) -> Change | None:
    """Merge small files of a table; return the change, or None if there is none."""
    files = lake.files(name)
    if len(files) < tail_files:
        return None
    through = _read_by_all(lake, name)
    seen = sorted(
        (file for file in files if file.step <= through),
        key=lambda file: (file.day or "", file.step),
    )
    added: list[DataFile] = []
    removed: list[DataFile] = []
    for _, partition in groupby(seen, key=lambda file: file.day):
        for part in _mergeable(list(partition), tail_files):
            added += _write_merged(lake, name, part)
            removed += part
    if not removed:
        return None
    return Change(name, tuple(added), tuple(removed), moves_rows=False)


def _read_by_all(lake: Lake, name: str) -> int:
    """Return the last step whose rows of a table every gold table has read."""
    states = lake.version.tables
    return min(
        (
            states[query.name].through
            for query in GOLD.values()
            if name in query.inputs and query.name in states
        ),
        default=lake.version.step,
    )


def _mergeable(
    files: Sequence[DataFile], tail_files: int
) -> Iterator[Sequence[DataFile]]:
    """Return the files of one partition to merge into one each."""
    small = [file for file in files if file.size_bytes * 2 <= FILE_BYTES]
    if len(small) < tail_files:
        return
    by_size = sorted(small, key=lambda file: file.size_bytes)
    part: list[DataFile] = []
    size = 0
    for file in by_size:
        if len(part) >= tail_files and file.size_bytes > size * _GROWTH:
            break
        if size + file.size_bytes > FILE_BYTES:
            yield part
            part, size = [], 0
        part.append(file)
        size += file.size_bytes
    if len(part) > 1:
        yield part


def _write_merged(
    lake: Lake, name: str, files: Sequence[DataFile]
) -> tuple[DataFile, ...]:
    step = max(file.step for file in files)
    writer = TableWriter(lake.storage, TABLES[name], step)
    in_order = sorted(files, key=lambda file: (file.step, file.path))
    for batch in lake.file_dataset(name, in_order).to_batches():
        writer.add(batch)
    return writer.close()
