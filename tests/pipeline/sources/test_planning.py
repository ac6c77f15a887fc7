"""Tests for dividing a log into ranges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.pipeline.sources.planning import RANGE_OFFSETS, backlog, plan
from coterie.pipeline.sources.source import BatchPlace, Cuts, Head, OffsetRange


def head(*batches: tuple[int, int, int]) -> Head:
    """Return the head of a log with batches of (offsets, records, bytes)."""
    offsets, records, size_bytes = (
        np.cumsum(np.array(column, np.int64)) for column in zip(*batches, strict=True)
    )
    cuts = Cuts(
        offsets, records, size_bytes, lambda index: BatchPlace("file", index, 0)
    )
    end = int(offsets[-1])
    return Head(0, end, end, cuts)


def ends(ranges: list[OffsetRange]) -> list[tuple[int, int, int]]:
    return [each[:3] for each in ranges]


def test_without_a_limit_all_stable_records_are_planned() -> None:
    heads = {1: Head(0, 7, 9), 0: Head(5, 5, 5), 2: Head(0, 0, 0), 3: Head(0, 4, 4)}
    assert ends(plan(heads, {3: 4})) == [(0, 0, 5), (1, 0, 7)]


def test_many_offsets_are_divided_into_ranges() -> None:
    ranges = plan({0: Head(0, RANGE_OFFSETS + 3, RANGE_OFFSETS + 3)}, {0: 1})
    assert ends(ranges) == [
        (0, 1, RANGE_OFFSETS + 1),
        (0, RANGE_OFFSETS + 1, RANGE_OFFSETS + 3),
    ]


def test_many_bytes_are_divided_into_ranges_that_continue_after_a_batch() -> None:
    heads = {0: head((10, 10, 60), (10, 10, 60), (10, 10, 30), (10, 10, 500))}
    ranges = plan(heads, {}, range_bytes=100)
    assert ends(ranges) == [(0, 0, 10), (0, 10, 30), (0, 30, 40)]
    assert [each.after and each.after.position for each in ranges] == [0, 1, 3]


def test_a_limit_is_rounded_to_batches_and_has_at_least_one() -> None:
    heads = {0: head((10, 10, 1), (10, 4, 1), (10, 10, 1))}
    assert ends(plan(heads, {}, max_records=15)) == [(0, 0, 20)]
    assert ends(plan(heads, {0: 10}, max_records=3)) == [(0, 10, 20)]
    assert ends(plan(heads, {0: 10}, max_records=14)) == [(0, 10, 30)]


def test_batches_without_records_are_planned() -> None:
    heads = {0: head((10, 10, 1), (10, 0, 1))}
    assert backlog(heads, {0: 10}) == {0: 1}
    assert ends(plan(heads, {0: 10}, max_records=5)) == [(0, 10, 20)]


def test_unused_shares_of_the_limit_are_given_to_other_log_partitions() -> None:
    heads = {0: Head(0, 100, 100), 1: Head(0, 2, 2), 2: Head(0, 50, 50)}
    assert ends(plan(heads, {}, max_records=42)) == [(0, 0, 20), (1, 0, 2), (2, 0, 20)]


def test_a_limit_below_the_number_of_log_partitions_makes_progress() -> None:
    heads = {0: Head(0, 5, 5), 1: Head(0, 9, 9), 2: Head(0, 7, 7)}
    assert ends(plan(heads, {}, max_records=1)) == [(1, 0, 1)]
    assert ends(plan(heads, {}, max_records=2)) == [(1, 0, 1), (2, 0, 1)]


batches = st.lists(
    st.tuples(st.integers(1, 9), st.integers(0, 9), st.integers(1, 99)),
    min_size=1,
    max_size=9,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.integers(0, 3), batches),
    st.integers(1, 30),
    st.integers(1, 200),
)
def test_any_limit_reads_each_record_once(
    logs: dict[int, list[tuple[int, int, int]]], max_records: int, range_bytes: int
) -> None:
    heads = {partition: head(*each) for partition, each in logs.items()}
    positions: dict[int, int] = {}
    while backlog(heads, positions):
        ranges = plan(
            heads, positions, max_records=max_records, range_bytes=range_bytes
        )
        assert ranges
        for each in ranges:
            assert each.from_offset == positions.get(each.log_partition, 0)
            assert each.until_offset > each.from_offset
            positions[each.log_partition] = each.until_offset
    assert positions == {
        partition: each.stable_offset for partition, each in heads.items()
    }
