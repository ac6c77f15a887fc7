"""Output of an outcome to stdout and stderr, confirmation prompts, and progress bars.

Results go to stdout. Notes, failures without a row and the count of failures go to
stderr, in every output format.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TextIO

from coterie.cli.output import outcome as out
from coterie.cli.output.tables import encodable, text_table
from coterie.display import printable
from coterie.errors import OutputError, SettingError

_PIECES_PER_WRITE: Final = 1_000
_PROGRESS_DELAY_S: Final = 1.0
_PROGRESS_WIDTH: Final = 30


def wall_clock() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


class CommandIO:
    """The streams that a command writes to, and its clock."""

    def __init__(
        self,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self.stdout = sys.stdout if stdout is None else stdout
        self.stderr = sys.stderr if stderr is None else stderr
        self.clock = wall_clock if clock is None else clock

    def now_ms(self) -> int:
        """Return the current time in milliseconds since 1970."""
        return round(self.clock().timestamp() * 1000)


def emit(
    outcome: out.Outcome, options: argparse.Namespace, io: CommandIO | None = None
) -> int:
    """Write the outcome in the format of `options.output`; return the exit code."""
    io = io or CommandIO()
    write(io.stdout, render(outcome, options, io))
    write_notes(io, outcome)
    return int(outcome.exit_code)


def render(
    outcome: out.Outcome,
    options: argparse.Namespace,
    io: CommandIO,
    *,
    is_continued: bool = False,
) -> Iterable[str]:
    """Return the text for stdout in pieces.

    With `is_continued`, tables and CSV have no header: their rows follow others.
    """
    form = options.output
    check_columns(outcome, options)
    if form in {"json", "jsonl", "yaml"}:
        from coterie.cli.output import structured

        command = getattr(options, "command", "")
        encoding = io.stdout.encoding
        return structured.render(outcome, form, command, io.clock(), encoding)
    if form == "csv":
        from coterie.cli.output.csv_rows import csv_rows

        keys: list[str] = []
        if getattr(options, "columns", None):
            keys = [each.key for each in visible_columns(outcome, options)]
        is_safe = getattr(options, "csv_safe", False)
        rows = csv_rows(outcome, keys, is_safe=is_safe, is_shown=io.stdout.isatty())
        return islice(rows, 1, None) if is_continued else rows
    columns = visible_columns(outcome, options)
    if form == "md":
        from coterie.cli.output.tables import markdown

        lines = markdown(columns, outcome.items).splitlines(keepends=True)
        return lines[2:] if is_continued else lines
    has_header = not is_continued
    return table_text(columns, outcome.items, options, io.stdout, has_header=has_header)


def check_columns(outcome: out.Outcome, options: argparse.Namespace) -> None:
    """Raise SettingError for --columns that the result does not have.

    A command that writes calls this before it writes.
    """
    if not getattr(options, "columns", None):
        return
    if options.output in {"json", "jsonl", "yaml"}:
        raise SettingError(
            f"--columns: {options.output} always has every key; use table, wide, md or "
            "csv"
        )
    visible_columns(outcome, options)


def table_text(
    columns: Sequence[out.Column],
    items: Sequence[out.Item],
    options: argparse.Namespace,
    stream: TextIO,
    *,
    has_header: bool = True,
) -> list[str]:
    """Return a table for a stream: in the width of a terminal, or plain."""
    if not items:
        return []
    if not stream.isatty():
        lines = text_table(columns, items, stream.encoding).splitlines(keepends=True)
        return lines if has_header else lines[1:]
    from coterie.cli.output.terminal import Fit, terminal_table, terminal_width

    fit = Fit.USUAL
    if options.output == "wide" or options.wide:
        fit = Fit.ALL_TEXT
    elif getattr(options, "columns", None):
        fit = Fit.ALL_COLUMNS
    table = terminal_table(
        columns,
        items,
        terminal_width(stream),
        encoding=stream.encoding,
        fit=fit,
        has_header=has_header,
    )
    return [table]


def visible_columns(
    outcome: out.Outcome, options: argparse.Namespace
) -> list[out.Column]:
    """Return the columns that a table shows: those of --columns, or all that are not
    wide, or with --wide all. Raises SettingError."""
    if names := getattr(options, "columns", None):
        return chosen_columns(outcome, names)
    is_wide = options.output == "wide" or options.wide
    return [each for each in outcome.columns if is_wide or not each.is_wide]


def chosen_columns(outcome: out.Outcome, names: str) -> list[out.Column]:
    """Return the columns of --columns, named by their titles or keys. Raises
    SettingError."""
    if not outcome.columns:  # The run failed before it had a table.
        return []
    known = {each.key.lower(): each for each in outcome.columns}
    known |= {each.title.lower(): each for each in outcome.columns}
    chosen: list[out.Column] = []
    for name in names.split(","):
        column = known.get(name.strip().lower())
        if column is None:
            titles = ", ".join(each.title for each in outcome.columns)
            raise SettingError(
                f"--columns: unknown column {name.strip()!r}; columns are {titles}"
            )
        if column not in chosen:
            chosen.append(column)
    return chosen


def stderr_lines(outcome: out.Outcome) -> list[str]:
    """Return the notes, the failures without a row and the counts, one line each."""
    errors = out.failure_lines(outcome.failures)
    lines = [*outcome.notes, *(f"error: {each}" for each in errors)]
    if failed := outcome.failed:
        unit = f" ({outcome.units})" if outcome.units else ""
        lines.append(f"ok={outcome.ok} failed={failed}{unit}")
    return lines


def write_notes(io: CommandIO, outcome: out.Outcome) -> None:
    """Write to stderr what is not a row."""
    write(io.stderr, [f"{printable(line)}\n" for line in stderr_lines(outcome)])


def write(stream: TextIO, pieces: Iterable[str]) -> bool:
    """Write text, with escapes for characters that the stream cannot encode.

    Return False when the reader closed the stream, as `head` does; this is not an
    error. Raises OutputError when the stream cannot be written to, as on a full disk.
    """
    try:
        for block in _join_pieces(pieces):
            stream.write(encodable(block, stream.encoding))
        stream.flush()
    except OSError as error:
        discard_output(stream)
        if is_closed_by_reader(error):
            return False
        raise OutputError(f"cannot write the output: {error.strerror}") from error
    return True


def is_closed_by_reader(error: OSError) -> bool:
    """Return whether a write failed because the reader closed the pipe. On Windows the
    error is EINVAL."""
    return isinstance(error, BrokenPipeError) or (
        sys.platform == "win32" and error.errno == errno.EINVAL
    )


def discard_output(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to.

    Python flushes stdout again at exit, which would fail a second time.
    """
    with open(os.devnull, "w", encoding="utf-8") as devnull:  # noqa: PTH123
        os.dup2(devnull.fileno(), stream.fileno())


def _join_pieces(pieces: Iterable[str]) -> Iterator[str]:
    remaining = iter(pieces)
    # A write call per item is slow for tens of thousands of items.
    while block := list(islice(remaining, _PIECES_PER_WRITE)):
        yield "".join(block)


def write_message(io: CommandIO, sentence: str) -> None:
    """Write a sentence to stderr at once."""
    write(io.stderr, [f"{printable(sentence)}\n"])


def is_interactive(io: CommandIO) -> bool:
    """Return whether a user can answer a question: stdin and stderr are terminals."""
    return sys.stdin.isatty() and io.stderr.isatty()


def confirm(
    io: CommandIO, preview: out.Outcome, options: argparse.Namespace, question: str
) -> bool:
    """Show the pending changes and ask for confirmation; only "y" and "yes" confirm.
    Raises KeyboardInterrupt for Ctrl-C.

    The preview goes to stderr, because stdout is kept for results.
    """
    columns = visible_columns(preview, options)
    write(io.stderr, table_text(columns, preview.items, options, io.stderr))
    write(io.stderr, [f"{printable(question)} [y/N] "])
    # The handler of asyncio would only cancel the task, which waits in this call.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    except KeyboardInterrupt:
        io.stderr.write("\nnothing was written\n")
        raise
    finally:
        signal.signal(signal.SIGINT, handler)


class ProgressBar:
    """A progress callback that draws one line on a terminal.

    It draws nothing in the first second, and nothing when stderr is not a terminal.
    """

    def __init__(
        self, stderr: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stderr = stderr
        self._clock = clock
        self._started = clock()
        self._shown = ""

    def __call__(self, done: int, of: int, step: str = "") -> None:
        """Show progress: `done` of `of` units of work, and the name of the step."""
        if not self._stderr.isatty():
            return
        if self._clock() - self._started < _PROGRESS_DELAY_S:
            return
        share = done / max(of, 1)
        filled = "#" * int(share * _PROGRESS_WIDTH)
        line = f"[{filled:<{_PROGRESS_WIDTH}}] {int(100 * share):3} % {step}".rstrip()
        # A line that wraps could not be erased.
        line = line[: shutil.get_terminal_size().columns - 1]
        if line != self._shown:
            self._stderr.write(f"\r{line:<{len(self._shown)}}")
            self._stderr.flush()
            self._shown = line

    def clear(self) -> None:
        """Erase the line, before anything else is written to the terminal."""
        if self._shown:
            self._stderr.write(f"\r{' ' * len(self._shown)}\r")
            self._stderr.flush()
            self._shown = ""
