"""Share partitions in use: durations of the reset policy."""

from __future__ import annotations

import pytest

from coterie.broker.runtime.share_partitions import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT1S", 1_000),
        ("pt0.5s", 500),
        ("P1D", 86_400_000),
        ("P2DT3H4M5.006S", 2 * 86_400_000 + 3 * 3_600_000 + 4 * 60_000 + 5_006),
        ("PT1,5S", 1_500),
    ],
)
def test_a_duration_has_a_length(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected
