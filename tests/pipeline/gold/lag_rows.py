"""Hand-written inputs of lag_history and group_status: one topic for each case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import arrow, at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row: TypeAlias = dict[str, Any]


class LagRows:
    """Rows of the input tables. Times are minutes; the partition is 0, the group is
    g."""

    def __init__(self) -> None:
        self.samples: list[Row] = []
        self.history: list[Row] = []
        self.ownership: list[Row] = []

    def ends(
        self, topic: str, *ends: int, start: int = 0, first: float = 0, of: str | None
    ) -> None:
        """Add samples, one a minute from `first` on."""
        self.samples += [
            {
                "topic": topic,
                "topic_id": of,
                "sample_ts": at(60 * (first + minute)),
                "log_start_offset": start,
                "high_watermark": end,
            }
            for minute, end in enumerate(ends)
        ]

    def commit(
        self, topic: str, minute: float, offset: int | None, **more: Any
    ) -> None:
        """Add a commit; without an offset, a tombstone."""
        row = {
            "group_id": "g",
            "topic": topic,
            "log_offset": len(self.history),
            "committed_offset": offset,
            "commit_ts": at(60 * minute),
            "append_ts": at(60 * minute),
        }
        self.history.append(row | more)

    def owned(
        self,
        topic: str | None,
        since: float,
        until: float | None,
        by: str,
        topic_id: str | None = None,
        *,
        is_lower_bound: bool = False,
    ) -> None:
        """Add an ownership interval of a member."""
        seq = len(self.ownership)
        row = {
            "group_id": "g",
            "topic": topic,
            "topic_id": topic_id,
            "member_id": by,
            "valid_from": at(60 * since),
            "valid_to": None if until is None else at(60 * until),
            "from_log_offset": seq,
            "to_log_offset": seq + 1,
            "is_lower_bound": is_lower_bound,
        }
        self.ownership.append(row)

    def tables(self) -> dict[str, Any]:
        """Return samples, commit history and ownership as Arrow tables by name."""
        rows = {
            PARTITION_END_SAMPLES: self.samples,
            TABLES["offset_commit_history"]: self.history,
            TABLES["partition_ownership_history"]: self.ownership,
        }
        return {table.name: arrow(table, each) for table, each in rows.items()}

    @staticmethod
    def lake(spark: SparkSession) -> MemoryLake:
        """Return an empty lake that builds lag_history and group_status."""
        return MemoryLake(spark, ["group_windows", "lag_history", "group_status"])

    def built(self, spark: SparkSession, name: str) -> list[Row]:
        """Return the rows of lag_history or group_status."""
        lake = self.lake(spark).run(self.tables())
        rows: list[Row] = lake.tables[name].to_pylist()
        return rows
