"""What the blocks of a report are made of: rows of a lake's tables.

Rules of this file: it reads columns, not tables; a table that is not there yet has no
rows and is named; and of a long history only its newest part is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow.compute as pc

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.report.rows import Ask, is_one_of, read

_LONG: Final = 200_000
"""Of a table of so many rows only the last days are read."""
_DAYS: Final = 3
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Facts:
    """A lake, and what of it is missing."""

    lake: Lake
    missing: set[str] = field(default_factory=set)

    @property
    def as_of(self) -> datetime:
        """The newest time that was read: a report's "now"."""
        return self.lake.version.as_of_ts or _NO_TIME

    def table(self, name: str, columns: Sequence[str], where: Any = None) -> Any:
        """Some columns of a table; without rows when it is not there yet."""
        if name not in self.lake.version.tables:
            self.missing.add(name)
        return self.lake.read(name, columns=columns, filters=where)

    def rows(
        self, name: str, columns: Sequence[str], where: Any = None
    ) -> list[dict[str, Any]]:
        """The same as values."""
        found: list[dict[str, Any]] = self.table(name, columns, where).to_pylist()
        return found

    def first(self, ask: Ask) -> tuple[list[dict[str, Any]], int]:
        """The first rows in an order, and how many there are."""
        if ask.table not in self.lake.version.tables:
            self.missing.add(ask.table)
            return [], 0
        rows, found = read(self.lake, ask)
        return rows.to_pylist(), found

    def topic_names(self) -> dict[str, str]:
        """Names of topics by their ids, as far as they are known: records of consumer
        groups have ids alone."""
        found: dict[str, str] = {}
        for name in ("current_offsets", "partition_end_samples"):
            where = pc.field("topic_id").is_valid()
            rows = self.table(name, ("topic_id", "topic"), where)
            for each in rows.group_by(["topic_id", "topic"]).aggregate([]).to_pylist():
                found[each["topic_id"]] = each["topic"]
        return found

    def recent(self, name: str, column: str) -> Any:
        """The condition that leaves a long history's last days; None for a short
        one."""
        if self.lake.version.of(name).rows <= _LONG:
            return None
        times = self.lake.read(name, columns=[column])[column]
        newest: datetime | None = pc.max(times).as_py()
        if newest is None:
            return None
        return pc.field(column) >= newest - timedelta(days=_DAYS)


def of_groups(groups: Iterable[str], also: Any = None) -> Any:
    """The condition that a row is of one of these groups."""
    condition = is_one_of("group_id", sorted(groups))
    return condition if also is None else condition & also
