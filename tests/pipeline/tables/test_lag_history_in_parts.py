"""Lag and status built in parts: the result of any number of builds is that of one."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.gold.lag_rows import LagRows, Row
from tests.pipeline.gold.memory_lake import MemoryLake
from tests.pipeline.gold.rows import at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAMES: Final = ("lag_history", "group_status")
NIGHT_MIN: Final = 23 * 60 + 40
"""The story begins 20 minutes before midnight."""


def _story(seed: int) -> LagRows:
    """Return 45 minutes of two groups: fast and slow partitions, rewinds, tombstones,
    pauses in the samples, a topic created again, and owners that change."""
    random, rows = Random(seed), LagRows()
    for number, topic in enumerate(("fast", "slow", "idle", "again", "rare", "gone")):
        end, first = 10 * number, NIGHT_MIN + random.random()
        for minute in range(45):
            topic_id = f"{topic}-{int(topic == 'again' and minute > 22)}"
            end += {"idle": 0, "slow": random.randrange(3)}.get(topic, 30)
            if topic == "again" and minute == 23:
                end = 2
            if topic == "rare" and minute % 9:
                continue
            start = max(0, end - 400) if topic == "gone" else 0
            rows.ends(topic, end, start=start, first=first + minute, of=topic_id)
    for group in ("g", "h", "late"):
        _add_group(rows, random, group)
    return rows


def _add_group(rows: LagRows, random: Random, group: str) -> None:
    for topic in ("fast", "slow", "idle", "again", "rare", "gone"):
        offset, minute = 0, NIGHT_MIN + random.uniform(-30, 12)
        while minute < NIGHT_MIN + 45:
            offset = max(0, offset + random.choice((0, 5, 20, 40, 90, -60)))
            what = None if random.random() < 0.05 else offset
            actor = random.choice(("owner", "owner", "admin"))
            rows.commit(topic, minute, what, group_id=group, actor=actor)
            minute += random.choice((-0.02, 0.2, 1, 3, 12))
        begin = NIGHT_MIN + random.uniform(-10, 10)
        for member in range(4):
            end = begin + random.uniform(1, 12)
            by_id = f"{topic}-0" if topic == "slow" else None
            rows.owned(topic, begin, end if member < 3 else None, f"m{member}", by_id)
            rows.ownership[-1] |= {"group_id": group, "is_lower_bound": member == 0}
            begin = end + random.choice((0, 2))


def _ownership_at(rows: list[Row], time: datetime) -> list[Row]:
    """Return the intervals that had begun; those that end later are open."""
    still_open = {"valid_to": None, "to_log_offset": None}
    return [
        each | (still_open if (each["valid_to"] or time) > time else {})
        for each in rows
        if each["valid_from"] <= time
    ]


def _part(story: LagRows, since: datetime, until: datetime) -> LagRows:
    part = LagRows()
    part.samples = [
        each for each in story.samples if since < each["sample_ts"] <= until
    ]
    part.history = [
        each
        for each in story.history
        if since < each["append_ts"] <= until and each["group_id"] != "late"
    ]
    part.ownership = _ownership_at(story.ownership, until)
    return part


def _time(minute: float) -> datetime:
    return at(60 * (NIGHT_MIN + minute))


def _assert_equal(actual: MemoryLake, expected: MemoryLake) -> None:
    for name in NAMES:
        found, wanted = (lake.tables[name].to_pylist() for lake in (actual, expected))
        keys = TABLES[name].key
        by_key: dict[Any, Row] = {tuple(each[k] for k in keys): each for each in wanted}
        for each in found:
            key = tuple(each[k] for k in keys)
            assert each == by_key.pop(key, None), (name, key)
        assert not by_key, name


def test_builds_of_parts_give_the_rows_of_one_build(spark: SparkSession) -> None:
    story = _story(seed=1)
    whole = LagRows.lake(spark).run(story.tables())
    parts = LagRows.lake(spark)
    minutes = (-60, 12.5, 13.1, 25.3)
    bases = []
    for since, until in pairwise(minutes):
        parts.run(_part(story, _time(since), _time(until)).tables())
        bases.append(parts.plans["group_windows"].base)
    last = _part(story, _time(minutes[-1]), _time(999))
    last.history += [each for each in story.history if each["group_id"] == "late"]
    parts.run(last.tables())
    # Late rows of the hour before midnight need the state at its beginning.
    assert parts.plans["group_windows"].base == at(23 * 3_600)
    assert bases[0] is None
    # An increment begins with its own minute, or with the last minute before.
    for base, since in zip(bases[1:], minutes[1:], strict=False):
        assert base is not None
        assert _time(since) - base < timedelta(minutes=2), (base, since)
    _assert_equal(parts, whole)
