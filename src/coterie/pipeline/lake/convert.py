"""Convert a lake of the first format, whose manifests listed Parquet files.

The rows that were read from the log and the samples of partition ends are written into
Delta tables, and then the old files are deleted. Gold tables are not converted: the
next run builds them again, with the same rows. A conversion that was killed starts
again from the old files.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds

from coterie.errors import LogError
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.lake import delta as delta_log
from coterie.pipeline.lake.manifest import (
    IDENTITY_PATH,
    SCHEMA_VERSION,
    Change,
    DataFile,
    Identity,
    TableState,
    Version,
    decode,
    encode,
    publish,
)
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.pipeline.tables.table import Layer, Table

_LOGGER = logging.getLogger(__name__)
_STEP = 1


class _OldFile(msgspec.Struct):
    path: str


class _OldTable(msgspec.Struct):
    files: tuple[_OldFile, ...] = ()


class _OldVersion(msgspec.Struct):
    """The manifest `versions/NNNNNN.json` of the first format."""

    number: int = 0
    heads: tuple[LogHead, ...] = ()
    tables: Mapping[str, _OldTable] = {}
    as_of_ts: datetime | None = None
    history_from_ts: datetime | None = None


def convert(storage: Storage, identity: Identity, keep_hours: int) -> Identity:
    """Convert a lake of the first format in place; return its new identity.

    Raises LogError when an old file cannot be read; the old lake is then unchanged.
    """
    old = _read_newest(storage)
    old_files = [entry.path for entry in storage.entries("")]
    _delete_new(storage, old_files)
    _LOGGER.warning("%s is converted to Delta tables, once", storage)
    tables = {}
    for name, table in TABLES.items():
        delta_log.create(storage, table, keep_hours)
        is_read = table.layer in (Layer.BRONZE, Layer.SILVER)
        if name in old.tables and (is_read or table is PARTITION_END_SAMPLES):
            added = _rewrite(storage, table, old.tables[name])
            delta = delta_log.open_table(storage, table)
            delta_log.apply(delta, table, Change(name, added), number=1)
            rows = sum(file.rows for file in added)
            tables[name] = TableState(delta=delta.version(), rows=rows, changed=_STEP)
    version = Version(
        number=1,
        step=_STEP,
        committed_ts=datetime.now(UTC),
        heads=old.heads,
        tables=tables,
        as_of_ts=old.as_of_ts,
        history_from_ts=old.history_from_ts,
        moved=_STEP,
    )
    publish(storage, version)
    converted = msgspec.structs.replace(identity, schema_version=SCHEMA_VERSION)
    storage.replace(IDENTITY_PATH, encode(converted))
    for path in old_files:
        if path != IDENTITY_PATH:
            storage.delete(path)
    return converted


def _read_newest(storage: Storage) -> _OldVersion:
    """Return the newest version. They are consecutive up to it; earlier ones may have
    been deleted."""
    entries = [entry.path for entry in storage.entries("versions")]
    numbered = [path for path in entries if path.endswith(".json")]
    if not numbered:
        return _OldVersion()
    path = max(numbered)
    data = storage.read(path)
    assert data is not None, f"{path} was just listed"
    return decode(storage, path, data, _OldVersion)


def _delete_new(storage: Storage, paths: list[str]) -> None:
    """Delete what an earlier conversion wrote before it was killed.

    Files of both formats are in the same folders; the new ones are not in the old
    manifest, so only logs and manifests have to go.
    """
    for path in [*paths]:
        if path.startswith("manifests/") or "/_delta_log/" in path:
            storage.delete(path)
            paths.remove(path)


def _rewrite(storage: Storage, table: Table, old: _OldTable) -> tuple[DataFile, ...]:
    """Write the rows of old files into new ones."""
    dataset = ds.dataset(
        [storage.at(file.path) for file in old.files],
        schema=table.file_schema,
        format="parquet",
        filesystem=storage.filesystem,
    )
    writer = TableWriter(storage, table, _STEP)
    try:
        for batch in dataset.to_batches():
            writer.add(batch)
    except (OSError, pa.ArrowInvalid) as error:
        writer.discard()
        raise LogError(f"{table.name} of {storage} cannot be read: {error}") from None
    return writer.close()
