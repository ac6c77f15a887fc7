"""Times of transactions, which producers choose."""

from __future__ import annotations

import pytest

from coterie.cli.transactions.list import time_text


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (None, None),
        (-1, None),
        (1_795_255_200_000, "2026-11-21T10:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_time_after_the_year_9999_is_a_number(
    at_ms: int | None, text: str | None
) -> None:
    assert time_text(at_ms) == text
