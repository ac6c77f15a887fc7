"""Delta tables of a lake: create them, commit files to them, list their files.

The logs are written by delta-rs, which needs no JVM, so every engine that reads Delta
reads the tables. Data files are written by Spark or by pyarrow; a commit only names
them. Each commit carries the number of the lake's version as Delta's application
transaction, so applying a version twice has no effect.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from coterie.errors import LogError
from coterie.pipeline.lake.faults import summarize
from coterie.pipeline.lake.manifest import Change, DataFile
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.tables.table import DAY, Table

APPLICATION: Final = "coterie"
"""The application of the transactions in Delta's logs."""
_CHECKPOINT_INTERVAL: Final = 50
_STAT_TEXT_LENGTH: Final = 64


def folder_of(table: Table) -> str:
    """Return the folder of a table, relative to the lake's directory."""
    return f"{table.layer.value}/{table.name}"


def delta_schema(table: Table) -> Any:
    """Return the Arrow schema of the Delta table: all columns, nullable.

    Spark writes every column as nullable, and Delta cannot add required columns.
    """
    return pa.schema([pa.field(each.name, each.type) for each in table.all_columns])


def create(storage: Storage, table: Table, log_hours: int) -> None:
    """Create an empty Delta table that keeps its log for `log_hours`; do nothing if it
    exists."""
    DeltaTable.create(
        storage.delta_uri(folder_of(table)),
        schema=delta_schema(table),
        mode="ignore",
        partition_by=[DAY] if table.day_of else None,
        name=table.name,
        description=table.question,
        configuration={
            "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
            "delta.logRetentionDuration": _interval(log_hours),
        },
    )


def open_table(storage: Storage, table: Table, version: int | None = None) -> Any:
    """Open a Delta table, at its newest version by default.

    Raises LogError when that version does not exist.
    """
    try:
        return DeltaTable(storage.delta_uri(folder_of(table)), version=version)
    except (DeltaError, OSError) as error:
        which = "" if version is None else f" at version {version}"
        raise LogError(
            f"the Delta log of {table.name} in {storage} cannot be read{which}:"
            f" {summarize(error)}; restore {folder_of(table)}/_delta_log from a backup,"
            " or read the log again into another directory with coterie pipeline run"
        ) from None


def keep_log(delta: Any, hours: int) -> None:
    """Set how long the log of a table is kept."""
    name, value = "delta.logRetentionDuration", _interval(hours)
    if delta.metadata().configuration.get(name) != value:
        delta.alter.set_table_properties({name: value})
        delta.update_incremental()


def _interval(hours: int) -> str:
    return f"interval {hours} hours"


def add_columns(delta: Any, table: Table) -> None:
    """Add the declared columns that an older Coterie did not have."""
    declared = Schema.from_arrow(delta_schema(table))
    known = {field.name for field in delta.schema().fields}
    new: list[Field] = [each for each in declared.fields if each.name not in known]
    if new:
        delta.alter.add_columns(new)
        delta.update_incremental()


def apply(delta: Any, table: Table, change: Change, number: int) -> None:
    """Commit a change of the lake's version `number`, unless it was committed already.

    `delta` is the table at its newest version, and stays so. Raises LogError when
    another process commits at the same time.
    """
    done = delta.transaction_version(APPLICATION)
    if done is not None and done >= number:
        return
    now_ms = int(time.time() * 1_000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path,
            size=file.size_bytes,
            partition_values={DAY: file.day} if table.day_of else {},
            modification_time=now_ms,
            data_change=change.moves_rows,
            stats=file.stats,
        )
        for file in change.added
    ]
    actions += [
        RemoveAction(
            path=file.path,
            data_change=change.moves_rows,
            deletion_timestamp=now_ms,
            size=file.size_bytes,
            partition_values={DAY: file.day} if table.day_of else {},
        )
        for file in change.removed
    ]
    try:
        delta.create_write_transaction(
            actions,
            "append",
            schema=delta_schema(table),
            partition_by=[DAY] if table.day_of else None,
            commit_properties=CommitProperties(
                max_commit_retries=1,
                app_transactions=[Transaction(APPLICATION, number)],
            ),
        )
        delta.update_incremental()
    except DeltaError as error:
        raise LogError(
            f"another process writes to the table {table.name}: {error}; only one run"
            " may write to a lake at a time"
        ) from None


def vacuum(delta: Any, keep_hours: int, keep_versions: list[int]) -> list[str]:
    """Delete files that no kept version has; return their paths."""

    def run(*, dry_run: bool) -> list[str]:
        return list(
            delta.vacuum(
                retention_hours=keep_hours,
                dry_run=dry_run,
                enforce_retention_duration=False,
                full=True,  # and files that a killed run left
                keep_versions=keep_versions,
            )
        )

    # Each vacuum adds commits to the log, so it must have something to do.
    return run(dry_run=False) if run(dry_run=True) else []


def files_of(delta: Any) -> tuple[DataFile, ...]:
    """Return the files of a table at its version, the oldest step first."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    count = actions.num_rows
    days: list[str | None] = [None] * count
    if (name := f"partition.{DAY}") in actions.column_names:
        days = [day and str(day) for day in actions[name].to_pylist()]
    files = map(
        DataFile,
        actions["path"].to_pylist(),
        actions["num_records"].to_pylist(),
        actions["size_bytes"].to_pylist(),
        days,
    )
    return tuple(sorted(files, key=lambda file: (file.step, file.path)))


def bounds_of(delta: Any, column: str) -> Mapping[str, tuple[Any, Any]]:
    """Return the least and greatest value of a column by file; the statistics of times
    are rounded outwards to milliseconds."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    if f"max.{column}" not in actions.column_names:
        return {}
    names = ("path", f"min.{column}", f"max.{column}")
    rows = zip(*(actions[name].to_pylist() for name in names), strict=True)
    return {path: (low, high) for path, low, high in rows}


# Statistics of new files.


def describe_file(storage: Storage, table: Table, path: str) -> DataFile:
    """Return a new file with its statistics, from the footer of the Parquet file.

    `path` is relative to the table's folder; the folder `day=...` is its partition.
    """
    whole = f"{folder_of(table)}/{path}"
    metadata = storage.parquet_metadata(whole)
    day = None
    if table.day_of:
        value = path.partition("/")[0].partition("=")[2]
        day = None if value == NO_DAY else value
    return DataFile(
        path,
        metadata.num_rows,
        storage.size(whole),
        day,
        json.dumps(_statistics(metadata)),
    )


NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder name of rows without a day, in Hive's form."""


def _statistics(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return Delta's statistics of a file: rows, and per column bounds and nulls."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        groups = [
            metadata.row_group(group).column(index).statistics
            for group in range(metadata.num_row_groups)
        ]
        if "." in name or not all(groups):
            continue
        if all(each.has_null_count for each in groups):
            nulls[name] = sum(each.null_count for each in groups)
        if groups and all(each.has_min_max for each in groups):
            low = _bound(min(each.min for each in groups), is_high=False)
            high = _bound(max(each.max for each in groups), is_high=True)
            lows |= {} if low is None else {name: low}
            highs |= {} if high is None else {name: high}
    return {
        "numRecords": metadata.num_rows,
        "minValues": lows,
        "maxValues": highs,
        "nullCount": nulls,
    }


def _bound(value: Any, *, is_high: bool) -> Any:
    """Return a bound as JSON; None for a value without a useful bound."""
    match value:
        case datetime():
            # Delta's statistics have milliseconds; tables have microseconds.
            at = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            rest = at.microsecond % 1_000
            if is_high and rest:
                at += timedelta(microseconds=1_000 - rest)
            return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1_000:03}Z"
        case date():
            return value.isoformat()
        case bool() | int():
            return value
        case str():
            # A cut text is a lower bound, but no upper bound.
            if len(value) <= _STAT_TEXT_LENGTH:
                return value
            return None if is_high else value[:_STAT_TEXT_LENGTH]
    return None
