"""Times from which the tables of lag and status are built again.

The tables lag_history and group_status are computed in the order of time. A cut is the
start of a minute; the table group_windows has the state of every partition at a few
cuts: the newest minute, and the last two hours and days. A build begins at the newest
cut before everything that is new, its base, and replaces the rows from there on. Late
data moves the base back; before the oldest cut, everything is built again. The lake's
manifest has the cuts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from coterie.pipeline.gold.table_inputs import Plan

if TYPE_CHECKING:
    from coterie.pipeline.gold.table_inputs import PlanInputs, TableInputs

WINDOWS: Final = "group_windows"
SAMPLES: Final = "partition_end_samples"
HISTORY: Final = "offset_commit_history"
OWNERSHIP: Final = "partition_ownership_history"
INPUTS: Final = (SAMPLES, HISTORY, OWNERSHIP)
END: Final = "end"
"""A kind of rows of group_windows."""
MINUTE: Final = timedelta(minutes=1)
_SECOND_US: Final = 1_000_000
_CLOCK_ERROR: Final = timedelta(hours=1)
"""A commit's time is at most this much before that of the previous commit of its
partition: the clocks of brokers differ."""


def plan_windows(inputs: PlanInputs) -> Plan:
    """Return the plan of the next build of group_windows."""
    firsts, lasts = [], []
    for name, columns in (
        (SAMPLES, ("sample_ts",)),
        (HISTORY, ("append_ts", "commit_ts")),
    ):
        # A commit without a time counts from the beginning.
        found = [
            pc.min_max(times.cast(pa.int64()).fill_null(0)).as_py()
            for times in inputs.new_times(name, *columns)
            if len(times)
        ]
        if found:
            firsts.append(min(each["min"] for each in found) // _SECOND_US)
            lasts.append(max(each["max"] for each in found) // _SECOND_US)
    changed = pc.min(_changes_of_owners(inputs)).as_py()
    if changed is not None:
        firsts.append(changed // _SECOND_US)
    return _plan([round(each.timestamp()) for each in inputs.cuts], firsts, lasts)


def _plan(known: list[int], firsts: list[int], lasts: list[int]) -> Plan:
    """Return the plan from seconds: known cuts, and the times of new rows."""
    before = [cut for cut in known if not firsts or cut <= min(firsts)]
    base = before[-1] if before else None
    # Samples and commits may end at different times, so each has cuts of its own.
    ends = {time - time % 60 for time in lasts} | set(before[-1:])
    wanted = {
        time - time % span - earlier * span
        for time in ends
        for span, earlier in ((60, 0), (3_600, 0), (3_600, 1), (86_400, 0), (86_400, 1))
    }
    return Plan(
        start=None if base is None else _at(base),
        cuts=tuple(_at(t) for t in sorted(wanted) if base is None or t > base),
        kept=tuple(_at(t) for t in before if t in wanted or t == base),
    )


def plan_from_base(inputs: PlanInputs, after: timedelta = timedelta(0)) -> Plan:
    """Return the plan of a table that is built from the base of group_windows on, or
    from a time after it; without that table, everything is built."""
    of_windows = inputs.plan_of(WINDOWS)
    base = None if of_windows is None else of_windows.start
    return Plan(start=None if base is None else base + after)


def _changes_of_owners(inputs: PlanInputs) -> Any:
    """Return the times at which the ownership differs from that of the last build, in
    microseconds.

    The table is replaced by every build. Rows that both have occur an even number of
    times in both together.
    """
    names = ["group_id", "topic_id", "topic", "partition", "member_id"]
    of_begin = [*names, "from_log_offset", "is_lower_bound", "valid_from"]
    of_end = [*names, "to_log_offset", "valid_to"]
    columns = list(dict.fromkeys(of_begin + of_end))
    both = pa.concat_tables(
        [inputs.rows(OWNERSHIP, columns), inputs.rows_before(OWNERSHIP, columns)]
    )
    times = []
    for key in (of_begin, of_end):
        counted = both.select(key).group_by(key).aggregate([([], "count_all")])
        is_changed = pc.equal(pc.bit_wise_and(counted["count_all"], 1), 1)
        times += counted.filter(is_changed)[key[-1]].cast(pa.int64()).chunks
    return pa.chunked_array(times, pa.int64())


def since(rows: DataFrame, time: datetime | None, *columns: str) -> DataFrame:
    """Return the rows with a time in one of the columns that is not before `time`."""
    if time is None:
        return rows
    return rows.where(_any_of(F.col(each) >= timestamp(time) for each in columns))


def commits_since(inputs: TableInputs, time: datetime | None) -> DataFrame:
    """Return the rows of offset_commit_history that may count from a time on."""
    if time is None:
        return inputs.all(HISTORY)
    first = time - _CLOCK_ERROR
    from_ts = timestamp(first)
    at_ts = F.coalesce("append_ts", "commit_ts")
    # Spark skips row groups by the first condition.
    return (
        inputs.since(HISTORY, first)
        .where((F.col("append_ts") >= from_ts) | F.col("append_ts").isNull())
        .where(at_ts >= from_ts)
    )


def timestamp(time: datetime) -> Column:
    """Return a time as a literal."""
    return F.lit(time.isoformat()).cast("timestamp")


def _any_of(conditions: Iterable[Column]) -> Column:
    whole = F.lit(False)
    for each in conditions:
        whole = whole | each
    return whole


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
