"""The known failures of suites: tests/ecosystem/known.tsv, and a run compared with it.

Each row has the suite, the test's id, when it fails, and the reason:

- `always`: it must fail; when it passes, the row is out of date and the run fails.
- `sometimes`: it fails in some runs, here and on Apache Kafka or by the suite's own
  clock; either outcome is as expected.
- `cannot run`: it is left out of the run.

A test that ends with `*` stands for every test whose id starts with the text before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.ecosystem.results import Outcome

KNOWN: Final = Path(__file__).with_name("known.tsv")
ALWAYS: Final = "always"
SOMETIMES: Final = "sometimes"
CANNOT_RUN: Final = "cannot run"
_WHENS: Final = (ALWAYS, SOMETIMES, CANNOT_RUN)
_HEADER: Final = "suite\ttest\tfails\treason"


class Known(NamedTuple):
    """A test of a suite that fails or cannot run, and the reason."""

    suite: str
    test: str
    when: str
    reason: str

    def matches(self, name: str) -> bool:
        """Return whether the row stands for a test."""
        if self.test.endswith("*"):
            return name.startswith(self.test[:-1])
        return name == self.test


class Verdict(NamedTuple):
    """A run's outcomes, with the known failures apart."""

    passed: int
    skipped: int
    as_known: Sequence[str]
    """Tests that failed and are listed."""
    unknown: Sequence[str]
    """Tests that failed and are not listed."""
    out_of_date: Sequence[str]
    """Listed tests that must fail and did not."""
    cannot_run: int

    @property
    def is_expected(self) -> bool:
        """Return whether tests ran, and exactly the listed ones failed."""
        return bool(self.passed) and not self.unknown and not self.out_of_date


def read_known(text: str) -> list[Known]:
    """Read the rows of known.tsv.

    Raises:
        ValueError: a line is no row, or a test has two.
    """
    header, *lines = text.splitlines()
    if header != _HEADER:
        raise ValueError(f"the first line is {header!r}, not {_HEADER!r}")
    rows = []
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != 4 or not all(cells) or cells[2] not in _WHENS:
            raise ValueError(f"line {number} is no row of {_HEADER!r}: {line!r}")
        rows.append(Known(*cells))
    keys = [(row.suite, row.test) for row in rows]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"listed twice: {twice}")
    return rows


def judge(outcomes: Mapping[str, Outcome], rows: Iterable[Known]) -> Verdict:
    """Compare the outcomes of a suite with its rows."""
    rows = list(rows)
    failures = [row for row in rows if row.when != CANNOT_RUN]
    failed = sorted(
        name for name, outcome in outcomes.items() if outcome is Outcome.FAILED
    )
    listed = [name for name in failed if any(row.matches(name) for row in failures)]
    found = list(outcomes.values())
    return Verdict(
        passed=found.count(Outcome.PASSED),
        skipped=found.count(Outcome.SKIPPED),
        as_known=listed,
        unknown=[name for name in failed if name not in listed],
        out_of_date=list(_out_of_date(failures, failed)),
        cannot_run=sum(row.when == CANNOT_RUN for row in rows),
    )


def _out_of_date(rows: Iterable[Known], failed: Sequence[str]) -> Iterator[str]:
    for row in rows:
        if row.when == ALWAYS and not any(row.matches(name) for name in failed):
            yield row.test
