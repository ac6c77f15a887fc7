"""What is remembered of a partition as it goes by, and the rows that come of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from coterie.pipeline.gold.judging import COMMIT, OWNER, SAMPLE, Event, judged
from coterie.pipeline.gold.verdict import Rules, Verdict
from coterie.pipeline.gold.watching import (
    Committed,
    Owned,
    Sampled,
    Status,
    Watch,
)
from tests.pipeline.gold.hand_made import at

START_MS = int(at(0).timestamp() * 1000)


def _sampled(end: int, start: int = 0, **more: Any) -> Sampled:
    about = {"topic_id": None, "life": 0, "previous_life_ms": None} | more
    return Sampled(start, end, **about)


def _status(watch: Watch, *, has_members: bool = False) -> Status:
    found = watch.status(60_000, has_members=has_members)
    assert found is not None
    return found


def test_nothing_is_said_before_it_was_looked_at() -> None:
    watch = Watch(Rules())
    watch.commit(Committed(5, 1_000))
    assert watch.status(2_000, has_members=True) is None
    watch.sample(_sampled(9))
    assert _status(watch).lag == 4


def test_nothing_is_said_of_what_nobody_has_to_do_with() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(9))
    assert watch.status(2_000, has_members=True) is None
    watch.own(Owned("m", 3_000))
    assert _status(watch).verdict is Verdict.NO_COMMIT
    watch.own(Owned(None, 4_000))
    assert watch.status(5_000, has_members=True) is None


def test_a_tombstone_takes_the_window_away() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(9))
    watch.commit(Committed(5, 1_000))
    watch.commit(Committed(None, 2_000))
    assert watch.status(3_000, has_members=True) is None
    watch.commit(Committed(6, 4_000))
    assert _status(watch).window_commits == 1


def test_the_window_holds_the_last_ten() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(99))
    for second in range(15):
        watch.commit(Committed(second, second * 1_000))
    status = _status(watch)
    assert (status.window_commits, status.complete) == (10, 1.0)


def test_commits_that_are_too_close_take_the_place_of_the_one_before() -> None:
    watch = Watch(Rules(min_distance_ms=1_000))
    watch.sample(_sampled(99))
    for at_ms in (0, 400, 900, 1_000, 1_900):  # those at 0 and at 1000 are places
        watch.commit(Committed(at_ms, at_ms))
    status = _status(watch)
    assert (status.window_commits, status.committed_offset) == (2, 1_900)


def test_a_commit_of_the_topic_that_was_there_before_is_forgotten() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(100, topic_id="a"))
    watch.commit(Committed(90, 1_000))
    watch.sample(_sampled(5, topic_id="b", life=1, previous_life_ms=2_000))
    assert watch.status(3_000, has_members=True) is None


def test_a_commit_after_that_topic_was_last_seen_stays_without_its_lag() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(100, topic_id="a"))
    watch.commit(Committed(90, 1_000))
    watch.commit(Committed(2, 2_500))
    watch.sample(_sampled(5, topic_id="b", life=1, previous_life_ms=2_000))
    status = _status(watch)
    assert (status.lag, status.window_commits) == (3, 1)
    assert status.verdict is Verdict.STOP  # as it is not known whether it grew


def test_what_names_its_topic_id_is_held_to_it() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(100, topic_id="a"))
    watch.commit(Committed(90, 1_000, "a"))
    watch.own(Owned("m", 1_000, "b"))
    watch.sample(_sampled(100, topic_id="a"))
    assert _status(watch, has_members=True).verdict is Verdict.NO_OWNER


def test_records_that_are_gone_are_lost_and_burrow_does_not_see_it() -> None:
    watch = Watch(Rules())
    watch.sample(_sampled(100))
    watch.commit(Committed(100, 1_000))
    watch.sample(_sampled(120, start=110))
    status = _status(watch)
    assert (status.verdict, status.lag) == (Verdict.LOSING_DATA, 10)
    assert status.burrow_code == 1


def _batch(*events: Event) -> Any:
    return pa.RecordBatch.from_pylist([event._asdict() for event in events])


def _events() -> list[Event]:
    return [
        event
        for group in ("g", "h")
        for event in [
            Event(group, "t", 0, SAMPLE, START_MS, start=0, end=9, life=0),
            Event(group, "t", 0, COMMIT, START_MS + 1_000, offset=5, is_reset=False),
            Event(group, "u", 1, OWNER, START_MS + 1_000, member_id="m"),
            Event(group, "t", 0, COMMIT, START_MS + 60_000, offset=9, is_reset=False),
            Event(group, "t", 0, SAMPLE, START_MS + 200_000, start=0, end=9, life=0),
        ]
    ]


@pytest.mark.slow  # Arrow loads pandas for it
@pytest.mark.parametrize("cut", range(10))
def test_batches_may_be_cut_anywhere(cut: int) -> None:
    events = _events()
    batches = [_batch(*events[a:b]) for a, b in pairwise([0, cut, 10]) if b > a]
    rows = pa.Table.from_batches(judged(Rules(), batches)).to_pylist()
    told = [
        (
            row["group_id"],
            row["topic"],
            row["lag"],
            row["verdict"],
            row["window_end_ts"],
        )
        for row in rows
    ]
    assert told == [
        (group, *each)
        for group in ("g", "h")
        for each in [
            (None, 4, "WARN", at(60)),
            ("t", 4, "NO_OWNER", at(60)),
            (None, 0, "OK", at(240)),
            ("t", 0, "OK", at(240)),
        ]
    ]
