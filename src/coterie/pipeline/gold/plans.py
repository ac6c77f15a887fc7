"""Plans of builds: what a build of a gold table reads, and which rows it replaces.

A plan reads the times of new rows, and runs no query of Spark.

The tables lag_history and group_status are computed in the order of time. A cut is the
start of a minute; the table group_windows has the state of every partition at a few
cuts: the newest minute, and the last two hours and days. A build begins at the newest
cut before everything that is new, its base, and replaces the rows from there on. Late
data moves the base back; before the oldest cut, everything is built again. The lake's
manifest has the cuts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WINDOWS: Final = "group_windows"
SAMPLES: Final = "partition_end_samples"
HISTORY: Final = "offset_commit_history"
OWNERSHIP: Final = "partition_ownership_history"
_SECOND_US: Final = 1_000_000
_EPOCH: Final = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one build reads and replaces."""

    base: datetime | None = None
    """The time from which rows are selected; None for all. Rows before it are kept if
    the table merges since the base."""
    cuts: tuple[datetime, ...] = ()
    """New cuts, in order."""
    kept: tuple[datetime, ...] = ()
    """Earlier cuts that stay."""
    days: tuple[date, ...] = ()
    """The days (UTC) with new rows."""


class PlanInputs(Protocol):
    """What the plan of one gold table can depend on."""

    @property
    def cuts(self) -> tuple[datetime, ...]:
        """The cuts of this table's last build, in order."""

    def plan_of(self, name: str) -> Plan | None:
        """Return the plan of an input that is built together with this table; None if
        this table lacks rows of an earlier build of the input."""

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        """Yield the times of the rows added since this table was last built, as Arrow
        arrays: the first one of the columns that is not null."""

    def rows(self, how: str, name: str, columns: Sequence[str]) -> Any:
        """Return the rows of an input, all or old, as an Arrow table."""


def plan_all(_: PlanInputs) -> Plan:
    """Return the plan of a table without another plan."""
    return Plan()


def plan_days(inputs: PlanInputs) -> Plan:
    """Return the days with new commits."""
    numbers: set[int] = set()
    for times in inputs.new_times(HISTORY, "append_ts", "commit_ts"):
        at_us = times.drop_null().cast(pa.int64()).to_numpy()
        numbers.update(np.unique(at_us // (86_400 * _SECOND_US)).tolist())
    return Plan(days=tuple(_EPOCH + timedelta(days=each) for each in sorted(numbers)))


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
    known = [round(each.timestamp()) for each in inputs.cuts]
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
        base=None if base is None else _at(base),
        cuts=tuple(_at(t) for t in sorted(wanted) if base is None or t > base),
        kept=tuple(_at(t) for t in before if t in wanted or t == base),
    )


def plan_from_base(inputs: PlanInputs) -> Plan:
    """Return the plan of a table that is built from the base of group_windows on;
    without that table, everything is built."""
    of_windows = inputs.plan_of(WINDOWS)
    return Plan(base=None if of_windows is None else of_windows.base)


def plan_minutes(inputs: PlanInputs) -> Plan:
    """Return the same for minutes that are evaluated at their end."""
    base = plan_from_base(inputs).base
    return Plan(base=None if base is None else base + timedelta(minutes=1))


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
        [inputs.rows(how, OWNERSHIP, columns) for how in ("all", "old")]
    )
    times = []
    for key in (of_begin, of_end):
        counted = both.select(key).group_by(key).aggregate([([], "count_all")])
        is_changed = pc.equal(pc.bit_wise_and(counted["count_all"], 1), 1)
        times += counted.filter(is_changed)[key[-1]].cast(pa.int64()).chunks
    return pa.chunked_array(times, pa.int64())


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
