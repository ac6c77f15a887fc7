"""The window of a partition, and the rows of whole groups."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from coterie.pipeline.gold.evaluator import (
    COMMIT,
    OWNER,
    SAMPLE,
    Event,
    PartitionWindow,
    Status,
    status_batches,
)
from coterie.pipeline.gold.plans import Plan
from coterie.pipeline.gold.settings import BurrowRules, GoldSettings
from coterie.pipeline.gold.verdict import Verdict
from tests.pipeline.gold.rows import at

START_MS = int(at(0).timestamp() * 1000)


def _sample(end: int, start: int = 0, **more: Any) -> Event:
    return Event("g", "t", 0, SAMPLE, 0, start=start, end=end, **({"life": 0} | more))


def _commit(offset: int | None, at_ms: int, topic_id: str | None = None) -> Event:
    return Event("g", "t", 0, COMMIT, at_ms, topic_id=topic_id, offset=offset)


def _owner(
    member_id: str | None, at_ms: int, topic_id: str | None = None, **more: Any
) -> Event:
    return Event(
        "g", "t", 0, OWNER, at_ms, topic_id=topic_id, member_id=member_id, **more
    )


def _status(window: PartitionWindow, *, has_members: bool = False) -> Status:
    status = window.status(60_000, has_members=has_members)
    assert status is not None
    return status


def test_a_partition_without_a_sample_has_no_status() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_commit(_commit(5, 1_000))
    assert window.status(2_000, has_members=True) is None
    window.add_sample(_sample(9))
    assert _status(window).lag == 4


def test_a_partition_without_a_commit_and_an_owner_has_no_status() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(9))
    assert window.status(2_000, has_members=True) is None
    window.set_owner(_owner("m", 3_000))
    assert _status(window).verdict is Verdict.NO_COMMIT
    window.set_owner(_owner(None, 4_000))
    assert window.status(5_000, has_members=True) is None


def test_after_a_log_gap_a_commit_may_be_missing() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(9))
    window.set_owner(_owner("m", 3_000, is_lower_bound=True))
    assert _status(window).verdict is Verdict.UNKNOWN
    window.add_commit(_commit(5, 4_000))
    assert _status(window).verdict is Verdict.OK
    window.add_commit(_commit(None, 5_000))
    assert _status(window).verdict is Verdict.NO_COMMIT  # the commit was deleted


def test_a_tombstone_clears_the_window() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(9))
    window.add_commit(_commit(5, 1_000))
    window.add_commit(_commit(None, 2_000))
    assert window.status(3_000, has_members=True) is None
    window.add_commit(_commit(6, 4_000))
    assert _status(window).window_commits == 1


def test_the_window_has_the_last_ten_commits() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(99))
    for second in range(15):
        window.add_commit(_commit(second, second * 1_000))
    status = _status(window)
    assert (status.window_commits, status.complete) == (10, 1.0)


def test_a_commit_within_the_minimum_distance_replaces_the_previous_one() -> None:
    window = PartitionWindow(BurrowRules(min_distance_ms=1_000))
    window.add_sample(_sample(99))
    # Within a second of the previous commit, 400 and 900 replace 0; 1900 replaces 1000.
    for at_ms in (0, 400, 900, 1_000, 1_900):
        window.add_commit(_commit(at_ms, at_ms))
    status = _status(window)
    assert (status.window_commits, status.committed_offset) == (2, 1_900)


def test_a_commit_for_the_deleted_topic_is_dropped() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(100, topic_id="a"))
    window.add_commit(_commit(90, 1_000))
    window.add_sample(_sample(5, topic_id="b", life=1, previous_life_ms=2_000))
    assert window.status(3_000, has_members=True) is None


def test_a_commit_after_the_last_sample_of_the_deleted_topic_is_kept() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(100, topic_id="a"))
    window.add_commit(_commit(90, 1_000))
    window.add_commit(_commit(2, 2_500))
    window.add_sample(_sample(5, topic_id="b", life=1, previous_life_ms=2_000))
    status = _status(window)
    assert (status.lag, status.window_commits) == (3, 1)
    # Without a known lag at the commit, new records are possible since then.
    assert status.verdict is Verdict.TOO_NEW


def test_an_owner_with_another_topic_id_is_dropped() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(100, topic_id="a"))
    window.add_commit(_commit(90, 1_000, "a"))
    window.set_owner(_owner("m", 1_000, "b"))
    window.add_sample(_sample(100, topic_id="a"))
    assert _status(window, has_members=True).verdict is Verdict.NO_OWNER


def test_deleted_unread_records_are_losing_data_and_ok_for_burrow() -> None:
    window = PartitionWindow(BurrowRules())
    window.add_sample(_sample(100))
    window.add_commit(_commit(100, 1_000))
    window.add_sample(_sample(120, start=110))
    status = _status(window)
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


@pytest.mark.slow  # pyarrow imports pandas
def test_the_lag_of_a_group_includes_partitions_sampled_at_other_instants() -> None:
    events = [
        Event("g", "t", 0, COMMIT, START_MS, offset=0, is_reset=False),
        Event("g", "t", 1, COMMIT, START_MS, offset=0, is_reset=False),
        Event("g", "t", 0, SAMPLE, START_MS + 1_000, end=10, life=0),
        Event("g", "t", 1, SAMPLE, START_MS + 2_000, end=20, life=0),
        Event("g", "t", 0, SAMPLE, START_MS + 61_000, end=11, life=0),
        Event("g", "t", 1, SAMPLE, START_MS + 122_000, end=22, life=0),
    ]
    rows = pa.Table.from_batches(
        status_batches(GoldSettings(), Plan(), [_batch(*events)])
    )
    lags = [each["lag"] for each in rows.to_pylist() if each["topic"] is None]
    assert lags == [30, 31, 33]


@pytest.mark.slow  # pyarrow imports pandas
@pytest.mark.parametrize("cut", range(10))
def test_results_do_not_depend_on_batch_boundaries(cut: int) -> None:
    events = _events()
    batches = [_batch(*events[a:b]) for a, b in pairwise([0, cut, 10]) if b > a]
    rows = pa.Table.from_batches(
        status_batches(GoldSettings(), Plan(), batches)
    ).to_pylist()
    results = [
        (
            row["group_id"],
            row["topic"],
            row["lag"],
            row["verdict"],
            row["window_end_ts"],
        )
        for row in rows
    ]
    assert results == [
        (group, *each)
        for group in ("g", "h")
        for each in [
            (None, 4, "WARN", at(60)),
            ("t", 4, "NO_OWNER", at(60)),
            (None, 0, "OK", at(240)),
            ("t", 0, "OK", at(240)),
        ]
    ]
