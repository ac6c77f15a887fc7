"""The screen of `coterie groups watch` as a pure model.

A state, changed by keys and measurements, is drawn as lines in the size of a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from coterie.cli.output.emit import stderr_lines
from coterie.cli.output.outcome import (
    Column,
    Item,
    Outcome,
    printable,
    show,
    sort_items,
)
from coterie.cli.output.screen import Line
from coterie.cli.output.tables import cells
from coterie.cli.output.terminal import (
    BOLD,
    RED,
    TerminalTable,
    folded,
    lay_out,
    left_out_note,
    row_style,
    wrapped,
)

_NOTES_MAX: Final = 3
_PENDING_LEAST: Final = timedelta(seconds=5)
_HELP: Final = (
    "q          quit",
    "space      pause, or continue with a measurement",
    "r          measure now",
    "up, down   scroll by a row",
    "PgUp, PgDn scroll by a page; Home, End to the first or last row",
    "s          sort by the next column, numbers in descending order",
    "S          reverse the order",
    "/          filter rows by a text; Enter keeps the filter, Esc removes it",
    "?          help",
)
_KEYS: Final = (
    "q quit",
    "space pause",
    "s sort",
    "/ filter",
    "? help",
    "arrows scroll",
    "r refresh",
)
"""The keys of the footer, the most important first."""


class Action(Enum):
    """What a key asks of the program."""

    QUIT = "quit"
    MEASURE = "measure"


@dataclass(frozen=True, slots=True)
class WatchState:
    """The measured rows, and what the user has chosen to see of them."""

    interval_s: float
    columns: tuple[Column, ...] = ()
    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    measured_at: datetime | None = None
    """The time of the last measurement that did not fail."""
    failure: str = ""
    """The reason why the last measurement failed."""
    pending_since: datetime | None = None
    """The time when the measurement began that has not ended."""
    is_paused: bool = False
    has_keys: bool = True
    sort_key: str | None = None
    """The key of the column to sort by; None for the order of the measurement."""
    is_reversed: bool = False
    filter: str = ""
    is_typing: bool = False
    """Whether keys are added to the filter."""
    scroll: int = 0
    """The number of lines above the screen."""
    is_help: bool = False


class Frame(NamedTuple):
    """The lines of a screen, and how far its rows can be scrolled."""

    lines: list[Line]
    page: int
    """The number of lines for rows."""
    scroll_max: int


def with_outcome(
    state: WatchState, outcome: Outcome, columns: Sequence[Column], now: datetime
) -> WatchState:
    """Return the state after a measurement that ended now; a failed one keeps the
    rows of the one before."""
    if not outcome.columns:
        reason = "; ".join(str(each) for each in outcome.failures)
        return replace(state, failure=reason, pending_since=None)
    return replace(
        state,
        columns=tuple(columns),
        items=outcome.items,
        notes=tuple(stderr_lines(outcome)),
        measured_at=now,
        failure="",
        pending_since=None,
    )


def with_key(
    state: WatchState, key: str, frame: Frame
) -> tuple[WatchState, Action | None]:
    """Return the state after a key, and what the key asks of the program."""
    if state.is_typing:
        return _with_typed(state, key), None
    if state.is_help and key != "q":
        return replace(state, is_help=False), None
    action = {
        "q": Action.QUIT,
        "r": Action.MEASURE,
        " ": Action.MEASURE if state.is_paused else None,
    }.get(key)
    change = {
        " ": {"is_paused": not state.is_paused},
        "s": _next_sort(state),
        "S": {"is_reversed": not state.is_reversed, "scroll": 0},
        "/": {"is_typing": True},
        "?": {"is_help": True},
        "escape": {"filter": "", "scroll": 0},
    }.get(key)
    if change is None:
        change = {"scroll": _scrolled(state, key, frame)}
    return replace(state, **change), action  # type: ignore[arg-type]


def _with_typed(state: WatchState, key: str) -> WatchState:
    if key == "enter":
        return replace(state, is_typing=False)
    if key == "escape":
        return replace(state, is_typing=False, filter="", scroll=0)
    if key == "backspace":
        return replace(state, filter=state.filter[:-1], scroll=0)
    if len(key) > 1:
        return state
    return replace(state, filter=state.filter + key, scroll=0)


def _next_sort(state: WatchState) -> dict[str, object]:
    keys = [None, *(each.key for each in state.columns)]
    at = keys.index(state.sort_key)
    chosen = keys[(at + 1) % len(keys)]
    return {"sort_key": chosen, "is_reversed": False, "scroll": 0}


def _scrolled(state: WatchState, key: str, frame: Frame) -> int:
    here = min(state.scroll, frame.scroll_max)
    wanted = {
        "up": here - 1,
        "down": here + 1,
        "page-up": here - frame.page,
        "page-down": here + frame.page,
        "home": 0,
        "end": frame.scroll_max,
    }.get(key, here)
    return max(0, min(wanted, frame.scroll_max))


class ShownRows(NamedTuple):
    """The rows after filter and sort, laid out for a width."""

    items: list[Item]
    table: TerminalTable
    total: int
    """The number of rows without the filter."""


def shown_rows(state: WatchState, width: int, encoding: str | None) -> ShownRows:
    """Return the rows to show. For many rows this takes longer than to draw them; see
    `has_same_rows`."""
    items = list(state.items)
    if state.filter:
        text = state.filter.lower()
        items = [
            each
            for each in items
            if any(text in show(column, each).lower() for column in state.columns)
        ]
    if state.sort_key is not None:
        items = sort_items(items, state.sort_key)
    if state.is_reversed:
        items.reverse()
    if not state.columns:
        return ShownRows([], TerminalTable([], [], ()), 0)
    table = lay_out(state.columns, items, width, encoding)
    return ShownRows(items, table, len(state.items))


def has_same_rows(state: WatchState, other: WatchState) -> bool:
    """Return whether two states show the same rows in the same width."""
    return (
        state.items is other.items
        and state.columns == other.columns
        and state.filter == other.filter
        and state.sort_key == other.sort_key
        and state.is_reversed == other.is_reversed
    )


def frame_of(
    state: WatchState, rows: ShownRows, now: datetime, width: int, height: int
) -> Frame:
    """Return the lines of the screen."""
    body = [
        Line(part, row_style(item))
        for item, lines in zip(rows.items, rows.table.rows, strict=True)
        for line in lines
        for part in _cut(line, width)
    ]
    header = [Line(_cut(line, width)[0], BOLD) for line in rows.table.header]
    if state.is_help:
        header, body = [], [Line(line) for line in _HELP]
    notes = _notes(state, rows, width)
    # A low terminal has no space for notes.
    page = height - 3 - len(header) - len(notes)
    if page < _NOTES_MAX:
        notes = []
        page = max(1, height - 3 - len(header))
    scroll_max = max(0, len(body) - page)
    first = min(state.scroll, scroll_max)
    shown = body[first : first + page]
    lines = [
        _title(state, rows, now, width),
        _status(state, now, width),
        *header,
        *shown,
        *[Line("")] * (page - len(shown)),
        *notes,
        Line(_footer(state, first, len(shown), len(body), width)),
    ]
    return Frame(lines[:height], page, scroll_max)


def _title(state: WatchState, rows: ShownRows, now: datetime, width: int) -> Line:
    count = "1 group" if len(rows.items) == 1 else f"{len(rows.items)} groups"
    if state.filter:
        count = f"{len(rows.items)} of {rows.total} groups match {state.filter!r}"
    text = f"{now:%H:%M:%S}  {count}, every {state.interval_s:g} s"
    if state.sort_key is not None:
        titles = {each.key: each.title for each in state.columns}
        order = ", reversed" if state.is_reversed else ""
        text += f", sorted by {titles.get(state.sort_key, state.sort_key)}{order}"
    return Line(_cut(printable(text), width)[0])


def _status(state: WatchState, now: datetime, width: int) -> Line:
    """Return the age of the figures: measured, paused, or stale with the reason."""
    reason = state.failure
    pending = now - state.pending_since if state.pending_since else timedelta()
    if pending > max(_PENDING_LEAST, timedelta(seconds=2 * state.interval_s)):
        reason = f"no response for {pending // timedelta(seconds=1)} s"
    if reason:
        since = "no measurement yet"
        if state.measured_at:
            since = f"stale since {state.measured_at:%H:%M:%S}"
        return Line(_cut(printable(f"{since} ({reason})"), width)[0], RED)
    if state.measured_at is None:
        return Line(_cut("measuring ...", width)[0])
    measured = f"measured at {state.measured_at:%H:%M:%S}"
    if state.is_paused:
        return Line(_cut(f"paused, {measured}; space continues", width)[0], BOLD)
    return Line(_cut(measured, width)[0])


def _notes(state: WatchState, rows: ShownRows, width: int) -> list[Line]:
    notes = left_out_note(rows.table.left_out, width)[:1]
    for each in state.notes:
        notes += wrapped(printable(each), width)
    if len(notes) > _NOTES_MAX:
        notes = [*notes[: _NOTES_MAX - 1], "..."]
    return [Line(each) for each in notes]


def _footer(state: WatchState, first: int, shown: int, total: int, width: int) -> str:
    """Return the keys, and the part of the rows that is shown."""
    if state.is_typing:
        return _cut(f"filter: {printable(state.filter)}_", width)[0]
    if not state.has_keys:
        return _cut("Ctrl-C quit", width)[0]
    place = "" if shown >= total else f"{first + 1}-{first + shown} of {total}"
    text = ""
    for each in _KEYS:
        longer = f"{text}  {each}" if text else each
        if len(longer) + len(place) + 2 > width:
            break
        text = longer
    return _cut(f"{text}{place:>{width - len(text)}}" if place else text, width)[0]


def _cut(line: str, width: int) -> list[str]:
    """Return the parts of a line that is longer than the screen is wide."""
    return [line] if cells(line) <= width else list(folded(line, width))
