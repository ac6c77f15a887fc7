"""Configuration of every test run: fact marks, hypothesis' profile, slow tests.

A unit test over a quarter of a second is listed at the end of the run unless it is
marked `slow`. It does not fail: the machine may have been busy. For the same reason a
slow test, or one with real processes, has ten minutes.

Tests that use Spark come first: one process runs them in one Spark while others run the
rest, and none is left with a long test at the end (`--dist=worksteal` in the Makefile).

No test depends on the environment that pytest is started in (support/environment.py).

`--build=compiled` makes sure that the tests run on a compiled core.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import coterie
from coterie.wire.codec import COMPILED
from tests.support import hangs, kafka_python
from tests.support.compiled import Patches, make_states_copyable
from tests.support.environment import isolate

FACTS_FILE = Path(__file__).parent.parent / "docs" / "facts.tsv"
UNIT_TEST_S_MAX = 0.25
SLOW_TEST_S_MAX = 600
PROCESS_TESTS = ("tests/real_clients/", "tests/crash/")

# Real clients share the two cores: a slow example must not fail.
settings.register_profile(
    "coterie",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# `make quick` checks a quarter of the usual examples; `make test` has them all.
settings.register_profile(
    "quick", parent=settings.get_profile("coterie"), max_examples=25
)
settings.load_profile("coterie")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--build",
        choices=("pure", "compiled"),
        help="fail at once when coterie is another build",
    )


def pytest_report_header() -> str:
    build = "compiled" if COMPILED else "pure Python"
    return f"coterie: {build}, {Path(coterie.__file__).parent}"


# Last, because pytest's own reporter has the colors that the user wants.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--build") == ("pure" if COMPILED else "compiled"):
        raise pytest.UsageError(pytest_report_header())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SlowTests(), "slow-tests")
        home = tempfile.TemporaryDirectory(prefix="coterie-home-")
        config.add_cleanup(home.cleanup)
        isolate(os.environ, home.name)  # xdist's workers inherit it
    hangs.register(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    # Shells start background jobs, and those their children, with SIGINT ignored, and
    # Spark replaces the handler for the rest of its process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kafka_python.keep_sockets()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    kafka_python.close_sockets()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = known_facts()
    items.sort(key=lambda item: not shares_spark(item))
    if COMPILED:
        make_states_copyable()
    for item in items:
        if COMPILED and item.get_closest_marker("pure"):
            item.add_marker(pytest.mark.skip("replaces what compiled code has bound"))
        if is_slow(item) or item.nodeid.startswith(PROCESS_TESTS):
            allow_ten_minutes(item)
        ids = marked_facts(item)
        if unknown := [fact for fact in ids if fact not in known]:
            raise pytest.UsageError(
                f"{item.nodeid}: docs/facts.tsv has no fact {', '.join(unknown)}"
            )


def is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None


def shares_spark(item: pytest.Item) -> bool:
    """Return whether a test needs what tests with Spark make once for each process."""
    needed = set(getattr(item, "fixturenames", ()))
    return bool({"spark", "whole"} & needed)


def allow_ten_minutes(item: pytest.Item) -> None:
    """Raise a shorter time-out, which a busy machine may reach."""
    if hangs.time_limit_s(item) < SLOW_TEST_S_MAX:
        item.add_marker(pytest.mark.timeout(SLOW_TEST_S_MAX), append=False)


def known_facts() -> frozenset[str]:
    lines = FACTS_FILE.read_text(encoding="utf-8").splitlines()[1:]
    return frozenset(line.partition("\t")[0] for line in lines)


def marked_facts(item: pytest.Item) -> list[str]:
    marks: Iterable[pytest.Mark] = item.iter_markers("fact")
    return sorted({fact for mark in marks for fact in mark.args})


class SlowTests:
    """Lists unit tests that took long and are not marked slow."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        unit = not report.nodeid.startswith(PROCESS_TESTS)
        slow = report.duration > UNIT_TEST_S_MAX and "slow" not in report.keywords
        if unit and slow and report.when == "call":
            self._seconds[report.nodeid] = report.duration

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        if self._seconds:
            title = f"unit tests over {UNIT_TEST_S_MAX} s: make them quick or mark slow"
            terminalreporter.section(title)
        for test, seconds in sorted(self._seconds.items()):
            terminalreporter.write_line(f"{seconds:6.2f} s  {test}")


if COMPILED:

    @pytest.fixture
    def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
        patches = Patches()
        yield patches
        patches.undo()
