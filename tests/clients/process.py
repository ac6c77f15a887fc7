"""A Coterie server as a process of its own: started, waited for, stopped, killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .waiting import eventually

READY = "coterie ready on "
START_S = 20.0
STOP_S = 20.0


class ServerProcess:
    """`coterie serve`; `address` is HOST:PORT once it is ready."""

    def __init__(
        self, directory: Path, *arguments: str, listen: str = "127.0.0.1:0"
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._said = directory / "stdout"
        self._log = directory / "stderr"
        command = [str(Path(sys.executable).with_name("coterie")), "serve"]
        command += ["--listen", listen, *arguments]
        with self._said.open("wb") as said, self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=said, stderr=log)
        self.address = self._wait_until_ready()

    @property
    def log(self) -> str:
        """Everything the server wrote to stderr so far."""
        return self._log.read_text()

    @property
    def return_code(self) -> int | None:
        """None while the server runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to stop, as a service manager does, and insist that it obeys."""
        if self.return_code is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"SIGTERM ignored for {STOP_S} s\n{self.log}"
            ) from None
        assert self.return_code == 0, f"exit code {self.return_code}\n{self.log}"

    def kill(self) -> None:
        """kill -9, as a power cut would."""
        self._process.kill()
        self._process.wait(STOP_S)

    def _wait_until_ready(self) -> str:
        try:
            eventually(self._ready_or_dead, within_s=START_S, wanted="a ready server")
        except AssertionError:
            self.kill()
            raise AssertionError(f"the server never got ready\n{self.log}") from None
        lines: Sequence[str] = self._said.read_text().splitlines()
        ready = [line for line in lines if line.startswith(READY)]
        assert ready, f"the server died at start\n{self.log}"
        return ready[0].removeprefix(READY).split()[0]

    def _ready_or_dead(self) -> bool:
        said = self._said.read_text()
        ready = said.endswith("\n") and READY in said
        return ready or self.return_code is not None
