"""Settings of gold tables, and properties of the lake that gold tables depend on."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Any, Final, NamedTuple

from coterie.pipeline.tables.table import TIME_MS_MAX

DAY_MS: Final = 24 * 60 * 60 * 1000


class LogHead(NamedTuple):
    """The position of the pipeline in one log partition, and the end of that log."""

    log_partition: int
    next_offset: int
    """Next offset to read."""
    start_offset: int
    """Log start offset at the last run."""
    stable_offset: int
    """Last stable offset: the first open transaction, or the end of the log."""
    end_offset: int
    off_clock: int = 0
    """The number of records whose time is far from that of the records around them."""


@dataclass(frozen=True, slots=True)
class BurrowRules:
    """Settings of LinkedIn Burrow's evaluation, with Burrow's defaults."""

    intervals: int = 10
    """Number of commits, and of partition ends, in the window."""
    min_distance_ms: int = 0
    """A commit this close to the previous one replaces it in the window."""
    allowed_lag: int = 0
    """Highest lag that is OK regardless of the window."""
    minimum_complete: float = 0.0
    """Filled share of the window below which Burrow's verdict is OK and ours, with lag,
    TOO_NEW; 0 to 1. Ours needs two commits at least."""

    @property
    def least_commits(self) -> int:
        """The number of commits that our verdict on a partition with lag needs."""
        return max(2, ceil(self.minimum_complete * self.intervals))


@dataclass(frozen=True, kw_only=True)
class GoldSettings:
    """Settings of gold tables, durations in ms, and properties of the lake.

    No table reads a clock: `as_of_ts` is the current time of the lake.
    """

    as_of_ts: datetime | None = None
    """The time of the newest records (`lake.log_clock`), with its time zone; None in an
    empty lake."""
    heads: tuple[LogHead, ...] = ()
    """Positions of all log partitions, in order."""
    retention_ms: int = 7 * DAY_MS
    """`offsets.retention.minutes` of the cluster; 7 days is Kafka's default."""
    storm_epochs: int = 5
    """Number of epochs within `storm_window_ms` that make a rebalance storm."""
    storm_window_ms: int = 10 * 60 * 1000
    storm_quiet_ms: int = 10 * 60 * 1000
    """A storm ends after this time without a new epoch."""
    burrow: BurrowRules = field(default_factory=BurrowRules)
    guard_ms: int = DAY_MS
    """A group with activity in this time is never a candidate for deletion. One day
    covers daily jobs and clients that restart overnight."""
    simple_guard_ms: int = 7 * DAY_MS
    """The same for simple groups. It is longer, because their clients are not members:
    the log shows them only when they commit (K-07a)."""
    gap_factor: float = 1.5
    """A group is stale only after this many times its longest pause. The margin covers
    schedules that vary, such as months of 28 to 31 days or a delayed batch."""
    assumed_gap_ms: int = 7 * DAY_MS
    """Assumed longest pause of a group whose beginning is missing from the log. A week
    is the longest period of a usual schedule that such a log may not show."""
    tables_version: int = 4
    """Version of the gold tables' content. With another version, each table is built
    again from all rows: a table that adds new rows to its previous result would lack
    the earlier rows in a new column."""
    soon_ms: int = DAY_MS
    """Offsets that expire within this time count as expiring soon."""
    keep: tuple[str, ...] = ()
    """Groups that are never candidates: names with the wildcards * and ?."""
    test_names: str = (
        "(?i)(^|[._-])(test|tmp|temp|dev|debug|demo|scratch|console-consumer)([._-]|$)"
    )
    """Regular expression for names of test groups."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings by the names that queries use."""
        wildcards = {"*": ".*", "?": "."}
        kept = (
            "".join(wildcards.get(each) or re.escape(each) for each in name)
            for name in self.keep
        )
        return vars(self) | {
            "heads": json.dumps([head._asdict() for head in self.heads]),
            "intervals": self.burrow.intervals,
            # Without a name, nothing matches.
            "kept_names": "|".join(f"^({each})$" for each in kept) or "(?!)",
            "time_ms_max": TIME_MS_MAX,
        }
