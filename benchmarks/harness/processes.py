"""Servers under test: processes that are pinned to one core."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.harness.figures import Skipped

BUILD = Path(__file__).parents[2] / "build"
SERVER_CPU = 0
READY = "ready on "
START_S = 60.0
STOP_S = 60.0


def cpu_clock_of(pid: int) -> int:
    """Return the id of a process's CPU clock, as Linux's clock_getcpuclockid does.

    /proc/PID/stat counts ticks of 10 ms, more than a short load may take.
    """
    return ~pid << 3 | 2


class Server:
    """A server process, which prints `... ready on HOST:PORT` to stdout when it accepts
    requests.

    `variables` are added to its environment. It does not outlive this process: it is
    stopped when its start fails or is interrupted, and by Linux when this process is
    killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        taskset, setpriv = map(shutil.which, ("taskset", "setpriv"))
        if taskset is None or setpriv is None:
            raise Skipped("NO taskset OR setpriv: they pin a server and stop it")
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [
                    *(taskset, "-c", str(SERVER_CPU)),
                    *(setpriv, "--pdeathsig", "TERM"),
                    *command,
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **(variables or {})},
            )
        self.started = time.perf_counter()
        try:
            self.address = self._wait_until_ready()
        except BaseException:  # Ctrl-C as well
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        """The CPU time of the process and its children so far, in seconds."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(
            time.clock_gettime(cpu_clock_of(each))
            for each in (pid, *map(int, children))
        )

    @property
    def peak_mb(self) -> float:
        """The largest resident memory of the process so far, in MB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (kilobytes,) = [
            int(line.split()[1])
            for line in status.splitlines()
            if line.startswith("VmHWM:")
        ]
        return kilobytes * 1024 / 1e6

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> None:
        """Stop the process; SIGKILL simulates a crash."""
        self._process.send_signal(sign)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _wait_until_ready(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if READY in line:
                return line.partition(READY)[2].split()[0]
        self._process.wait(START_S)
        raise RuntimeError(f"the server failed to start:\n{self._log.read_text()}")


def coterie_command(*arguments: str) -> list[str]:
    """Return the command of `coterie serve` on a free loopback port."""
    script = str(Path(sys.executable).with_name("coterie"))
    return [script, "serve", "--listen", "127.0.0.1:0", *arguments]


def settings(**values: object) -> list[str]:
    """Return `--set` arguments; parameter names have underscores in place of the dots
    in Kafka's names.
    """
    pairs = (f"{name.replace('_', '.')}={value}" for name, value in values.items())
    return [part for pair in pairs for part in ("--set", pair)]


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a server for the duration of a `with` block."""
    server = Server(command, log, variables)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Create a folder for a server's data and log, on the disk of the checkout.

    The system's temporary folder may be in memory, where fsync does nothing.
    """
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        yield Path(folder)


@contextlib.contextmanager
def open_files(count: int) -> Iterator[None]:
    """Raise the limit of open files for this process and its children."""
    import resource

    kind = resource.RLIMIT_NOFILE
    soft, hard = resource.getrlimit(kind)
    if hard not in (resource.RLIM_INFINITY,) and hard < count:
        raise Skipped(f"ONLY {hard} OPEN FILES are allowed here, {count} are needed")
    resource.setrlimit(kind, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def python(module: str) -> list[str]:
    """Return the command that runs a module of `benchmarks` as a server."""
    return [sys.executable, "-m", f"benchmarks.{module}"]


def environment_note() -> str:
    """Return the Python version, core count and disk of this machine."""
    return (
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, "
        f"data on {file_system(BUILD)}"
    )


def file_system(path: Path, mounts: str | None = None) -> str:
    """Return the kind and the device of the file system of a path.

    `mounts` is the content of /proc/mounts, which is read by default.
    """
    text = Path("/proc/mounts").read_text() if mounts is None else mounts
    found = "an unknown file system"
    longest = -1
    for line in text.splitlines():
        device, folder, kind = line.split()[:3]
        if path.absolute().is_relative_to(folder) and len(folder) >= longest:
            found, longest = f"{kind} ({device})", len(folder)
    return found
