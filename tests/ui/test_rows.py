"""Rows of groups and their differences."""

from __future__ import annotations

import pytest

from coterie.ui.rows import changed_fields, ranges


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([0, 1, 2, 3], "0-3"),
        ([0, 2, 3, 7, 8, 9], "0, 2-3, 7-9"),
    ],
)
def test_partitions_are_shown_as_ranges(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text


def test_only_fields_that_differ_are_sent() -> None:
    before = {"id": "g", "lag": 5, "state": "Stable"}
    assert changed_fields(before, {**before}) == {}
    assert changed_fields(before, {**before, "lag": 6}) == {"id": "g", "lag": 6}
