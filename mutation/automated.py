"""`python -m mutation.automated`: draw mutants of packages, and run tests on them.

Mutants are drawn by a seed among all that the operators make on lines that tests run.
The tests of a line run in this order: those that mirror the file, the rest of the
package's, scenarios and server; worlds of the simulation follow for what survives. The
known equivalent mutants are in mutation/equivalent.tsv, with the reason.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from mutation.covered import Coverage, measure
from mutation.figures import Counts, write_figures
from mutation.operators import Mutant, compiles, mutants_of
from mutation.sandbox import ROOT, Edit, each_done, own_sandbox, pool_of_sandboxes

KILLED: Final = "killed"
SURVIVED: Final = "survived"
EQUIVALENT: Final = "equivalent"

EQUIVALENTS: Final = ROOT / "mutation" / "equivalent.tsv"
TESTS_S_MAX: Final = 40.0
"""Seconds of tests, without a mutant, that run on one mutant."""
SLOWER_MAX: Final = 6
LIMIT_S: Final = 40.0
"""The least time for the tests of a mutant; one that takes longer counts as killed."""
WORLDS_S: Final = 120.0


class Package(NamedTuple):
    """A package of src/coterie with the folders of its tests, those that mirror it
    first, and the number of simulated worlds for what survives them.
    """

    name: str
    tests: tuple[str, ...]
    worlds: int = 0


PACKAGES: Final = (
    Package(
        "broker/coordinator",
        ("tests/broker/coordinator", "tests/scenarios", "tests/broker/server/apis"),
        worlds=60,
    ),
    Package(
        "broker/runtime", ("tests/broker/runtime", "tests/broker/server"), worlds=60
    ),
    Package("broker/log", ("tests/broker/log", "tests/broker/runtime"), worlds=30),
    Package("operations", ("tests/operations", "tests/cli")),
)


class MutantResult(NamedTuple):
    """The result for a mutant, and the test or the reason."""

    mutant: Mutant
    status: str
    detail: str
    tests: int = 0


class MutantRun(NamedTuple):
    """A mutant of a text, the tests to run on it, and their durations without it."""

    mutant: Mutant
    text: str
    tests: tuple[str, ...]
    seconds: Mapping[str, float]
    worlds: int

    def run(self) -> tuple[str, str]:
        """Run tests and worlds on the mutant; in a process of the pool."""
        edit = Edit(self.mutant.path, self.mutant.apply(self.text))
        if not compiles(edit.text):
            return KILLED, "not valid Python"
        usual = sum(self.seconds[test] for test in self.tests)
        report = own_sandbox().run_tests(
            self.tests,
            edit=edit,
            limit_s=LIMIT_S + SLOWER_MAX * usual,
            order={test: number for number, test in enumerate(self.tests)},
            timeout_s=10 + SLOWER_MAX * max(map(self.seconds.__getitem__, self.tests)),
        )
        if not report.passed:
            return KILLED, (*report.failed, "time limit or import")[0]
        if self.worlds and (broken := _broken_world(edit, self.worlds)):
            return KILLED, broken
        return SURVIVED, ""


def _broken_world(edit: Edit, worlds: int) -> str:
    """Return how a simulated world shows a mutant; "" when none does."""
    sandbox = own_sandbox()
    command = ["-m", "sim", "--seeds", f"1-{worlds}", "--until-broken"]
    with sandbox.changed(edit):
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                [sys.executable, *command],
                cwd=ROOT,
                env=sandbox.environment(),
                check=False,
                capture_output=True,
                text=True,
                timeout=WORLDS_S,
            )
        except subprocess.TimeoutExpired:
            return "simulation: time limit"
    lines = [line for line in done.stdout.splitlines() if "BROKEN" in line]
    if done.returncode:
        return f"simulation: {lines[0] if lines else done.stderr[-200:]}"
    return ""


class Equivalent(NamedTuple):
    """A mutant that behaves as the source does, and why."""

    path: str
    within: str
    old: str
    new: str
    reason: str


def read_equivalents(text: str) -> dict[tuple[str, str, str, str], str]:
    """Parse equivalent.tsv; return the reason of each mutant."""
    rows = (Equivalent(*line.split("\t")) for line in text.splitlines()[1:] if line)
    return {(row.path, row.within, row.old, row.new): row.reason for row in rows}


def key_of(mutant: Mutant) -> tuple[str, str, str, str]:
    """Return what identifies a mutant when line numbers move."""
    return mutant.path, mutant.within, mutant.old, mutant.new


def draw(package: Package, count: int, seed: int, covered: Coverage) -> list[Mutant]:
    """Draw mutants of a package at random, among those on lines that tests run."""
    made: list[Mutant] = []
    for path in sorted((ROOT / "src/coterie" / package.name).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        made += mutants_of(name, path.read_text(encoding="utf-8"))
    known = [mutant for mutant in made if covered.tests_of(mutant)]
    chance = random.Random(f"{seed} {package.name}")  # noqa: S311 - no secret
    return sorted(chance.sample(known, min(count, len(known))))


def choose_tests(
    mutant: Mutant, package: Package, covered: Coverage
) -> tuple[str, ...]:
    """Return the tests that run the place of a mutant: those of its file first, then
    the package's, then the others; the fastest first; up to `TESTS_S_MAX` seconds.
    """
    stem = Path(mutant.path).stem
    folders = package.tests

    def rank(test: str) -> tuple[int, float]:
        file = Path(test.partition("::")[0])
        own = stem in file.stem or stem == file.parent.name
        place = next(at for at, name in enumerate(folders) if test.startswith(name))
        return (0 if own and place == 0 else place + 1), covered.seconds[test]

    chosen: list[str] = []
    seconds = 0.0
    for test in sorted(covered.tests_of(mutant), key=rank):
        seconds += covered.seconds[test]
        if seconds > TESTS_S_MAX and chosen:
            break
        chosen.append(test)
    return tuple(chosen)


def run_package(
    package: Package,
    mutants: Sequence[Mutant],
    covered: Coverage,
    pool: ProcessPoolExecutor,
    progress: Progress,
) -> list[MutantResult]:
    """Run the mutants of a package, and return their results in the order of lines."""
    equivalent = read_equivalents(EQUIVALENTS.read_text(encoding="utf-8"))
    results = []
    runs = []
    for mutant in mutants:
        if reason := equivalent.get(key_of(mutant)):
            results.append(MutantResult(mutant, EQUIVALENT, reason))
            continue
        tests = choose_tests(mutant, package, covered)
        seconds = {test: covered.seconds[test] for test in tests}
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        runs.append(MutantRun(mutant, text, tests, seconds, package.worlds))
    bar = progress.add_task(package.name, total=len(runs))
    for run, (status, detail) in each_done(pool, MutantRun.run, runs):
        results.append(MutantResult(run.mutant, status, detail, len(run.tests)))
        progress.advance(bar)
    return sorted(results)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 when fewer than 95 % of mutants are killed."""
    options = _arguments().parse_args(words)
    chosen = [
        each for each in PACKAGES if each.name in (options.package or [each.name])
    ]
    again = _survivors(options.again) if options.again else None
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results: dict[str, list[MutantResult]] = {}
    with (
        pool_of_sandboxes(options.jobs) as pool,
        Progress(TextColumn("{task.description:28}"), *columns) as progress,
    ):
        for package in chosen:
            task = progress.add_task(f"coverage of {package.name}", total=None)
            covered = pool.submit(measure, package.tests, package.tests[:1]).result()
            progress.update(task, total=1, completed=1)
            mutants = draw(package, options.count, options.seed, covered)
            if again is not None:
                mutants = [each for each in mutants if key_of(each) in again]
            found = run_package(package, mutants, covered, pool, progress)
            results[package.name] = found
    for found in results.values():
        _print_survivors(found)
    for name, found in results.items():
        print(_summary(name, found))
    if options.json is not None:
        _write_json(options.json, options.seed, results)
    if options.write:
        counts = {name: counts_of(found) for name, found in results.items()}
        write_figures(counts, options.seed)
    every = [result for found in results.values() for result in found]
    return 0 if share(every) >= 0.95 else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mutation.automated", description=__doc__
    )
    parser.add_argument(
        "package",
        nargs="*",
        help=f"packages (default: {', '.join(each.name for each in PACKAGES)})",
    )
    parser.add_argument("--count", type=int, default=100, help="mutants of a package")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    parser.add_argument(
        "--again",
        type=Path,
        help="file of --json; run only the mutants that survived in it",
    )
    parser.add_argument(
        "--write", action="store_true", help="write the figures to docs/mutants.tsv"
    )
    return parser


def _survivors(file: Path) -> set[tuple[str, str, str, str]]:
    found = json.loads(file.read_text(encoding="utf-8"))
    return {
        (each["path"], each["within"], each["old"], each["new"])
        for each in found["mutants"]
        if each["status"] == SURVIVED
    }


def share(results: Iterable[MutantResult]) -> float:
    """Return the share of mutants killed among those that are not equivalent."""
    counts = Counter(result.status for result in results)
    judged = counts[KILLED] + counts[SURVIVED]
    return counts[KILLED] / judged if judged else 1.0


def _print_survivors(results: Iterable[MutantResult]) -> None:
    for result in results:
        if result.status == SURVIVED:
            text = (ROOT / result.mutant.path).read_text(encoding="utf-8")
            print(f"{result.mutant.within}: {result.mutant.operator}, ", end="")
            print(f"{result.tests} tests pass")
            print(result.mutant.diff(text), end="\n\n")


def _summary(name: str, results: Sequence[MutantResult]) -> str:
    counts = Counter(result.status for result in results)
    return (
        f"{name}: {len(results)} mutants, {counts[KILLED]} killed, "
        f"{counts[EQUIVALENT]} equivalent, {counts[SURVIVED]} survived: "
        f"{100 * share(results):.1f} % killed"
    )


def _write_json(
    file: Path, seed: int, results: Mapping[str, Sequence[MutantResult]]
) -> None:
    mutants: list[dict[str, Any]] = [
        {
            "package": name,
            **{
                field: getattr(result.mutant, field) for field in Equivalent._fields[:4]
            },
            "operator": result.mutant.operator,
            "line": result.mutant.line,
            "status": result.status,
            "detail": result.detail,
        }
        for name, found in results.items()
        for result in found
    ]
    shares = {name: round(share(found), 4) for name, found in results.items()}
    content = {"seed": seed, "shares": shares, "mutants": mutants}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def counts_of(results: Sequence[MutantResult]) -> Counts:
    """Count the mutants of a package."""
    counts = Counter(result.status for result in results)
    return Counts(len(results), counts[KILLED], counts[EQUIVALENT])


if __name__ == "__main__":
    sys.exit(main())
