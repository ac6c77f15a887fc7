"""Measure the time of `coterie pipeline show`, compared with starting Spark.

The lake has the commits of 1,000 groups and 1,000,000 rows of history and of lag. Each
command is a new process; it alternates with the lower bound of any query with Spark:
starting a session and counting the rows of one small table. Bar: a tenth of that
wall-clock time.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.admin.command import coterie, runner
from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.processes import scratch
from coterie.pipeline.lake.delta import folder_of
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.lakes import commit_rows

GROUPS, ROWS = 1_000, 1_000_000
BAR = 0.1
NOW = datetime(2026, 11, 21, tzinfo=UTC)
COMMANDS = (
    "current",
    "offsets --group group-7",
    "history --group group-7",
    "history",
    "lag --group group-7",
)
SPARK_SCRIPT = (
    "from coterie.pipeline.spark_session import start_session\n"
    "spark = start_session()\n"
    "assert spark.read.parquet({path!r}).count() == {rows}\n"
)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Return the ratio to Spark's time for each command."""
    with scratch() as home:
        lake = make_lake(home / "lake")
        [groups] = lake.files("current_groups")
        path = f"{folder_of(TABLES['current_groups'])}/{groups.path}"
        script = SPARK_SCRIPT.format(path=lake.storage.url(path), rows=GROUPS)
        spark = runner([sys.executable, "-c", script])
        for command in COMMANDS:
            words = ["pipeline", "show", *command.split(), "--lake", str(lake.storage)]
            pairs = alternate(rounds, coterie(*words), spark)
            yield Figure(
                name=f"show {command}: time relative to a cold Spark session",
                value=median_ratio(pairs),
                bar=BAR,
                side=Bar.AT_MOST,
                detail=f"{statistics.median(ours for ours, _ in pairs):.2f} s | "
                f"{statistics.median(theirs for _, theirs in pairs):.1f} s",
            )


def make_lake(folder: Path) -> Lake:
    """Create the lake for the measured commands."""
    lake = Lake.create(folder, "segments:log")
    row = np.arange(ROWS)
    group = pa.array([f"group-{each}" for each in range(GROUPS)]).take(
        pa.array(row % GROUPS)
    )
    times = pa.array(
        np.datetime64(NOW.replace(tzinfo=None), "us") - row[::-1].astype("m8[s]")
    ).cast(pa.timestamp("us", "UTC"))
    common = {"group_id": group, "topic": pa.repeat("orders", ROWS)}
    common["partition"] = pa.array(row // GROUPS % 10, pa.int32())
    rows: dict[str, dict[str, Any]] = {
        "current_groups": {"group_id": group.slice(0, GROUPS)},
        "current_offsets": {
            name: each.slice(0, 10 * GROUPS) for name, each in common.items()
        },
        "offset_commit_history": {
            **common,
            "commit_ts": times,
            "log_offset": pa.array(row),
        },
        "lag_history": {**common, "sample_ts": times, "lag": pa.array(row)},
    }
    first = NOW - timedelta(seconds=ROWS)
    tables = {name: _whole(name, columns) for name, columns in rows.items()}
    commit_rows(lake, tables, as_of_ts=NOW, history_from_ts=first)
    return lake


def _whole(name: str, columns: dict[str, Any]) -> Any:
    """Return an Arrow table; columns that are not given are null, or empty where null
    is not allowed.
    """
    count = len(columns["group_id"])
    arrays = [
        columns[each.name]
        if each.name in columns
        else pa.nulls(count, each.type)
        if each.nullable
        else _empty(each.type, count)
        for each in TABLES[name].schema
    ]
    return pa.Table.from_arrays(arrays, schema=TABLES[name].schema)


def _empty(kind: Any, count: int) -> Any:
    value = "" if pa.types.is_string(kind) else 0
    return pa.repeat(pa.scalar(value, pa.int64() if value == 0 else kind), count).cast(
        kind
    )
