"""Find the tests that run each line of src."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import coverage

from mutation.operators import Mutant
from mutation.sandbox import own_sandbox

COVERAGE_S: Final = 1_800.0
FAILED_MAX: Final = 5


class CoverageRecorder:
    """A pytest plugin: records which tests run each line, and what they take.

    Tests that are marked `slow` run only in the folders of `also_slow`.
    """

    def __init__(self, source: Path, also_slow: Sequence[str]) -> None:
        self._also_slow = tuple(also_slow)
        self._coverage = coverage.Coverage(
            data_file=None, source=[str(source)], branch=False, config_file=False
        )
        self._source = source
        self._seconds: dict[str, float] = {}
        self._failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [
            item
            for item in items
            if item.get_closest_marker("slow") is None
            or item.nodeid.startswith(self._also_slow)
        ]

    def pytest_sessionstart(self) -> None:
        self._coverage.start()

    def pytest_runtest_setup(self, item: Any) -> None:
        self._coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        before = self._seconds.get(report.nodeid, 0.0)
        self._seconds[report.nodeid] = round(before + report.duration, 4)
        if report.outcome == "failed":
            self._failed.append(report.nodeid)

    def result(self) -> Any:
        """Return the tests of each line of each file, by their numbers."""
        self._coverage.stop()
        data = self._coverage.get_data()
        tests = sorted(self._seconds)
        numbers = {test: number for number, test in enumerate(tests)}
        lines: dict[str, dict[str, list[int]]] = {}
        for file in data.measured_files():
            name = Path(file).relative_to(self._source).as_posix()
            lines[f"src/{name}"] = {
                str(line): [numbers[test] for test in contexts if test in numbers]
                for line, contexts in data.contexts_by_lineno(file).items()
            }
        return {
            "tests": tests,
            "seconds": [self._seconds[test] for test in tests],
            "lines": lines,
            "failed": self._failed,
        }


class Coverage(NamedTuple):
    """The tests that run each line, by file and line, and what each test takes."""

    lines: Mapping[str, Mapping[int, frozenset[str]]]
    seconds: Mapping[str, float]

    def tests_of(self, mutant: Mutant) -> frozenset[str]:
        """Return the tests that run the place of a mutant.

        A place that runs at import counts as run by all tests of its file.
        """
        lines = self.lines.get(mutant.path, {})
        if mutant.at_import:
            return frozenset().union(*lines.values())
        return lines.get(mutant.line) or lines.get(mutant.statement, frozenset())


def measure(folders: Sequence[str], mirrored: Sequence[str]) -> Coverage:
    """Run the tests in folders and return their coverage; in a process of the pool.

    A test that fails, as a few do when coverage makes them slow, runs on no mutant.

    Raises:
        RuntimeError: More than `FAILED_MAX` tests fail without a mutant.
    """
    sandbox = own_sandbox()
    plugin = CoverageRecorder(sandbox.source, mirrored)
    ended = sandbox.pytest([*folders], plugin, COVERAGE_S)
    if ended is None:
        raise RuntimeError(f"the tests of {', '.join(folders)} took too long")
    _, result, output = ended
    failed = frozenset(result["failed"])
    if len(failed) > FAILED_MAX or not result["tests"]:
        raise RuntimeError(f"tests fail without a mutant: {output}")
    tests: list[str] = result["tests"]
    lines = {
        path: {
            int(line): _names(tests, numbers) - failed
            for line, numbers in of_file.items()
        }
        for path, of_file in result["lines"].items()
    }
    return Coverage(lines, dict(zip(tests, result["seconds"], strict=True)))


def _names(tests: Sequence[str], numbers: Iterable[int]) -> frozenset[str]:
    return frozenset(tests[number] for number in numbers)
