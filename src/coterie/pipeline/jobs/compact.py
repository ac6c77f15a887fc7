"""Merges small files into large ones, and takes away what no version names any more.

Rows stay what they are, so no table is built again: a merged file counts as old as the
newest of its parts, and only files that every gold table has seen are merged. By
pyarrow, without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow.dataset as ds

from coterie.pipeline.jobs.worker import folder_of
from coterie.pipeline.lake.lake import Lake, numbers_of, path_of
from coterie.pipeline.lake.parquet import open_writer
from coterie.pipeline.lake.version import File, TableFiles
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.table import Layer

FILE_BYTES: Final = 128 * 1024 * 1024
"""About how large a merged file is."""
_KEEP_VERSIONS: Final = 10
"""Readers may still be at one of the last."""
_BATCH_ROWS: Final = 128 * 1024


class Compacted(NamedTuple):
    """What was done."""

    merged: int
    """Files that became fewer."""
    into: int
    deleted: int
    """Files that no version names."""


def compact(
    lake: Lake, file_bytes: int = FILE_BYTES, keep: int = _KEEP_VERSIONS
) -> Compacted:
    """Merge, commit, and take away what is left over. No run must write meanwhile.

    Raises LogError when one does all the same; then nothing was merged.
    """
    merged = into = 0
    tables = dict(lake.version.tables)
    seen = _seen_by_all(tables)
    for name, table in tables.items():
        parts = [list(each) for each in _groups(table.files, seen, file_bytes)]
        if parts:
            fresh = [_merge(lake, name, part) for part in parts]
            gone = {file.path for part in parts for file in part}
            stay = [file for file in table.files if file.path not in gone]
            files = tuple(sorted((*stay, *fresh), key=lambda file: file.version))
            tables[name] = msgspec.structs.replace(table, files=files)
            merged, into = merged + len(gone), into + len(fresh)
    if merged:
        number = lake.version.number + 1
        lake.commit(msgspec.structs.replace(lake.version, number=number, tables=tables))
    return Compacted(merged, into, vacuum(lake, keep))


def vacuum(lake: Lake, keep: int = _KEEP_VERSIONS) -> int:
    """Take away versions but the last ones, those in which a gold table was built, and
    files that none of these name; how many files that were."""
    numbers = numbers_of(lake.storage)
    last = set(numbers[-keep:])
    built = {each.through for each in lake.version.tables.values()} & set(numbers)
    kept = last | built
    named = {
        file.path
        for number in kept
        for name, table in lake.at(number).tables.items()
        for file in table.files
        # Of how things were at the last build, gold alone is asked for.
        if number in last or TABLES[name].layer is Layer.GOLD
    }
    for number in set(numbers) - kept:
        lake.storage.delete(path_of(number))
    count = 0
    for layer in Layer:
        for entry in lake.storage.entries(layer.value):
            if entry.path not in named:
                lake.storage.delete(entry.path)
                count += entry.path.endswith(".parquet")
    return count


def _seen_by_all(tables: dict[str, TableFiles]) -> int:
    """The last version that every gold table has seen: newer files stay as they are,
    so that it is known what is new in them."""
    built = [
        each.through
        for name, each in tables.items()
        if TABLES[name].layer is Layer.GOLD and each.through
    ]
    return min(built, default=0)


def _groups(
    files: Sequence[File], seen: int, file_bytes: int
) -> Iterator[Sequence[File]]:
    """Small files that become one, in order of their versions."""
    group: list[File] = []
    size = 0
    for file in files:
        if file.version > seen or 2 * file.size_bytes > file_bytes:
            continue
        if size + file.size_bytes > file_bytes:
            yield from [group] if len(group) > 1 else []
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    if len(group) > 1:
        yield group


def _merge(lake: Lake, name: str, files: Sequence[File]) -> File:
    number = lake.version.number + 1
    path = f"{folder_of(name)}/{number:06}-{uuid4().hex[:12]}.parquet"
    scanned, table = lake.scan(name, files), TABLES[name]
    with open_writer(lake.storage, path, table) as writer:
        for batch in _batches(scanned):
            writer.write_table(batch.cast(table.schema))
    return File(
        path,
        sum(each.rows for each in files),
        lake.storage.files.get_file_info(lake.storage.at(path)).size,
        max(each.version for each in files),
        tuple(sorted({n for each in files for n in each.log_partitions})),
    )


def _batches(scanned: ds.Dataset) -> Iterable[Any]:
    """Row groups of a good size, one after another."""
    import pyarrow as pa

    waiting: list[Any] = []
    for batch in scanned.to_batches():
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _BATCH_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
