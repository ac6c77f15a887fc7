"""The options of the commands that show tables of a lake, and what they say of rows."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection
from typing import Any, Final

from coterie.cli.output.options import add_output_options
from coterie.errors import SettingError

_SHORT: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_IN_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)
_GROUP, _TOPIC, _PARTITION, _AT, _SINCE = "group", "topic", "partition", "at", "since"
NAMES: Final = (_GROUP, _TOPIC, _PARTITION)
"""Options that name a value of a column of almost the same name."""
_TIME: Final = (
    "a date-time such as 2026-11-21T10:00:00Z, or how long before the lake's newest"
    " record: 90s, 5m, 2h30m, 7d"
)


def add_options(
    parser: argparse.ArgumentParser,
    filters: Collection[str],
    *,
    limit: int | None = None,
    at: str = "what held at a time",
) -> None:
    """Declare --lake, these filters and --limit, with its default."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="where `coterie pipeline run` wrote its tables",
    )
    add = parser.add_argument_group("rows").add_argument
    if _GROUP in filters:
        add(
            "--group",
            action="append",
            metavar="NAME",
            help="of a group; again for more",
        )
    if _TOPIC in filters:
        add(
            "--topic",
            action="append",
            metavar="NAME",
            help="of a topic; again for more",
        )
    if _PARTITION in filters:
        add(
            "--partition",
            action="append",
            type=_partition,
            metavar="N",
            help="of a partition; again for more",
        )
    if _AT in filters:
        add("--at", metavar="TIME", help=f"{at}: {_TIME}")
    if _SINCE in filters:
        add("--since", metavar="TIME", help=f"from then on: {_TIME}")
    default = "all" if limit is None else str(limit)
    add(
        "--limit",
        type=read_limit,
        default=limit,
        metavar="N",
        help=f"at most so many rows, 0 for all (default {default})",
    )
    add_output_options(parser)


def _partition(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no partition; say 0 or more")
    return int(text)


def read_limit(text: str) -> int | None:
    """Read how many, for argparse; 0 is no limit."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no count; say 1 or more, or 0")
    return int(text) or None


def read_time_ms(text: str, newest_ms: int) -> int:
    """The time that --at or --since means, in ms since 1970.

    Raises SettingError for what is neither a date-time nor a span before `newest_ms`.
    """
    from coterie.operations.times import read_datetime_ms

    match = _SHORT.fullmatch(text)
    if text and match:
        counts = (int(each or 0) for each in match.groups())
        return newest_ms - sum(
            count * unit for count, unit in zip(counts, _IN_MS, strict=True)
        )
    try:
        return read_datetime_ms(text.strip().replace(" ", "T"))
    except SettingError:
        raise SettingError(f"{text!r} is not a time: write {_TIME}") from None


def named(options: argparse.Namespace) -> dict[str, list[Any]]:
    """What the options ask of columns: each has one of these values."""
    column = {_GROUP: "group_id"}
    asked = {name: getattr(options, name, None) for name in NAMES}
    return {column.get(name, name): values for name, values in asked.items() if values}
