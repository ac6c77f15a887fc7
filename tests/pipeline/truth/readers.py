"""Readers of the lake's tables that know nothing of Coterie: the folder of a table is a
Delta table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl
from deltalake import DeltaTable

Row = tuple[Any, ...]
Reader = Callable[[Path, list[str]], list[Row]]


def read_with_deltalake(folder: Path, columns: list[str]) -> list[Row]:
    """Return the rows of a table by delta-rs and pandas."""
    frame = DeltaTable(folder).to_pandas(columns=columns)
    return list(frame[columns].itertuples(index=False, name=None))


def read_with_polars(folder: Path, columns: list[str]) -> list[Row]:
    """Return the rows of a table by polars."""
    return pl.scan_delta(str(folder)).select(columns).collect().rows()


def read_with_duckdb(folder: Path, columns: list[str]) -> list[Row]:
    """Return the rows of a table by DuckDB, through the dataset of delta-rs."""
    with duckdb.connect() as connection:
        connection.register("rows", DeltaTable(folder).to_pyarrow_dataset())
        return connection.sql(f"SELECT {', '.join(columns)} FROM rows").fetchall()


READERS: Final[Mapping[str, Reader]] = {
    "deltalake": read_with_deltalake,
    "polars": read_with_polars,
    "duckdb": read_with_duckdb,
}
OFFSET_COLUMNS: Final = ["group_id", "topic", "partition", "committed_offset"]


def current_offsets(reader: Reader, lake: Path) -> list[Row]:
    """Return the committed offsets in a lake, as this reader counts them, in order."""
    return sorted(reader(lake / "gold" / "current_offsets", OFFSET_COLUMNS))
