"""Write docs/conformance.md: each fact of docs/facts.tsv and the tests that prove it.

A fact is `proven` when at least one test carries its mark and every such test passed, a
`deviation` when docs/deviations.tsv gives the reason why we knowingly differ, and `not
yet` otherwise. A deviation with a marked test is an error: the mark or the deviation is
wrong.

The page counts facts by area and by section; docs/conformance/ has one page of rows for
each letter of the fact list. `make conformance` writes all of them from the outcomes of
`pytest --fact-results=FILE`. `make test` ends with `--check`, which compares only the
status of each fact: renaming or adding a test does not make a page stale, a changed
status does. Facts with a skipped test (kcat is not installed, for example) are left out
of that comparison.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).parent.parent
FACTS: Final = ROOT / "docs" / "facts.tsv"
DEVIATIONS: Final = ROOT / "docs" / "deviations.tsv"
PAGE: Final = ROOT / "docs" / "conformance.md"
ROWS: Final = ROOT / "docs" / "conformance"
RESULTS: Final = ROOT / "build" / "facts.json"

PROVEN: Final = "proven"
DEVIATION: Final = "deviation"
NOT_YET: Final = "not yet"
CLASSIC_RECORDS: Final = frozenset(
    {"E22-01", "E22-02", "E22-04", "E22-05", "E22-06", "E22-32", "E22-46", "E22-47"}
)
TESTS_SHOWN_MAX: Final = 3
SENTENCES_MAX: Final = 20

Outcomes: TypeAlias = Mapping[str, Mapping[str, str]]
"""The outcome of each test that carries a fact's mark, by fact and test."""


class ConformanceError(Exception):
    """Contradictory inputs; the message names the line to change."""


class Fact(NamedTuple):
    """One row of docs/facts.tsv. `layer` is a letter, or - where the row has none.

    `checked` is the Kafka version that the statement was compared with, `source` the
    place where that version does so; both are - for a row that nobody compared.
    """

    id: str
    section: str
    layer: str
    statement: str
    checked: str
    source: str

    @property
    def section_number(self) -> str:
        """The number before the title: A.3, E22.1."""
        return self.section.partition(" ")[0].rstrip(".")

    @property
    def letter(self) -> str:
        """The letter of the fact list's part with the row, A to K."""
        return self.id[0]


class Area(NamedTuple):
    """A named group of facts, by section numbers and optionally by ids."""

    name: str
    sections: str
    only: frozenset[str] = frozenset()

    def holds(self, fact: Fact) -> bool:
        """Return whether a fact belongs to the area."""
        if not re.fullmatch(self.sections, fact.section_number):
            return False
        return not self.only or fact.id in self.only


AREAS: Final = (
    Area("A KIP-88, OffsetFetch", r"A\.\d+"),
    Area("A.6, A.7 its client and tool", r"A\.[67]"),
    Area("B KIP-699, FindCoordinator in batches", r"B\.\d+"),
    Area("C KIP-181, DescribeGroups, and the tool", r"C\.\d+"),
    Area("D KIP-229, DeleteGroups, and OffsetDelete", r"D\.\d+"),
    Area("E KIP-848, all of E1 to E31", r"E\d+.*"),
    Area("E19 classic groups", r"E19"),
    Area("E27 to E29 rights, lists, admin client and tool", r"E2[789]"),
    Area("E22 records of types 0 to 2", r"E22\.\d", only=CLASSIC_RECORDS),
    Area("G what real clients need", r"G\.\d"),
    Area("H edge cases of Kafka's own tests", r"H\.\d+"),
    Area("H.4 to H.7 edge cases", r"H\.[4-7]"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a page: a fact, its status, and the tests or the reason."""

    fact: Fact
    status: str
    evidence: str


def read_facts(text: str) -> tuple[Fact, ...]:
    """Parse the rows of facts.tsv below its heading."""
    return tuple(Fact(*line.split("\t")) for line in text.splitlines()[1:])


def read_deviations(text: str) -> dict[str, str]:
    """Parse deviations.tsv; return the reason for each fact that Coterie does not
    follow.
    """
    lines = (line.partition("\t") for line in text.splitlines()[1:] if line)
    return {fact: reason.strip() for fact, _, reason in lines}


def judge(
    facts: Sequence[Fact], outcomes: Outcomes, deviations: Mapping[str, str]
) -> tuple[Row, ...]:
    """Return the status of each fact.

    Raises:
        ConformanceError: An id is not in the fact list, or tests prove a deviation.
    """
    known = {fact.id for fact in facts}
    for name, ids in (("a fact mark", outcomes), ("docs/deviations.tsv", deviations)):
        if unknown := sorted(set(ids) - known):
            raise ConformanceError(
                f"{name} names {', '.join(unknown)}: docs/facts.tsv has no such row"
            )
    rows = tuple(judge_one(fact, outcomes, deviations) for fact in facts)
    for row in rows:
        if row.status == PROVEN and row.fact.id in deviations:
            raise ConformanceError(
                f"{row.fact.id} is proven by {row.evidence}: take it out of "
                "docs/deviations.tsv, or take the mark off those tests"
            )
    return rows


def judge_one(fact: Fact, outcomes: Outcomes, deviations: Mapping[str, str]) -> Row:
    """Return the status of one fact; failed and skipped tests prove nothing."""
    tests = outcomes.get(fact.id, {})
    if tests and all(outcome == "passed" for outcome in tests.values()):
        return Row(fact, PROVEN, shown(tests))
    if fact.id in deviations:
        return Row(fact, DEVIATION, deviations[fact.id])
    return Row(fact, NOT_YET, shown(tests) if tests else "")


def shown(tests: Iterable[str]) -> str:
    """Return up to three test names, without their parameters."""
    names = sorted({test.partition("[")[0].removeprefix("tests/") for test in tests})
    first = ", ".join(f"`{name}`" for name in names[:TESTS_SHOWN_MAX])
    more = len(names) - TESTS_SHOWN_MAX
    return f"{first} and {more} more" if more > 0 else first


def render(rows: Sequence[Row]) -> str:
    """Return the page of counts."""
    return "\n".join((*heading(rows), *areas(rows), *summary(rows), ""))


def heading(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the introduction and the totals."""
    counts = Counter(row.status for row in rows)
    yield "# Conformance"
    yield ""
    yield "Written by `make conformance` from the `fact` marks of the tests and their"
    yield "outcomes; do not edit. A fact is one checkable statement about Kafka's group"
    yield "coordinator, its clients and tools, from KIP-88, KIP-181, KIP-229, KIP-699,"
    yield "KIP-848 and Apache Kafka 4.x as shipped. `docs/deviations.tsv` gives the"
    yield "reasons for deviations, `docs/facts.tsv` the layer of each fact: W wire, S"
    yield "server, R records, C client, L command line."
    yield ""
    total = f"{len(rows)} facts: {counts[PROVEN]} proven"
    yield f"**{total}, {counts[DEVIATION]} deviations, {counts[NOT_YET]} not yet.**"
    yield ""
    letters = sorted({row.fact.letter for row in rows})
    links = ", ".join(f"[{each}](conformance/{each}.md)" for each in letters)
    yield f"Every fact with its tests, by the letter of its id: {links}."
    yield ""


def areas(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the counts of each area."""
    yield "## By area"
    yield ""
    yield from count_heading("area")
    for area in AREAS:
        yield count_line(area.name, [row for row in rows if area.holds(row.fact)])
    yield ""


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the counts of each section, in the order of the facts."""
    yield "## By section"
    yield ""
    yield from count_heading("section")
    for section, members in groupby(rows, key=lambda row: row.fact.section):
        yield count_line(section, list(members))
    yield ""


def count_heading(first: str) -> tuple[str, str]:
    """Return the header lines of a table of counts."""
    return (
        f"| {first} | facts | proven | deviation | not yet |",
        "|---|--:|--:|--:|--:|",
    )


def count_line(name: str, rows: Sequence[Row]) -> str:
    """Return how many facts of an area or section have each status, as a row."""
    counts = Counter(row.status for row in rows)
    share = round(100 * counts[PROVEN] / len(rows)) if rows else 0
    return (
        f"| {cell(name)} | {len(rows)} | {counts[PROVEN]} ({share} %) "
        f"| {counts[DEVIATION]} | {counts[NOT_YET]} |"
    )


def render_rows(letter: str, rows: Sequence[Row]) -> str:
    """Return the page of one letter's facts, a table for each section."""
    lines = [f"# Conformance: facts {letter}", ""]
    lines += [
        "Written by `make conformance`; do not edit. Counts and the meaning of the"
    ]
    lines += ["columns are in [conformance.md](../conformance.md).", ""]
    chosen = [row for row in rows if row.fact.letter == letter]
    for section, members in groupby(chosen, key=lambda row: row.fact.section):
        lines += [f"## {section}", ""]
        lines += ["| id | statement | proven, deviation or not yet | tests or reason |"]
        lines += ["|---|---|---|---|"]
        for row in members:
            statement, evidence = cell(row.fact.statement), cell(row.evidence)
            lines += [f"| {row.fact.id} | {statement} | {row.status} | {evidence} |"]
        lines += [""]
    return "\n".join(lines)


def write_pages(rows: Sequence[Row]) -> None:
    """Write the page of counts and the pages of rows."""
    ROWS.mkdir(exist_ok=True)
    PAGE.write_text(render(rows), encoding="utf-8")
    for letter in {row.fact.letter for row in rows}:
        text = render_rows(letter, rows)
        (ROWS / f"{letter}.md").write_text(text, encoding="utf-8")


def cell(text: str) -> str:
    """Escape text for a cell of a table."""
    return text.replace("|", "\\|")


def statuses(pages: str) -> dict[str, str]:
    """Parse the status of each fact from the text of written pages."""
    lines = (re.split(r"(?<!\\)\|", line) for line in pages.splitlines())
    wide = (cells for cells in lines if len(cells) == 6)
    return {
        cells[1].strip(): cells[3].strip()
        for cells in wide
        if cells[3].strip() in {PROVEN, DEVIATION, NOT_YET}
    }


def stale(pages: str, rows: Sequence[Row], outcomes: Outcomes) -> tuple[str, ...]:
    """Return one sentence for each fact whose written status is out of date."""
    written = statuses(pages)
    unsettled = {
        fact for fact, tests in outcomes.items() if "skipped" in tests.values()
    }
    return tuple(
        f"{row.fact.id}: the page says {written.get(row.fact.id, 'nothing')}, "
        f"the tests say {row.status}"
        for row in rows
        if written.get(row.fact.id) != row.status and row.fact.id not in unsettled
    )


def missing(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the facts of all areas that are not yet proven, one fact per line."""
    for row in rows:
        if row.status == NOT_YET and any(area.holds(row.fact) for area in AREAS):
            yield f"{row.fact.id}\t{row.fact.statement}"


def check(rows: Sequence[Row], outcomes: Outcomes) -> int:
    """Compare the pages with the outcomes; return the exit code."""
    if not PAGE.exists():
        print("docs/conformance.md does not exist: run `make conformance`.")
        return 1
    pages = [path.read_text(encoding="utf-8") for path in sorted(ROWS.glob("*.md"))]
    sentences = stale("\n".join(pages), rows, outcomes)
    print("\n".join(sentences[:SENTENCES_MAX]), end="\n" if sentences else "")
    if sentences:
        print(f"docs/conformance.md is out of date on {len(sentences)} facts: run")
        print("`make conformance`, review what changed, and commit it.")
    return bool(sentences)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the pages; return 0 if they are up to date, 1 if stale, 2 for
    invalid inputs.
    """
    parser = argparse.ArgumentParser(prog="tools.conformance", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare the statuses without writing pages",
    )
    parser.add_argument(
        "--missing", action="store_true", help="list the facts that are not yet proven"
    )
    options = parser.parse_args(arguments)
    outcomes = json.loads(options.results.read_text(encoding="utf-8"))
    try:
        rows = judge(
            read_facts(FACTS.read_text(encoding="utf-8")),
            outcomes,
            read_deviations(DEVIATIONS.read_text(encoding="utf-8")),
        )
    except ConformanceError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    if options.check:
        return check(rows, outcomes)
    if options.missing:
        print("\n".join(missing(rows)))
        return 0
    write_pages(rows)
    print("\n".join(areas(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
