"""Run test suites of other projects against `coterie serve`: `make ecosystem`.

    python -m tests.ecosystem FOLDER                    all that registries have
    python -m tests.ecosystem FOLDER kafka-go kombu     these
    python -m tests.ecosystem FOLDER --checkout NAME=PATH ...   NAME's tests in a clone
    python -m tests.ecosystem FOLDER --kafka JARS NAME  on Apache Kafka, to compare
    python -m tests.ecosystem FOLDER --list             the suites and their versions

Each suite is fetched into FOLDER, and has servers of its own with data in memory. The
exit code is 0 if in every suite exactly those tests failed that
tests/ecosystem/known.tsv lists. docs/peer-suites.md has the results.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.ecosystem.known import KNOWN, Known, Verdict, judge, read_known
from tests.ecosystem.runs import run_suite
from tests.ecosystem.sources import Unavailable
from tests.ecosystem.suites import SUITES, Checkout
from tests.interop.kafka import Unavailable as KafkaUnavailable

_COLUMNS: Final = "{:<16} {:<10} {:>6} {:>6} {:>6} {:>10} {:>7} {:>6}  {}"


def main(words: Sequence[str]) -> int:
    """Run the suites; return the exit code."""
    arguments = _parser().parse_args(words)
    checkouts = dict(arguments.checkout)
    if arguments.list:
        for name, suite in SUITES.items():
            cloned = isinstance(suite.source, Checkout)
            where = "--checkout" if cloned else "registry"
            sys.stdout.write(f"{name:<16} {suite.source.version:<10} {where}\n")
        return 0
    names = arguments.names or [
        name
        for name, suite in SUITES.items()
        if name in checkouts or not isinstance(suite.source, Checkout)
    ]
    known = read_known(KNOWN.read_text(encoding="utf-8"))
    lines = [
        _COLUMNS.format(
            "suite",
            "version",
            "passed",
            "failed",
            "known",
            "cannot run",
            "skipped",
            "time",
            "",
        )
    ]
    details: list[str] = []
    are_expected = True
    for name in names:
        rows = [row for row in known if row.suite == name]
        begin = time.monotonic()
        suite = SUITES[name]
        version = suite.source.version
        try:
            outcomes = run_suite(
                suite,
                (arguments.folder / name).absolute(),
                checkout=checkouts.get(name),
                kafka=arguments.kafka and arguments.kafka.absolute(),
                rows=rows,
                say=partial(_say_of, name),
            )
        except (Unavailable, KafkaUnavailable) as reason:
            are_expected = False
            lines.append(f"{name:<16} {version:<10} not run")
            details.append(f"{name} was not run: {reason}")
            continue
        verdict = judge(outcomes, rows)
        are_expected &= verdict.is_expected
        line = row_of(name, version, verdict, time.monotonic() - begin)
        lines.append(line)
        _say(line)
        details += details_of(name, verdict, rows)
    _say("\n".join(["", *details, "", *lines]))
    return 0 if are_expected else 1


def row_of(name: str, version: str, verdict: Verdict, took_s: float) -> str:
    """Return a suite's row of the table."""
    return _COLUMNS.format(
        name,
        version,
        verdict.passed,
        len(verdict.unknown),
        len(verdict.as_known),
        verdict.cannot_run,
        verdict.skipped,
        f"{took_s:.0f} s",
        "as listed" if verdict.is_expected else "NOT as listed",
    )


def details_of(name: str, verdict: Verdict, rows: Sequence[Known]) -> list[str]:
    """Return a line for each failed test, and for each row that is out of date."""
    reasons = {
        test: next(row.reason for row in rows if row.matches(test))
        for test in verdict.as_known
    }
    return [
        *(f"{name}: known: {test}: {reasons[test]}" for test in verdict.as_known),
        *(f"{name}: FAILED, not listed: {test}" for test in verdict.unknown),
        *(f"{name}: LISTED, did not fail: {test}" for test in verdict.out_of_date),
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.ecosystem")
    parser.add_argument("folder", type=Path, help="where suites are put")
    parser.add_argument("names", nargs="*", metavar="SUITE", help="suites to run")
    parser.add_argument(
        "--checkout",
        action="append",
        type=_checkout,
        default=[],
        metavar="SUITE=PATH",
        help="clone of a suite that no registry has",
    )
    parser.add_argument(
        "--kafka",
        type=Path,
        metavar="JARS",
        help="run on Apache Kafka instead; folder of its jars, fetched when empty",
    )
    parser.add_argument(
        "--list", action="store_true", help="list the suites and their versions"
    )
    return parser


def _checkout(text: str) -> tuple[str, Path]:
    name, separator, path = text.partition("=")
    if not separator or name not in SUITES or not Path(path).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not SUITE=FOLDER")
    return name, Path(path).absolute()


def _say_of(name: str, text: str) -> None:
    _say(f"{name}: {text}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
