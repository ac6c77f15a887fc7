"""`coterie serve` as a separate process.

    with start_server("--memory") as server, server.client() as client:
        response = client.call(HeartbeatRequest(group_id="g"), 4)

Every wait has a deadline.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

START_S = 120.0
STOP_S = 60.0


class ServerProcess:
    """A server process, ready to serve once constructed.

    `addresses` has HOST and PORT of each node. `bootstrap` has the same addresses in
    the format of `bootstrap.servers`. A subclass may run another command of `coterie`.
    """

    COMMAND: ClassVar[tuple[str, ...]] = ("serve",)
    READY: ClassVar[str] = "coterie ready on "

    def __init__(self, *arguments: str, listen: str = "127.0.0.1:0") -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._stdout = Path(self._directory.name, "stdout")
        self._stderr = Path(self._directory.name, "stderr")
        self._output: tuple[str, str] | None = None
        # A server that does not start or stop in time writes its stacks on SIGABRT.
        python = [sys.executable, "-X", "faulthandler"]
        command = [*python, "-m", "coterie.cli.main", *self.COMMAND]
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*command, "--listen", listen, *arguments], stdout=stdout, stderr=stderr
            )
        try:
            self.ready_line = self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        self.bootstrap = self.ready_line.removeprefix(self.READY).split()[0]
        pairs = [address.rpartition(":") for address in self.bootstrap.split(",")]
        self.addresses = [(host, int(port)) for host, _, port in pairs]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.return_code is None:
            self.kill() if kind else self.stop()

    @property
    def log(self) -> str:
        """Return what the server has written to stderr so far."""
        if self._output is not None:
            return self._output[1]
        return self._stderr.read_text()

    @property
    def output(self) -> str:
        """What a running server has printed to stdout."""
        return self._stdout.read_text()

    @property
    def return_code(self) -> int | None:
        """Return the exit code, or None while the server runs."""
        return self.process.poll()

    def client(self, node: int = 0, **options: Any) -> WireClient:
        """Connect to a node, by default the first."""
        return WireClient(*self.addresses[node], **options)

    def stop(self, signal_number: int = signal.SIGTERM) -> str:
        """Stop the server by a signal; return its stdout after the ready line.

        Raises AssertionError unless it exits with code 0 in time.
        """
        if self.return_code is None:
            self.process.send_signal(signal_number)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(STOP_S)
            self.kill()
            message = f"not stopped within {STOP_S:.0f} s\n{self.log}"
            raise AssertionError(message) from None
        stdout = self._collect_output()
        assert self.return_code == 0, f"exit code {self.return_code}\n{self.log}"
        return stdout.removeprefix(self.ready_line)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.kill()
        self.process.wait(STOP_S)
        self._collect_output()

    def _collect_output(self) -> str:
        """Read the output of the ended process and delete its files; return stdout."""
        if self._output is None:
            self._output = self._stdout.read_text(), self._stderr.read_text()
            self._directory.cleanup()
        return self._output[0]

    def _wait_until_ready(self) -> str:
        def is_ready_or_dead() -> bool:
            is_ready = self._stdout.read_text().endswith("\n")
            return is_ready or self.return_code is not None

        try:
            eventually(is_ready_or_dead, within_s=START_S, expected="a ready server")
        except AssertionError as error:
            self.process.send_signal(signal.SIGABRT)
            self.process.wait(STOP_S)
            raise AssertionError(f"{error}\n{self.log}") from None
        line = self._stdout.read_text().partition("\n")[0] + "\n"
        assert line.startswith(self.READY), f"the server did not start\n{self.log}"
        return line


def start_server(
    *arguments: str,
    data: Path | None = None,
    settings: Mapping[str, object] | None = None,
    listen: str = "127.0.0.1:0",
) -> ServerProcess:
    """Start a server and wait until it is ready.

    `data` is its data directory; without one it stores everything in memory. `settings`
    are by Kafka's names.
    """
    command = list(arguments)
    if data is not None:
        command += ["--data", str(data)]
    elif "--memory" not in command and "--data" not in command:
        command.append("--memory")
    for name, value in (settings or {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        command += ["--set", f"{name}={text}"]
    return ServerProcess(*command, listen=listen)
