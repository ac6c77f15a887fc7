"""Run the fault suite at full depth: `make faults`.

Runs the crash tests with more kills, faults and tears than `make test` does, with a
progress bar, and prints a table of what was injected. Exits with 1 when a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

FOLDER = Path(__file__).parent
_OUTCOME = re.compile(r"\b(PASSED|FAILED|ERROR|SKIPPED)\b")


@dataclass
class Scenario:
    """A file of tests, with the settings of its depth."""

    name: str
    file: str
    depth: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    figures: Counter[str] = field(default_factory=Counter)
    """What the tests injected and wrote, as their properties say."""
    output: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all tests passed, or were skipped."""
        bad = self.outcomes["FAILED"] + self.outcomes["ERROR"]
        return bool(self.outcomes.total()) and not bad


def scenarios(kills: int, calls: int, tears: int) -> list[Scenario]:
    """Return all scenarios; `calls` and `tears` are distances, 1 for every place."""
    return [
        Scenario(
            "SIGKILL under load", "test_kill.py", {"COTERIE_TEST_KILLS": str(kills)}
        ),
        Scenario("crash after compaction", "test_compaction.py"),
        Scenario("EIO and ENOSPC at each call", "test_disk_faults.py"),
        Scenario("full disk", "test_full_disk.py"),
        Scenario(
            "SIGKILL at each call",
            "test_kill_at_calls.py",
            {"COTERIE_TEST_KILL_STRIDE": str(calls)},
        ),
        Scenario(
            "torn files",
            "test_torn_journal.py",
            {"COTERIE_TEST_TEAR_STRIDE": str(tears)},
        ),
        Scenario("SIGSTOP", "test_pause.py"),
        Scenario("many and slow clients", "test_many_clients.py"),
        Scenario("system time changes", "test_system_time.py"),
    ]


def run(scenario: Scenario, jobs: int) -> Iterator[str]:
    """Run a scenario; yield the outcome of each test when it ends."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [sys.executable, "-m", "pytest", "-v", "-n", str(jobs)]
        command += ["-p", "no:randomly", "-o", "junit_family=xunit1"]
        command += [f"--junitxml={report.name}", str(FOLDER / scenario.file)]
        began = time.monotonic()
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | scenario.depth,
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    scenario.output.append(line)
                    if "::" in line and (found := _OUTCOME.search(line)):
                        yield found[0]
            finally:
                process.terminate()
        scenario.seconds = time.monotonic() - began
        _read_report(scenario, Path(report.name))


def _read_report(scenario: Scenario, path: Path) -> None:
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError:
        scenario.outcomes["ERROR"] += 1  # pytest did not come to its end
        return
    for case in root.iter("testcase"):
        kinds = {child.tag for child in case}
        bad = kinds & {"failure", "error"}
        scenario.outcomes[
            "FAILED" if bad else "SKIPPED" if "skipped" in kinds else "PASSED"
        ] += 1
        for each in case.iter("property"):
            value = each.get("value", "")
            if value.isdecimal():
                scenario.figures[each.get("name", "")] += int(value)


def table(done: list[Scenario]) -> Table:
    """Return the table of the scenarios and what they injected."""
    made = Table(box=None, pad_edge=False)
    for column in ("scenario", "tests", "verdict", "seconds", "injected"):
        made.add_column(column)
    for each in done:
        skipped = each.outcomes["SKIPPED"]
        verdict = "[green]held[/]" if each.is_good else "[bold red]FAILED[/]"
        if skipped:
            verdict += f" [yellow]({skipped} skipped)[/]"
        figures = ", ".join(f"{value:,} {name}" for name, value in each.figures.items())
        tests = str(each.outcomes.total())
        made.add_row(each.name, tests, verdict, f"{each.seconds:.0f}", figures)
    return made


def main() -> int:
    """Run the scenarios of a command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="number of SIGKILLs")
    parser.add_argument(
        "--calls", type=int, default=7, help="distance of two calls with a SIGKILL"
    )
    parser.add_argument(
        "--tears", type=int, default=1, help="distance of two tears in bytes"
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of test processes")
    parser.add_argument("name", nargs="*", help="words of scenarios (default: all)")
    options = parser.parse_args()
    console = Console()
    chosen = [
        each
        for each in scenarios(options.kills, options.calls, options.tears)
        if not options.name or any(word in each.name for word in options.name)
    ]
    with Progress(
        TextColumn("{task.description:36}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
        whole = progress.add_task("all scenarios", total=len(chosen))
        for each in chosen:
            task = progress.add_task(each.name, total=None)
            for _ in run(each, options.jobs):
                progress.advance(task)
            count = each.outcomes.total()
            progress.update(task, total=count, completed=count)
            progress.advance(whole)
    for each in chosen:
        if not each.is_good:
            console.out("".join(each.output[-80:]), highlight=False)
    console.print(table(chosen))
    return 0 if all(each.is_good for each in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
