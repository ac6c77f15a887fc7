"""Times from which the tables of lag and status are built again.

The tables lag_history and group_status are computed in the order of time. A cut is the
start of a minute; the table group_windows has the state of every partition at a few
cuts: the newest minute, and the last two hours and days. A build begins at the newest
cut before everything that is new, its base, and replaces the rows from there on. Late
data moves the base back; before the oldest cut, everything is built again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from coterie.pipeline.gold.table_inputs import TableInputs

WINDOWS: Final = "group_windows"
SAMPLES: Final = "partition_end_samples"
HISTORY: Final = "offset_commit_history"
OWNERSHIP: Final = "partition_ownership_history"
INPUTS: Final = (SAMPLES, HISTORY, OWNERSHIP)
# Kinds of rows of group_windows.
BASE: Final = "base"
CUT: Final = "cut"
END: Final = "end"
MINUTE: Final = timedelta(minutes=1)
_CLOCK_ERROR: Final = timedelta(hours=1)
"""A commit's time is at most this much before that of the previous commit of its
partition: the clocks of brokers differ."""


class BuildTimes(NamedTuple):
    """The times of one build."""

    base: datetime | None
    """The cut from which everything is built; None to build everything."""
    cuts: tuple[datetime, ...]
    """The cuts after the base whose state is needed by later builds, in order."""
    kept: tuple[datetime, ...]
    """The cuts up to the base whose state stays."""


def plan_of(inputs: TableInputs) -> BuildTimes:
    """Return the times of the next build of group_windows, in one Spark job."""
    samples = inputs.new(SAMPLES).select(F.lit(SAMPLES).alias("of"), _time("sample_ts"))
    commits = inputs.new(HISTORY).select(
        F.lit(HISTORY).alias("of"), _time("append_ts", "commit_ts")
    )
    owners = _changes_of_owners(inputs)
    old = inputs.before().where(F.col("kind") == CUT)
    rows = (
        samples.union(commits)
        .union(owners)
        .union(old.select("kind", _time("cut_ts")))
        .groupBy("of")
        .agg(
            F.unix_seconds(F.min("time")).alias("first"),
            F.unix_seconds(F.max("time")).alias("last"),
            F.collect_set(F.when(F.col("of") == CUT, F.unix_seconds("time"))).alias(
                "all"
            ),
        )
        .collect()
    )
    by_kind = {row["of"]: row for row in rows}
    known = by_kind.pop(CUT, None)
    firsts = [row["first"] for row in by_kind.values()]
    lasts = [by_kind[of]["last"] for of in (SAMPLES, HISTORY) if of in by_kind]
    return _plan(sorted(known["all"]) if known else [], firsts, lasts)


def _plan(known: list[int], firsts: list[int], lasts: list[int]) -> BuildTimes:
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
    return BuildTimes(
        base=None if base is None else _at(base),
        cuts=tuple(_at(t) for t in sorted(wanted) if base is None or t > base),
        kept=tuple(_at(t) for t in before if t in wanted or t == base),
    )


def base_of(inputs: TableInputs) -> datetime | None:
    """Return the time from which the last build of group_windows has its rows.

    Without that table, everything is built.
    """
    rows = inputs.all(WINDOWS).where(F.col("kind") == BASE)
    found = rows.select(F.unix_seconds("cut_ts").alias("at")).collect()
    at = found[0]["at"] if found else None
    return None if at is None else _at(at)


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


def _changes_of_owners(inputs: TableInputs) -> DataFrame:
    """Return the times at which the ownership differs from that of the last build.

    The table is replaced by every build. Equal rows of both cancel out in the exclusive
    or of their hashes.
    """
    both = inputs.all(OWNERSHIP).union(inputs.before(OWNERSHIP))
    names = ("group_id", "topic_id", "topic", "partition", "member_id")
    row = F.xxhash64(*names, "from_log_offset", "is_lower_bound")
    begin = F.struct(F.col("valid_from").alias("time"), row.alias("hash"))
    end = F.struct(
        F.col("valid_to").alias("time"),
        F.xxhash64(*names, "to_log_offset", F.lit(1)).alias("hash"),
    )
    return (
        both.select(F.explode(F.array(begin, end)).alias("change"))
        .select("change.*")
        .where(F.col("time").isNotNull())
        .groupBy("time")
        .agg(F.bit_xor("hash").alias("hash"))
        .where(F.col("hash") != 0)
        .select(F.lit(OWNERSHIP).alias("of"), _time("time"))
    )


def _time(*names: str) -> Column:
    # A commit without a time counts from the beginning.
    columns = [F.col(each) for each in names]
    return F.coalesce(*columns, F.timestamp_seconds(F.lit(0))).alias("time")


def _any_of(conditions: Iterable[Column]) -> Column:
    whole = F.lit(False)
    for each in conditions:
        whole = whole | each
    return whole


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
