"""What each group did each day, by hand-made rows and by the truth."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from coterie.pipeline.gold import current_offsets, offset_commit_history
from coterie.pipeline.gold.group_usage_daily import GOLD
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.member_sessions import MEMBER_SESSIONS
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from tests.pipeline.gold.generated import time_of
from tests.pipeline.gold.hand_made import arrow, at
from tests.pipeline.gold.looks import Lakeful

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.gold.generated import Story

pytestmark = pytest.mark.slow
BUILDS = (current_offsets.GOLD, offset_commit_history.GOLD, GOLD)
HOUR = 3600
DAY = 24 * HOUR
FIRST, SECOND = date(2026, 1, 1), date(2026, 1, 2)
Usage = dict[tuple[date, str, str], dict[str, Any]]


def _commit(seconds: float, offset: int, **more: Any) -> dict[str, Any]:
    about = {"log_offset": seconds, "group_id": "g", "topic": "t", "size_bytes": 10}
    return {**about, "commit_ts": at(seconds), "committed_offset": offset, **more}


def _session(joined: float, left: float | None, member_id: str) -> dict[str, Any]:
    times = {"joined_ts": at(joined), "left_ts": None if left is None else at(left)}
    return {"group_id": "g", "member_id": member_id, **times}


def _usage(lake: Lakeful, *names: str) -> Usage:
    keys = ("day", "group_id", "topic")
    rows = lake.tables[GOLD.table.name].to_pylist()
    return {
        tuple(row[key] for key in keys): {name: row[name] for name in names}
        for row in rows
    }


def test_a_day_is_counted_again_when_rows_come_for_it(spark: SparkSession) -> None:
    lake = Lakeful(spark, BUILDS, GoldSettings(as_of_ts=at(DAY + HOUR)))
    first = [
        _commit(1, 100),
        _commit(2, 350, group_id="h"),
        _commit(59, 150),
        _commit(60, 120),
    ]
    lake.run(
        {
            "offset_commits": arrow(OFFSET_COMMITS, first),
            "member_sessions": arrow(MEMBER_SESSIONS, [_session(0, None, "a")]),
        }
    )
    then = [
        _commit(DAY - 1, 125),
        # The least and the most that an offset can be.
        _commit(DAY, -(2**63)),
        _commit(DAY + 1, 2**63 - 1),
        _commit(DAY + 2, 2**63 - 2),
        _commit(DAY + 3, 2**63 - 1),
        _commit(DAY + 4, 7, commit_ts=None, append_ts=None),
    ]
    sessions = [
        _session(0, None, "a"),
        _session(10, 20, "b"),
        _session(20, 30, "c"),
        _session(DAY - 5, DAY + 5, "d"),
        _session(DAY + 4, None, "e"),
    ]
    lake.run(
        {
            "offset_commits": arrow(OFFSET_COMMITS, then),
            "member_sessions": arrow(MEMBER_SESSIONS, sessions),
        }
    )
    names = [
        each.name for each in GOLD.table.columns if each.name not in GOLD.table.key
    ]
    found = _usage(lake, *names)
    assert found.keys() == {(FIRST, "g", "t"), (FIRST, "h", "t"), (SECOND, "g", "t")}
    assert found[FIRST, "g", "t"] == {
        "offsets_consumed": 55,
        "offsets_rewound": 30,
        "commits": 4,
        "tombstones": 0,
        "commits_per_s_max": pytest.approx(2 / 60),
        "log_bytes_written": 40,
        "active_minutes": 3,
        "members_max": 2,
        "cost_share": 0.8,
    }
    assert found[FIRST, "h", "t"]["cost_share"] == 0.2
    assert found[FIRST, "h", "t"]["members_max"] is None
    assert found[SECOND, "g", "t"]["members_max"] == 3
    assert found[SECOND, "g", "t"]["offsets_consumed"] == 1


def test_days_are_as_they_truly_were_in_one_run_and_in_two(
    spark: SparkSession, story: Story
) -> None:
    whole = Lakeful(spark, BUILDS).run(with_sessions(story, story.silver))
    check_usage(whole, story)
    halves = Lakeful(spark, BUILDS)
    for part in story.parts(0.5):
        halves.run(with_sessions(story, part))
    assert halves.tables[GOLD.table.name].equals(whole.tables[GOLD.table.name])


def with_sessions(story: Story, tables: dict[str, Any]) -> dict[str, Any]:
    """The truth's own, in the place of another table's."""
    rows = [
        {
            "group_id": each["group_id"],
            "member_id": each["member_id"],
            "joined_ts": time_of(each["joined_ms"]),
            "left_ts": None if each["left_ms"] is None else time_of(each["left_ms"]),
        }
        for each in story.truth("sessions")
    ]
    return {**tables, "member_sessions": arrow(MEMBER_SESSIONS, rows)}


def check_usage(lake: Lakeful, story: Story) -> None:
    """Commits, tombstones and offsets gone forward and back are those of the truth."""
    sums: dict[tuple[date, str, str], Counter[str]] = defaultdict(Counter)
    minutes = defaultdict(set)
    for lines in _by_partition(story).values():
        for before, now in pairwise([{}, *lines]):
            at_ms = now["commit_ms"] if "offset" in now else now["at_ms"]
            key = time_of(at_ms).date(), now["group_id"], now["topic"]
            if "offset" not in now:
                sums[key]["tombstones"] += 1
                continue
            minutes[key].add(at_ms // 60_000)
            sums[key]["commits"] += 1
            delta = now["offset"] - before.get("offset", now["offset"])
            sums[key]["offsets_consumed"] += max(0, delta)
            sums[key]["offsets_rewound"] += max(0, -delta)
    names = ("commits", "tombstones", "offsets_consumed", "offsets_rewound")
    assert _usage(lake, *names, "active_minutes") == {
        key: {name: of[name] for name in names} | {"active_minutes": len(minutes[key])}
        for key, of in sums.items()
    }


def _by_partition(story: Story) -> dict[tuple[str, str, int], list[dict[str, Any]]]:
    lines = [*story.told("commits"), *story.told("deletions")]
    found = defaultdict(list)
    for each in sorted(lines, key=itemgetter("log_offset")):
        if each["topic"] is not None:
            found[each["group_id"], each["topic"], each["partition"]].append(each)
    return found
