"""The options that say which rows about lag are shown, and in which order."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from coterie.errors import SettingError

if TYPE_CHECKING:
    from coterie.cli.output.values import Column, Item, Json
    from coterie.operations.select import Condition


def add_shape_options(parser: argparse.ArgumentParser) -> None:
    """Declare them; `shape` and `is_true_of_any` read them."""
    more = parser.add_argument_group(
        "rows", "Rows that tell of an error are always shown."
    ).add_argument
    more("--only-lagging", action="store_true", help="only rows with something to read")
    more(
        "--sort",
        metavar="COLUMN",
        help="order rows by a column, greatest numbers first: lag, time_lag_ms, ...",
    )
    more("--top", metavar="N", type=whole_count, help="only the first N rows")
    more(
        "--fail-if-lag",
        metavar="COND",
        help="exit with 3 when the lag of any row, shown or not, is '>10000', ...",
    )
    more(
        "--time-lag",
        action="store_true",
        help="find out how many ms behind, too; --wide does so by itself",
    )
    more(
        "--read-committed",
        action="store_true",
        help="logs end where their first open transaction starts",
    )


def whole_count(text: str) -> int:
    """Read how many, for argparse: 1 or more."""
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no count; say 1 or more")
    return int(text)


def wants_time(options: argparse.Namespace) -> bool:
    """Whether time lags are to be looked up, which takes requests of its own."""
    return bool(options.time_lag or is_wide(options))


def is_wide(options: argparse.Namespace) -> bool:
    """Whether every column is wanted."""
    return bool(options.wide or options.output == "wide")


def fail_condition(options: argparse.Namespace) -> Condition | None:
    """What --fail-if-lag says. Raises SettingError."""
    from coterie.operations.select import Condition

    if options.fail_if_lag is None:
        return None
    try:
        return Condition.parse(options.fail_if_lag)
    except ValueError as error:
        raise SettingError(f"--fail-if-lag: {error}") from None


def is_true_of_any(condition: Condition | None, items: Iterable[Item]) -> bool:
    """Whether the lag of an item fulfils a condition."""
    if condition is None:
        return False
    lags = [each["lag"] for each in items]
    return any(condition.holds(each) for each in lags if isinstance(each, int))


def shape(
    items: Sequence[Item], options: argparse.Namespace, columns: Sequence[Column]
) -> tuple[Item, ...]:
    """The rows that are to be shown, in their order. Raises SettingError."""
    rows = list(items)
    if options.only_lagging:
        rows = [each for each in rows if each["error"] or _number(each["lag"]) > 0]
    if options.sort:
        rows = _sorted(rows, options.sort, columns)
    if options.top:
        rows = [
            each
            for at, each in enumerate(rows)
            if at < options.top or each["error"] is not None
        ]
    return tuple(rows)


def _number(value: Json) -> int:
    return value if isinstance(value, int) else 0


def _sorted(rows: Sequence[Item], wanted: str, columns: Sequence[Column]) -> list[Item]:
    """What is not known comes last; where all is equal, the order stays."""
    names = {each.title.lower(): each.key for each in columns}
    names |= {each.key: each.key for each in columns}
    if (key := names.get(wanted.lower())) is None:
        known = ", ".join(each.key for each in columns)
        raise SettingError(
            f"--sort: there is no column {wanted!r}; columns are {known}"
        )

    def rank(item: Item) -> tuple[bool, float, str]:
        value = item[key]
        if isinstance(value, int | float):
            return False, -value, ""
        return value is None, 0, str(value)

    return sorted(rows, key=rank)
