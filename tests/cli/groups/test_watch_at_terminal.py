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

DEADLINE_S = 60.0


class Terminal:
    """A process at a pseudo-terminal of 24 lines."""

    def __init__(self, address: str) -> None:
        self._master, self.slave = pty.openpty()
        self.resize(80)
        line = ["groups", "watch", "--bootstrap-server", address, "--interval", "0.1"]
        sizes = {"COLUMNS", "LINES"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "coterie.cli.main", *line],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={name: each for name, each in os.environ.items() if name not in sizes}
            | {"TERM": "xterm"},
        )

    def resize(self, columns: int) -> None:
        termios.tcsetwinsize(self.slave, (24, columns))

    def wait_for(self, text: str) -> None:
        """Read until the process has printed a text since the last call."""
        deadline = time.monotonic() + DEADLINE_S
        found = ""
        while text not in found:
            assert time.monotonic() < deadline, found
            if select.select([self._master], [], [], 0.1)[0]:
                found += os.read(self._master, 65_536).decode()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)
        os.close(self._master)
        os.close(self.slave)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with ThreadServer() as server:
        host, port = server.addresses[0]
        terminal = Terminal(f"{host}:{port}")
        try:
            terminal.wait_for("measured at")
            yield terminal
        finally:
            terminal.close()


def test_the_table_follows_the_width_and_ctrl_c_returns_130(terminal: Terminal) -> None:
    before = termios.tcgetattr(terminal.slave)
    terminal.resize(10)
    terminal.wait_for("measured a\x1b[K")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(DEADLINE_S) == 130
    assert termios.tcgetattr(terminal.slave) == before
