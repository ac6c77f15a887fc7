"""Merge small files of a lake into large ones, and delete unreferenced files.

The rows stay the same, so no table is built again: a merged file has the version of the
newest of its parts, and only files that every gold table has read are merged. Uses
pyarrow, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.pipeline.lake.lake import (
    File,
    Lake,
    list_versions,
    new_file_path,
    path_of,
)
from coterie.pipeline.lake.storage import open_parquet_writer
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import Layer

FILE_BYTES: Final = 128 * 1024 * 1024
"""Approximate size of a merged file."""
_KEPT_VERSIONS: Final = 10
"""The last versions, which readers may still have open."""
_BATCH_ROWS: Final = 128 * 1024


class CompactionResult(NamedTuple):
    """The numbers of merged, written and deleted files."""

    merged: int
    into: int
    deleted: int


def compact(
    lake: Lake, file_bytes: int = FILE_BYTES, kept_versions: int = _KEPT_VERSIONS
) -> CompactionResult:
    """Merge small files, commit, and delete unreferenced files.

    No other process may write to the lake during this call. Raises LogError on a
    concurrent commit; nothing is then merged.
    """
    merged = into = 0
    tables = dict(lake.version.tables)
    # The last version that every gold table has read. Newer files are not merged,
    # because a gold table reads its new rows by file.
    through = min(
        (
            each.through
            for name, each in tables.items()
            if TABLES[name].layer is Layer.GOLD and each.through
        ),
        default=0,
    )
    for name, table in tables.items():
        parts = list(_mergeable(table.files, through, file_bytes))
        if parts:
            new = [_merge(lake, name, part) for part in parts]
            gone = {file.path for part in parts for file in part}
            rest = [file for file in table.files if file.path not in gone]
            files = tuple(sorted((*rest, *new), key=lambda file: file.version))
            tables[name] = msgspec.structs.replace(table, files=files)
            merged, into = merged + len(gone), into + len(new)
    if merged:
        number = lake.version.number + 1
        lake.commit(msgspec.structs.replace(lake.version, number=number, tables=tables))
    return CompactionResult(merged, into, vacuum(lake, kept_versions))


def vacuum(lake: Lake, kept_versions: int = _KEPT_VERSIONS) -> int:
    """Delete old versions and unreferenced files; return the number of deleted Parquet
    files.
    """
    numbers = list_versions(lake.storage)
    last = set(numbers[-kept_versions:])
    built = {each.through for each in lake.version.tables.values()} & set(numbers)
    kept = last | built
    referenced = {
        file.path
        for number in kept
        for name, table in lake.at(number).tables.items()
        for file in table.files
        # Builds read earlier versions of gold tables only.
        if number in last or TABLES[name].layer is Layer.GOLD
    }
    for number in set(numbers) - kept:
        lake.storage.delete(path_of(number))
    count = 0
    for layer in Layer:
        for entry in lake.storage.entries(layer.value):
            if entry.path not in referenced:
                lake.storage.delete(entry.path)
                count += entry.path.endswith(".parquet")
    return count


def _mergeable(
    files: Sequence[File], through: int, file_bytes: int
) -> Iterator[Sequence[File]]:
    """Return lists of small files to merge, in order of their versions."""
    part: list[File] = []
    size = 0
    for file in files:
        if file.version > through or 2 * file.size_bytes > file_bytes:
            continue
        if size + file.size_bytes > file_bytes:
            if len(part) > 1:
                yield part
            part, size = [], 0
        part.append(file)
        size += file.size_bytes
    if len(part) > 1:
        yield part


def _merge(lake: Lake, name: str, files: Sequence[File]) -> File:
    path = new_file_path(name, lake.version.number + 1)
    dataset, table = lake.scan(name, files), TABLES[name]
    with open_parquet_writer(lake.storage, path, table) as writer:
        for rows in _row_groups(dataset):
            writer.write_table(rows.cast(table.schema))
    return File(
        path,
        sum(each.rows for each in files),
        lake.storage.size(path),
        max(each.version for each in files),
        tuple(sorted({n for each in files for n in each.log_partitions})),
    )


def _row_groups(dataset: ds.Dataset) -> Iterator[Any]:
    pending: list[Any] = []
    for batch in dataset.to_batches():
        pending.append(batch)
        if sum(each.num_rows for each in pending) >= _BATCH_ROWS:
            yield pa.Table.from_batches(pending)
            pending = []
    if pending:
        yield pa.Table.from_batches(pending)
