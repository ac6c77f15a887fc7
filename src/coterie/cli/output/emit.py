"""Shows an outcome in the form that was asked for, and gives its exit code.

Results go to stdout. What people should know besides (notes, failures without a row,
how many failed) goes to stderr, in every form.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TextIO

from coterie.cli.output.values import Column, Outcome, plain

_PIECES_A_BLOCK: Final = 1_000


def wall_clock() -> datetime:
    """What time it is."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a command runs: what it writes to, and its clock."""

    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], datetime] = field(default_factory=lambda: wall_clock)

    def now_ms(self) -> int:
        """What time it is, in ms since 1970."""
        return round(self.clock().timestamp() * 1000)


def emit(
    outcome: Outcome,
    options: argparse.Namespace,
    surroundings: Surroundings | None = None,
) -> int:
    """Print it as `options.output` says; the exit code."""
    show(outcome, options, surroundings or Surroundings())
    return int(outcome.exit_code)


def show(outcome: Outcome, options: argparse.Namespace, where: Surroundings) -> bool:
    """Print it as `options.output` says; whether stdout still has a reader."""
    is_read = write(where.stdout, render(outcome, options, where))
    write(where.stderr, [plain(line) + "\n" for line in asides(outcome)])
    return is_read


def asides(outcome: Outcome) -> list[str]:
    """What people should know besides the rows."""
    lines = [*outcome.notes, *(f"error: {each}" for each in outcome.failures)]
    if failed := outcome.failed:
        ok = sum(1 for each in outcome.items if not each.get("error"))
        lines.append(f"ok={ok} failed={failed}")
    return lines


def columns_of(outcome: Outcome, options: argparse.Namespace) -> list[Column]:
    """The columns of a table."""
    is_wide = options.output == "wide" or options.wide
    return [each for each in outcome.columns if is_wide or not each.is_wide]


def write(stream: TextIO, pieces: Iterable[str]) -> bool:
    """Write what the stream's encoding cannot say as escapes; whether it was taken. A
    reader that went away, as `head` does, has what it wanted."""
    encoding = stream.encoding or "utf-8"
    try:
        for block in _blocks(pieces):
            stream.write(block.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), stream.fileno())
        return False
    return True


def _blocks(pieces: Iterable[str]) -> Iterator[str]:
    """The same text in pieces that are worth a call each."""
    left = iter(pieces)
    while some := list(islice(left, _PIECES_A_BLOCK)):
        yield "".join(some)


def render(
    outcome: Outcome, options: argparse.Namespace, where: Surroundings
) -> Iterable[str]:
    """What goes to stdout, piece by piece."""
    form = options.output
    if form in {"json", "jsonl", "csv"}:
        from coterie.cli.output import structured

        command = getattr(options, "command", "")
        return structured.render(outcome, form, command, where.clock())
    columns = columns_of(outcome, options)
    if form == "md":
        from coterie.cli.output.text import markdown

        return [markdown(columns, outcome.items)]
    return [_table(outcome, columns, where)]


def _table(outcome: Outcome, columns: list[Column], where: Surroundings) -> str:
    if not outcome.items:
        return ""
    if where.stdout.isatty():
        from coterie.cli.output.terminal import terminal_table

        return terminal_table(columns, outcome.items)
    from coterie.cli.output.text import text_table

    return text_table(columns, outcome.items)
