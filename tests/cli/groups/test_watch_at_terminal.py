"""`coterie groups watch` in a process of its own, at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from tests.broker.server.harness import ThreadServer

pytestmark = pytest.mark.slow

ENTERED = "\x1b[?1049h"
LEFT = "\x1b[?1049l"
DEADLINE_S = 60.0


class Terminal:
    """A process at a pseudo-terminal, and what it has printed."""

    def __init__(self, address: str) -> None:
        self._master, self._slave = pty.openpty()
        self.before = termios.tcgetattr(self._slave)
        self.text = ""
        line = ["groups", "watch", "--bootstrap-server", address, "--interval", "0.1"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coterie.cli.main", *line],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        )

    def wait_for(self, text: str) -> None:
        """Read until the process has printed a text since the last call."""
        deadline = time.monotonic() + DEADLINE_S
        found = ""
        while text not in found:
            assert time.monotonic() < deadline, found
            if select.select([self._master], [], [], 0.1)[0]:
                found += os.read(self._master, 65_536).decode()
        self.text += found

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def settings(self) -> list[object]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        os.close(self._master)
        os.close(self._slave)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        yield f"{host}:{port}"


@pytest.fixture
def terminal(address: str) -> Iterator[Terminal]:
    terminal = Terminal(address)
    try:
        terminal.wait_for("measured at")
        yield terminal
    finally:
        terminal.close()


def test_keys_are_read_and_q_restores_the_terminal(terminal: Terminal) -> None:
    assert terminal.text.startswith(ENTERED)
    assert terminal.settings != terminal.before
    terminal.press("?")
    terminal.wait_for("scroll by a page")
    terminal.press("x/ab")
    terminal.wait_for("filter: ab_")
    terminal.press("\x1b")
    terminal.press("q")
    terminal.wait_for(LEFT)
    assert terminal.process.wait(DEADLINE_S) == 0
    assert terminal.settings == terminal.before


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_restores_the_terminal_and_ends_the_process(
    terminal: Terminal, name: str
) -> None:
    signum = getattr(signal, name)
    terminal.process.send_signal(signum)
    terminal.wait_for(LEFT)
    assert terminal.process.wait(DEADLINE_S) == -signum
    assert terminal.settings == terminal.before


def test_ctrl_c_restores_the_terminal_and_returns_130(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait_for(LEFT)
    assert terminal.process.wait(DEADLINE_S) == 130
    assert terminal.settings == terminal.before


def test_a_suspended_watch_gives_the_terminal_back_and_takes_it_again(
    terminal: Terminal,
) -> None:
    terminal.process.send_signal(signal.SIGTSTP)
    terminal.wait_for(LEFT)
    os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert terminal.settings == terminal.before
    terminal.process.send_signal(signal.SIGCONT)
    terminal.wait_for(ENTERED)
    terminal.wait_for("measured at")
    assert terminal.settings != terminal.before
