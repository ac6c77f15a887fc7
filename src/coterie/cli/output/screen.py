"""The alternate screen of a terminal, and its keys.

The terminal is as before when the `with` block ends, in whatever way it does.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TextIO

from coterie.cli.output.emit import write
from coterie.cli.output.terminal import styled
from coterie.errors import OutputError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""The alternate screen, no cursor, and no wrapping of lines."""
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_FIRST_CELL: Final = "\x1b[H"
_ERASE_LINE: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_SEQUENCES: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.DOTALL)
_NAMES: Final = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page-up",
    "\x1b[6~": "page-down",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}
_BYTES_MAX: Final = 1024


class Line(NamedTuple):
    """A line of the screen and its style."""

    text: str
    style: str = ""


def split_keys(text: str) -> Iterator[str]:
    """Yield the keys of what a terminal sent: characters, and names such as "up".

    Sequences of unknown keys are left out.
    """
    for sequence in _SEQUENCES.findall(text):
        name = _NAMES.get(sequence, sequence)
        if name.isprintable():
            yield name


class Screen:
    """The alternate screen of a terminal."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._settings: list[Any] | None = None
        """The settings of the terminal to restore; None when it has no keys."""

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def enter(self) -> None:
        """Switch to the alternate screen and read keys without waiting for Enter."""
        self._settings = _read_single_keys(sys.stdin)
        write(self._stdout, [_ENTER])

    def leave(self) -> None:
        """Restore the screen and the settings of the terminal."""
        # A terminal that is gone needs nothing restored.
        with contextlib.suppress(OutputError):
            write(self._stdout, [_LEAVE])
        if sys.platform != "win32" and self._settings is not None:
            import termios

            with contextlib.suppress(termios.error):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._settings)
            self._settings = None

    @property
    def has_keys(self) -> bool:
        """Whether keys can be read: stdin is a terminal, too."""
        return self._settings is not None

    @property
    def size(self) -> tuple[int, int]:
        """The columns and lines of the terminal."""
        size = shutil.get_terminal_size()
        return size.columns, size.lines

    def draw(self, lines: Iterable[Line]) -> bool:
        """Replace all lines; return False when the terminal is gone."""
        text = "\r\n".join(
            f"{styled(line.text, line.style)}{_ERASE_LINE}" for line in lines
        )
        return write(self._stdout, [f"{_FIRST_CELL}{text}{_ERASE_BELOW}"])


def _read_single_keys(stdin: IO[str]) -> list[Any] | None:
    """Let a terminal send each key at once; return its settings before.

    Return None for what is no terminal. Ctrl-C and Ctrl-Z still send signals.
    """
    if sys.platform == "win32" or not stdin.isatty():
        return None
    import termios
    import tty

    settings: list[Any] = termios.tcgetattr(stdin)
    tty.setcbreak(stdin)
    return settings


@contextlib.contextmanager
def keys_of(screen: Screen, on_keys: Callable[[Iterable[str]], None]) -> Iterator[None]:
    """Call a function with the keys that the terminal sends, in the running loop."""
    import asyncio
    import codecs
    import os

    if not screen.has_keys:
        yield
        return
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")

    def read() -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = os.read(descriptor, _BYTES_MAX)
        if not data:  # The terminal is gone.
            loop.remove_reader(descriptor)
        on_keys(split_keys(decoder.decode(data)))

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
