"""Workers that copy records of one topic to another in transactions (KIP-98, KIP-447).

A worker is a member of a consumer group; the offsets are in the transaction. Each
creates another producer after a fatal error, and counts them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from typing import Final, NamedTuple

from tests.interop.kafka import java_command, run

from .scenarios import WAIT_S

_BUILD_S: Final = 300.0
_LIBRDKAFKA: Final = "tests.interop.gateway.failures.librdkafka_copier"
_JAVA: Final = Path(__file__).with_name("Copier.java")
_GO: Final = Path(__file__).with_name("kgo")


class Work(NamedTuple):
    """What a worker does, as whom."""

    bootstrap: str
    name: str
    """The transactional id."""
    group: str
    protocol: str
    source: str
    target: str


class Copier:
    """A worker in a process: `librdkafka_copier.py`, `kgo/main.go` or `Copier.java`.

    It ends at the end of its stdin. It writes one line "aborted" for each abort and
    "failed" with the error for each producer with a fatal error. Its stderr goes to a
    file in `directory`.
    """

    def __init__(self, command: Sequence[str], work: Work, directory: Path) -> None:
        self.aborted = 0
        self.producers = 1
        self.errors: list[str] = []
        """Why producers had to be created again."""
        self.failures: list[str] = []
        self.is_hung = False
        """Whether the worker did not end when it was told to."""
        self.name = work.name
        self._command = [*command, *work]
        self._log = directory / f"{work.name}.log"
        self._start()

    def stop(self) -> None:
        """Finish the transaction in progress and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            code = self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.is_hung = True
            self.failures.append(f"{self.name} hung")
            self._process.kill()
            self._process.wait()
        else:
            if code:
                self.failures.append(f"{self.name} ended with the exit code {code}")
        self._reader.join()

    def kill(self) -> None:
        """Kill the process, and start another one with the same transactional id."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._start()

    def _start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = Thread(target=self._read, name=self.name)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.aborted += 1
            kind, _, error = line.strip().partition(" ")
            if kind == "failed":
                self.producers += 1
                self.errors.append(f"{self.name}: {error}")


def copier_starter(
    client: str, jars: Path, directory: Path
) -> Callable[[Work], Copier]:
    """Return the function that starts workers with a client: "librdkafka", "kgo" or
    "java". It builds the program of kgo in `directory`, where logs go as well."""
    directory.mkdir(parents=True, exist_ok=True)
    if client == "librdkafka":
        command = [sys.executable, "-m", _LIBRDKAFKA]
    elif client == "java":
        command = [*java_command(jars, "error"), str(_JAVA)]
    else:
        program = directory / "kgo-copier"
        build = run(["go", "build", "-C", str(_GO), "-o", str(program)], _BUILD_S)
        assert build.exit_code == 0, build.stderr
        command = [str(program)]
    return lambda work: Copier(command, work, directory)
