"""Plans of builds: times of new rows in, times to build again out; without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow.compute as pc

from coterie.pipeline.gold import plans
from coterie.pipeline.gold.plans import HISTORY, SAMPLES, WINDOWS, Plan
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.rows import arrow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass
class Inputs:
    """The inputs of a plan: rows by table."""

    new: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    cuts: tuple[datetime, ...] = ()
    owners: list[dict[str, Any]] = field(default_factory=list)
    owners_before: list[dict[str, Any]] = field(default_factory=list)
    windows: Plan | None = None

    def plan_of(self, name: str) -> Plan | None:
        assert name == WINDOWS
        return self.windows

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        table = arrow(TABLES[name], self.new.get(name, []))
        yield pc.coalesce(*(table[each] for each in columns))

    def rows(self, how: str, name: str, columns: Sequence[str]) -> Any:
        rows = {"all": self.owners, "old": self.owners_before}[how]
        return arrow(TABLES[name], rows).select(columns)


def owned(begin: datetime, end: datetime | None = None, partition: int = 0) -> Any:
    return {
        "group_id": "g",
        "topic": "t",
        "partition": partition,
        "member_id": "m",
        "valid_from": begin,
        "valid_to": end,
        "from_log_offset": 1,
        "to_log_offset": None if end is None else 2,
        "is_lower_bound": False,
    }


def new(*samples: datetime, commits: Sequence[datetime | None] = ()) -> Any:
    return {
        SAMPLES: [{"sample_ts": each} for each in samples],
        HISTORY: [{"append_ts": each, "commit_ts": None} for each in commits],
    }


CUTS = (NOON - 24 * HOUR, NOON - HOUR, NOON, NOON + 5 * MINUTE)


def test_a_first_build_has_all_rows_and_cuts_at_the_newest_times() -> None:
    time = NOON + 5 * MINUTE + timedelta(seconds=30)
    day = NOON - 12 * HOUR
    assert plans.plan_windows(Inputs(new(time))) == Plan(
        cuts=(day - 24 * HOUR, day, NOON - HOUR, NOON, NOON + 5 * MINUTE)
    )
    assert plans.plan_windows(Inputs()) == Plan()


def test_a_build_begins_at_the_newest_cut_before_all_that_is_new() -> None:
    later, late = NOON + 6 * MINUTE, NOON - 2 * MINUTE
    plan = plans.plan_windows(Inputs(new(later, commits=[later + MINUTE]), CUTS))
    assert plan.base == NOON + 5 * MINUTE
    assert plan.cuts == (NOON + 6 * MINUTE, NOON + 7 * MINUTE)
    assert plan.kept == (NOON - HOUR, NOON, NOON + 5 * MINUTE)
    plan = plans.plan_windows(Inputs(new(later, commits=[late]), CUTS))
    assert plan.base == NOON - HOUR
    assert NOON not in plan.kept
    assert plans.plan_windows(Inputs(new(CUTS[0] - MINUTE), CUTS)).base is None


def test_a_commit_without_a_time_counts_from_the_beginning() -> None:
    inputs = Inputs(new(NOON + 6 * MINUTE, commits=[NOON, None]), CUTS)
    assert plans.plan_windows(inputs).base is None


def test_a_build_begins_before_the_first_change_of_an_owner() -> None:
    begin = NOON - 3 * HOUR
    before = [owned(begin), owned(begin, partition=1)]
    same = Inputs(new(NOON + 6 * MINUTE), CUTS, before, [*reversed(before)])
    assert plans.plan_windows(same).base == NOON + 5 * MINUTE
    ended = [owned(begin, NOON + MINUTE), owned(begin, partition=1)]
    changed = Inputs(new(NOON + 6 * MINUTE), CUTS, ended, before)
    assert plans.plan_windows(changed).base == NOON
    other = Inputs(new(NOON + 6 * MINUTE), CUTS, [owned(begin)], before)
    assert plans.plan_windows(other).base == NOON - 24 * HOUR


def test_tables_of_the_windows_begin_at_their_base_or_have_all_rows() -> None:
    inputs = Inputs(windows=Plan(base=NOON))
    assert plans.plan_from_base(inputs) == Plan(base=NOON)
    assert plans.plan_minutes(inputs) == Plan(base=NOON + MINUTE)
    assert plans.plan_from_base(Inputs(windows=Plan())) == Plan()
    assert plans.plan_minutes(Inputs()) == Plan()


def test_usage_is_counted_again_on_days_in_utc_with_new_rows() -> None:
    assert plans.plan_days(
        Inputs(new(commits=[NOON, NOON + 12 * HOUR, NOON, None]))
    ) == Plan(days=(date(2026, 11, 21), date(2026, 11, 22)))
    assert plans.plan_days(Inputs()) == Plan()
