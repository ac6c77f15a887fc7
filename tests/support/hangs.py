"""Ends a test process that hangs outside Python, and reports its stacks.

pytest-timeout raises an exception in the main thread. A call that stays in a C library,
for example in librdkafka, never sees it. Here the watchdog thread of `faulthandler`,
which needs no GIL, writes the stacks of all threads and ends the process. xdist reports
the test as failed and starts a new worker for the others. The report has the stacks.
Without xdist the run ends, after its stacks.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest

GRACE_S = 60.0
"""Time for pytest-timeout to end a phase of a test in the usual way."""
FOLDER = "hang_stacks"


class HangWatchdog:
    """Ends this process when a phase of a test outlasts its time-out and `grace_s`."""

    def __init__(self, stacks: TextIO, grace_s: float = GRACE_S) -> None:
        self._stacks = stacks
        self._grace_s = grace_s

    # pytest's own plugin cancels the watchdog after a failed phase, so each phase
    # starts it again.

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        with self._limited(item):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        with self._limited(item):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        with self._limited(item):
            yield

    @contextmanager
    def _limited(self, item: pytest.Item) -> Generator[None]:
        limit_s = time_limit_s(item)
        if limit_s:
            faulthandler.dump_traceback_later(
                limit_s + self._grace_s, exit=True, file=self._stacks
            )
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


class HangReports:
    """Reports of workers that ended, with their stacks; their processes are killed."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coterie-hangs-"))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[FOLDER] = str(self._folder)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, report: Any) -> None:
        worker = report.node.gateway.id
        kill_processes_of(worker, report.node.workerinput["testrunuid"])
        stacks = stacks_file(self._folder, worker)
        if stacks.exists() and (text := stacks.read_text(errors="replace")):
            report.longrepr = f"{report.longrepr}\n{text}"

    def pytest_unconfigure(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def register(config: pytest.Config, grace_s: float = GRACE_S) -> None:
    """Watch the tests of this process, or of the workers that xdist starts."""
    if hasattr(config, "workerinput"):
        folder = Path(config.workerinput[FOLDER])
        path = stacks_file(folder, config.workerinput["workerid"])
        stacks = path.open("w", encoding="utf-8")
    else:
        config.pluginmanager.register(HangReports(), "hang-reports")
        assert sys.__stderr__ is not None
        # pytest replaces file descriptor 2 while a test runs.
        stacks = os.fdopen(os.dup(sys.__stderr__.fileno()), "w", encoding="utf-8")
    config.add_cleanup(stacks.close)
    config.pluginmanager.register(HangWatchdog(stacks, grace_s), "hang-watchdog")


def stacks_file(folder: Path, worker: str) -> Path:
    """Return the file that a worker's watchdog writes to."""
    return folder / f"{worker}.txt"


def kill_processes_of(worker: str, run: str) -> None:
    """Kill the servers and clients that an ended worker started and left.

    They inherited the variables that xdist sets in each worker.
    """
    marks = {f"PYTEST_XDIST_WORKER={worker}", f"PYTEST_XDIST_TESTRUNUID={run}"}
    for environ in Path("/proc").glob("[0-9]*/environ"):
        # A process may end meanwhile, and those of other users are not readable.
        with suppress(OSError):
            if marks <= set(environ.read_text(errors="replace").split("\0")):
                os.kill(int(environ.parent.name), signal.SIGKILL)


def time_limit_s(item: pytest.Item) -> float:
    """Return the test's limit for pytest-timeout in seconds; 0 is none."""
    mark = item.get_closest_marker("timeout")
    if mark is not None:
        return float(mark.args[0] if mark.args else mark.kwargs["timeout"])
    option = item.config.getoption("timeout", None)
    return float(option or item.config.getini("timeout") or 0)
