"""The prompt of `coterie pipeline sql`: statements that end with ";", one by one.

At a terminal lines can be edited and those of earlier days come back; a statement that
fails is told, and the next one can be typed. From a pipe the first one that fails ends
the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from coterie.errors import CoterieError

_PROMPT: Final = "lake> "
_MORE: Final = "  ... "
_WORDS: Final = {"quit", "exit", r"\q"}
_LINES_KEPT: Final = 1_000


def answer_all(answer: Callable[[str], int]) -> int:
    """Answer every statement of stdin; the exit code of the last."""
    if not sys.stdin.isatty():
        code = 0
        for statement in statements(sys.stdin):
            code = answer(statement)
        return code
    return _talk(answer)


def statements(lines: Iterable[str]) -> Iterator[str]:
    """What stands before each ";" at the end of a line; the last needs none."""
    text = ""
    for line in lines:
        text += line
        if line.rstrip().endswith(";"):
            yield text.strip().rstrip(";")
            text = ""
    if text.strip():
        yield text.strip()


def _talk(answer: Callable[[str], int]) -> int:
    history = _History()
    try:
        while (statement := _typed()) is not None:
            try:
                answer(statement)
            except CoterieError as error:
                sys.stderr.write(f"{error}\n")
            except KeyboardInterrupt:
                sys.stderr.write("interrupted\n")
    finally:
        history.keep()
    return 0


def _typed() -> str | None:
    """The next statement; None when somebody is done. Ctrl-C forgets the line."""
    lines: list[str] = []
    while True:
        try:
            line = input(_MORE if lines else _PROMPT)
        except EOFError:
            sys.stderr.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            lines = []
            continue
        if not lines and line.strip().rstrip(";").lower() in _WORDS:
            return None
        lines = [*lines, line] if lines or line.strip() else []
        for statement in statements(f"{each}\n" for each in lines):
            if line.rstrip().endswith(";"):
                return statement


class _History:
    """The lines of earlier days, where the system has a way to edit lines."""

    def __init__(self) -> None:
        state = os.environ.get("XDG_STATE_HOME")
        base = Path(state) if state else Path.home() / ".local" / "state"
        self._path = base / "coterie" / "sql-history"
        try:
            import readline
        except ImportError:
            self._lines = None
            return
        self._lines = readline
        if self._path.exists():
            readline.read_history_file(self._path)

    def keep(self) -> None:
        """Write them."""
        if self._lines is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lines.set_history_length(_LINES_KEPT)
        self._lines.write_history_file(self._path)
