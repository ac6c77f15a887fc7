"""Names that others chose, as text for people."""

from __future__ import annotations

import pytest

from coterie.display import cells, printable, shortened


def test_what_cannot_be_seen_is_escaped() -> None:
    assert printable("gr\u00fcn 1") == "gr\u00fcn 1"
    assert printable("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("consumer-orders-1-8f3c-4f2a", 15, "consumer-…-4f2a"),
        ("short", 15, "short"),
        ("\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e", 9, "\u65e5\u672c…\u8a9e"),
        ("e\u0301" * 9, 4, "e\u0301e\u0301…e\u0301"),
    ],
)
def test_an_id_is_shortened_in_its_middle(text: str, width: int, expected: str) -> None:
    assert shortened(text, width) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u65e5\u672c", 4),  # Kanji
        ("e\u0301", 1),  # a letter with a combining accent
        ("\U0001f680", 2),  # a rocket
        ("\u2764\ufe0f", 2),  # a heart as an emoji
        ("\U0001f44d\U0001f3fd", 2),  # a thumb with a skin tone
        ("\u1112\u1161\u11ab", 2),  # a syllable of three Jamo
    ],
)
def test_text_takes_the_cells_that_a_terminal_draws(text: str, expected: int) -> None:
    assert cells(text) == expected
