"""Names that others chose, as text for people: escaped, measured and shortened."""

from __future__ import annotations

from typing import Final

_EMOJI_PRESENTATION: Final = "\ufe0f"
_SKIN_TONES: Final = range(0x1F3FB, 0x1F400)
_JOINING_JAMO: Final = range(0x1160, 0x1200)
"""Vowels and final consonants of Hangul, drawn into the syllable before them."""


def printable(text: str) -> str:
    """Escape control characters. A client chooses its own client.id, which could
    otherwise contain control sequences for the terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode()
        for each in text
    )


def cells(text: str) -> int:
    """Return the number of terminal cells that text takes."""
    if text.isascii():
        return len(text)
    return sum(cells_of_each(text))


def cells_of_each(text: str) -> list[int]:
    """Return the number of terminal cells that each character adds.

    East Asian wide characters and emoji take two cells, combining characters none. A
    variation selector makes the character before it an emoji.
    """
    from unicodedata import category, east_asian_width

    widths: list[int] = []
    for character in text:
        width = 2 if east_asian_width(character) in "WF" else 1
        before = widths[-1] if widths else 0
        if character == _EMOJI_PRESENTATION:
            width = 1 if before == 1 else 0
        elif category(character) in {"Mn", "Me"} or ord(character) in _JOINING_JAMO:
            width = 0
        elif ord(character) in _SKIN_TONES:
            width -= before
        widths.append(width)
    return widths


def shortened(text: str, width: int, ellipsis: str = "…") -> str:
    """Return the text with its middle replaced, so that it has at most `width` cells.

    Two thirds are of the beginning; ids of one application differ at their ends.
    """
    widths = cells_of_each(text)
    if sum(widths) <= width:
        return text
    tail = max(1, width // 3)
    head = width - tail - len(ellipsis)
    first, taken = 0, 0
    while taken + widths[first] <= head:
        taken += widths[first]
        first += 1
    last, taken = len(text), 0
    while taken + widths[last - 1] <= tail:
        last -= 1
        taken += widths[last]
    # A combining character without its base would be drawn on the ellipsis.
    while last < len(text) and not widths[last]:
        last += 1
    return text[:first] + ellipsis + text[last:]
