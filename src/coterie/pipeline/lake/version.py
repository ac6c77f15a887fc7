"""What is in a lake at one time: a manifest. Only the files that it names count."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from coterie.pipeline.gold.settings import LogHead

SCHEMA: Final = "coterie.pipeline.lake"
SCHEMA_VERSION: Final = 1


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file of a table."""

    path: str
    """Below the lake's directory."""
    rows: int
    size_bytes: int
    version: int
    """The first version of the lake that had its rows."""
    log_partitions: tuple[int, ...] = ()
    """Where its rows are from; empty when that is not known."""


class TableFiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table: its files, and in which versions something happened to it."""

    files: tuple[File, ...] = ()
    changed: int = 0
    """The last version that gave it other rows."""
    through: int = 0
    """Of a gold table: the version whose rows, and those before, it has seen."""
    uses_settings: bool = False
    """Of a gold table: it was built from more than rows."""

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(each.rows for each in self.files)


class Version(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One state of the lake."""

    number: int = 0
    """The first commit makes 1."""
    heads: tuple[LogHead, ...] = ()
    """Of each log partition, in order, with the position to go on from."""
    tables: Mapping[str, TableFiles] = {}
    as_of_ts: datetime | None = None
    """The newest `append_ts` that was read, in UTC."""
    history_from_ts: datetime | None = None
    """The oldest one."""
    moved: int = 0
    """The last version with other heads or times."""
    settings: Mapping[str, str] = {}
    """Those that its gold tables were built with."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset of each log partition."""
        return {each.log_partition: each.next_offset for each in self.heads}

    def of(self, name: str) -> TableFiles:
        """A table; without files when it has none yet."""
        return self.tables.get(name, TableFiles())


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`lake.json`: what the directory is, and of which log."""

    schema: str
    schema_version: int
    source: str
    """As `open_source` takes it."""
    cluster_id: str | None = None
