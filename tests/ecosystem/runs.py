"""One run of a suite: its servers, the bounded process of its tests, its outcomes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tests.ecosystem.apache.conftest import JARS
from tests.ecosystem.known import CANNOT_RUN, Known
from tests.ecosystem.results import Outcome, go_outcomes, junit_outcomes
from tests.ecosystem.servers import serving, serving_kafka
from tests.ecosystem.sources import (
    Unavailable,
    copy_source,
    fetch_programs,
    fill,
    install,
    run_step,
)
from tests.ecosystem.suites import Apache, GoModule, Suite

ROOT: Final = Path(__file__).parent.parent.parent
PROGRESS_S: Final = 30.0
END_S: Final = 60.0
# Coterie's own sources and pytest's options are not for the suites.
_NOT_INHERITED: Final = (
    "PYTHONPATH",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "VIRTUAL_ENV",
)


def run_suite(
    suite: Suite,
    folder: Path,
    *,
    checkout: Path | None,
    kafka: Path | None,
    rows: Sequence[Known],
    say: Callable[[str], None],
) -> dict[str, Outcome]:
    """Fetch a suite, run it against new servers, and return the tests' outcomes.

    `folder` gets its files, and its output as `log`. `kafka` is the folder of Apache
    Kafka's jars, to run the suite on it instead. `say` prints a line of progress.

    Raises:
        Unavailable: the suite could not be fetched, or its output has no outcomes.
    """
    apart = [row.test for row in rows if row.when == CANNOT_RUN]
    folder.mkdir(parents=True, exist_ok=True)
    log, report = folder / "log", folder / "junit.xml"
    report.unlink(missing_ok=True)
    run = partial(run_bounded, log=log, within_s=suite.within_s, say=say)
    if isinstance(suite.source, Apache):
        environment = {**os.environ, JARS: str(fetch_programs(folder.parent))}
        say(f"running, at most {suite.within_s:.0f} s; output in {log}")
        arguments = pytest_arguments(suite, report, apart, {})
        run([sys.executable, *arguments], ROOT, environment)
    else:
        servers = serving_kafka(suite, kafka) if kafka else serving(suite, folder)
        with servers as values:
            say(f"fetching; the server is on {values['address']}")
            source = copy_source(suite, folder, checkout, values)
            environment = environment_of(suite, values)
            if isinstance(suite.source, GoModule):
                command = go_command(suite, apart)
                run_step(["go", "mod", "download"], source)
            else:
                python = install(suite, folder, source, environment)
                arguments = pytest_arguments(suite, report, apart, values)
                command = [str(python), *arguments]
            say(f"running, at most {suite.within_s:.0f} s; output in {log}")
            run(command, source, environment)
    outcomes = outcomes_of(suite, log, report)
    if not outcomes:
        raise Unavailable(f"no test ran; see {log}")
    return outcomes


def outcomes_of(suite: Suite, log: Path, report: Path) -> dict[str, Outcome]:
    """Return the outcomes that a run left in its output or its report; {} if none."""
    if isinstance(suite.source, GoModule):
        with log.open(encoding="utf-8", errors="replace") as lines:
            return go_outcomes(lines)
    if report.exists():
        return junit_outcomes(report.read_text(encoding="utf-8"))
    return {}


def environment_of(suite: Suite, values: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a suite's tests."""
    return {
        **{
            key: value for key, value in os.environ.items() if key not in _NOT_INHERITED
        },
        **{key: fill(text, values) for key, text in suite.environment.items()},
    }


def go_command(suite: Suite, apart: Sequence[str]) -> list[str]:
    """Return the command of a Go suite; one package at a time has the server."""
    limit = f"-timeout={suite.within_s:.0f}s"
    names = sorted({test.partition(".")[2] for test in apart})
    skip = [f"-skip={'|'.join(map(go_pattern, names))}"] if names else []
    options = ["-json", "-count=1", "-p=1", "-vet=off", limit, *skip]
    return ["go", "test", *options, *suite.arguments, *suite.tests]


def go_pattern(name: str) -> str:
    """Return the pattern of `go test` for one test, or for the case of a test."""
    return "/".join(f"^{re.escape(part)}$" for part in name.split("/"))


def pytest_arguments(
    suite: Suite, report: Path, apart: Sequence[str], values: Mapping[str, str]
) -> list[str]:
    """Return the arguments of python that run a suite and write a JUnit report."""
    results = [f"--junitxml={report}", "-o", "junit_family=xunit1"]
    deselected = [f"--deselect={test.removesuffix('*')}" for test in apart]
    more = [fill(each, values) for each in suite.arguments]
    options = ["-v", *results, *deselected, *more]
    return ["-m", "pytest", *options, *suite.tests]


def run_bounded(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    within_s: float,
    say: Callable[[str], None],
) -> int:
    """Run a command with its output in a file; kill it and its children in the end.

    Return its exit code, or -SIGKILL when it took too long.
    """
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while (took_s := time.monotonic() - begin) < within_s:
            try:
                return process.wait(min(PROGRESS_S, within_s - took_s))
            except subprocess.TimeoutExpired:
                say(f"{time.monotonic() - begin:.0f} s, {_lines(log)} lines of output")
        say(f"ended after {within_s:.0f} s")
        return -signal.SIGKILL
    finally:
        end_session(process)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, and what it started and left."""
    with suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(END_S)


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")
