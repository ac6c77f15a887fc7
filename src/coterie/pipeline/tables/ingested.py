"""The tables that the pipeline writes without a query."""

from __future__ import annotations

from typing import Final

from coterie.pipeline.tables.all_tables import TABLES

RECORDS: Final = TABLES["records"]
OFFSET_COMMITS: Final = TABLES["offset_commits"]
CLASSIC_GROUP_RECORDS: Final = TABLES["classic_group_records"]
CONSUMER_GROUP_RECORDS: Final = TABLES["consumer_group_records"]
TOMBSTONES: Final = TABLES["tombstones"]
QUARANTINE: Final = TABLES["quarantine"]
LOG_GAPS: Final = TABLES["log_gaps"]
PARTITION_END_SAMPLES: Final = TABLES["partition_end_samples"]
RECORD_COLUMNS: Final = RECORDS.columns[:5]
"""Position, time and size of a record: the first columns of every table of records."""
