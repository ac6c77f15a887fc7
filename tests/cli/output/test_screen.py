"""The alternate screen of a terminal, and its keys."""

from __future__ import annotations

from io import StringIO

import pytest

from coterie.cli.output.screen import Line, Screen, split_keys


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1bOB", ["up", "down"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page-up", "page-down", "home", "end"]),
        ("/\u00e9\x7f\r\x1b", ["/", "\u00e9", "backspace", "enter", "escape"]),
        ("\x1b[15~\x1b[1;5Cq\x00", ["q"]),
    ],
)
def test_the_bytes_of_a_terminal_are_keys(text: str, keys: list[str]) -> None:
    assert list(split_keys(text)) == keys


@pytest.mark.posix
def test_a_drawing_erases_the_rest_of_each_line_and_of_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stdout = Terminal()
    with Screen(stdout) as screen:
        assert not screen.has_keys
        before = len(stdout.getvalue())
        assert screen.draw([Line("title", "\x1b[1m"), Line("row")])
    drawn, _, _ = stdout.getvalue()[before:].partition("\x1b[?7h")
    assert drawn == "\x1b[H\x1b[1mtitle\x1b[0m\x1b[K\r\nrow\x1b[K\x1b[J"


def test_the_screen_is_restored_after_an_error() -> None:
    stdout = Terminal()
    with pytest.raises(RuntimeError), Screen(stdout):
        raise RuntimeError("a fault")
    assert stdout.getvalue().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")
