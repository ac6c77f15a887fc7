"""A test that hangs outside Python fails with its stacks; other tests go on.

No test here waits for a limit, so none depends on the machine's speed: when a hang
begins, the time that the watchdog has left becomes short.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.waiting import eventually

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = 500
CONFTEST = """
import faulthandler
from tests.support import hangs

class Watchdog:
    # What faulthandler has been asked for last: (seconds, options), or None.
    asked = None

start = faulthandler.dump_traceback_later
cancel = faulthandler.cancel_dump_traceback_later

def recorded_start(timeout, **options):
    Watchdog.asked = (timeout, options)
    start(timeout, **options)

def recorded_cancel():
    Watchdog.asked = None
    cancel()

faulthandler.dump_traceback_later = recorded_start
faulthandler.cancel_dump_traceback_later = recorded_cancel

def let_time_pass():
    seconds, options = Watchdog.asked
    assert seconds == 300 + 7
    start(0.01, **options)

def pytest_configure(config):
    hangs.register(config, grace_s=7)
"""
TESTS = """
import ctypes, subprocess, sys
from pathlib import Path
import pytest
from conftest import let_time_pass

def deadlock(library):
    let_time_pass()
    # Zero is PTHREAD_MUTEX_INITIALIZER: the second call waits for ever, and signals do
    # not interrupt it.
    mutex = ctypes.create_string_buffer(128)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)

@pytest.fixture
def close_hangs():
    yield
    deadlock(ctypes.CDLL(None))

@pytest.mark.timeout(300)
def test_hangs_without_the_gil():
    deadlock(ctypes.CDLL(None))

@pytest.mark.timeout(300)
def test_hangs_with_the_gil():
    server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("server.pid").write_text(str(server.pid))
    deadlock(ctypes.PyDLL(None))

@pytest.mark.timeout(300)
def test_hangs_after_its_call(close_hangs):
    pass

@pytest.mark.timeout(300)
def test_hangs_after_it_failed(close_hangs):
    assert False

def test_passes():
    pass
"""
OPTIONS = """
[tool.pytest.ini_options]
timeout = 100
"""
HANGS = (
    "test_hangs_without_the_gil",
    "test_hangs_with_the_gil",
    "test_hangs_after_its_call",
    "test_hangs_after_it_failed",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small separate project whose tests hang."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text(OPTIONS)
    return tmp_path


def run_pytest(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    outer = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID")
    variables: Mapping[str, str] = {
        **{key: value for key, value in os.environ.items() if key not in outer},
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]]),
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env=variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.slow
def test_the_other_tests_run_and_each_hang_is_a_failure_with_its_stacks(
    project: Path,
) -> None:
    ended = run_pytest(project, "-n", "1", "-v")
    for name in HANGS:
        assert f"crashed while running 'test_some.py::{name}'" in ended.stdout
    assert "PASSED test_some.py::test_passes" in ended.stdout
    assert ended.stdout.count(" in deadlock\n") == len(HANGS)
    assert ended.returncode == 1


@pytest.mark.slow
def test_processes_of_a_test_that_hangs_are_killed(project: Path) -> None:
    run_pytest(project, "-n", "1", "-k", "with_the_gil")
    pid = (project / "server.pid").read_text()
    # The command of a process that has ended, but that nobody waits for, is empty.
    command = Path("/proc", pid, "cmdline")
    eventually(
        lambda: not command.exists() or not command.read_bytes(),
        expected="the process of the test to end",
    )


@pytest.mark.slow
def test_without_xdist_the_run_ends_after_its_stacks(project: Path) -> None:
    ended = run_pytest(project, "-n", "0", "-k", "without_the_gil")
    assert ended.returncode == 1
    assert "Timeout" in ended.stderr
    assert "in test_hangs_without_the_gil" in ended.stderr
