"""The options about output, the same for every command."""

from __future__ import annotations

import argparse
from typing import Final

FORMATS: Final = ("table", "wide", "json", "jsonl", "csv", "md")


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Declare --output and --wide; `emit` reads them."""
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o",
        "--output",
        choices=FORMATS,
        default="table",
        help="how to show it: table and md are for people; wide is a table with every "
        "column; json is one document with a versioned envelope, jsonl one item a "
        "line, csv one item a row under snake_case names (default table)",
    )
    group.add_argument(
        "--wide",
        action="store_true",
        help="show every column, in tables and md; json, jsonl and csv always do",
    )
