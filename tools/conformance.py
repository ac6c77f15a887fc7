"""Write docs/conformance.md: each fact of docs/facts.tsv and the tests that show it.

The status of a fact:
  - `proven`: a test with its mark passed on Apache Kafka (docs/kafka-runs.tsv), and all
    tests with its mark pass on Coterie;
  - `tested here`: all tests with its mark pass, and none is recorded on Kafka;
  - `different`: docs/deviations.tsv has the reason why Coterie differs;
  - `open`: none of these.
A fact of docs/deviations.tsv that has a test, or that a tested fact refers to, is an
error, and so is a deviation without a reason.

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
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from tools.kafka_runs import RUNS, Outcomes, Run, read_runs, test_name

ROOT: Final = Path(__file__).parent.parent
FACTS: Final = ROOT / "docs" / "facts.tsv"
DEVIATIONS: Final = ROOT / "docs" / "deviations.tsv"
PAGE: Final = ROOT / "docs" / "conformance.md"
ROWS: Final = ROOT / "docs" / "conformance"
RESULTS: Final = ROOT / "build" / "facts.json"

MUTANTS: Final = ROOT / "docs" / "mutants.tsv"
NAMED_MUTANTS: Final = ROOT / "mutation" / "facts"

PROVEN: Final = "proven"
TESTED: Final = "tested here"
DIFFERENT: Final = "different"
OPEN: Final = "open"
STATUSES: Final = (PROVEN, TESTED, DIFFERENT, OPEN)
UNCHECKED: Final = "-"
FACT_ID: Final = re.compile(r"\b[A-K]\d*-\d+[a-z]?\b")
COLUMNS: Final = (
    "id",
    "statement",
    "status",
    "compared with",
    "source",
    "mutant",
    "tests or reason",
)
CLASSIC_RECORDS: Final = frozenset(
    {
        "E22-01a",
        "E22-01b",
        "E22-02",
        "E22-04a",
        "E22-04b",
        "E22-05",
        "E22-06a",
        "E22-06b",
        "E22-06c",
        "E22-06d",
        "E22-06e",
        "E22-06f",
        "E22-32a",
        "E22-32b",
        "E22-32c",
        "E22-46",
        "E22-47a",
        "E22-47b",
    }
)
TESTS_SHOWN_MAX: Final = 3
SENTENCES_MAX: Final = 20


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
    kafka: str = ""
    """The version of the recorded run, of a proven fact."""


class Figure(NamedTuple):
    """One row of docs/mutants.tsv: mutants of a package, drawn by a seed."""

    package: str
    mutants: int
    killed: int
    equivalent: int
    seed: str
    date: str

    @property
    def share(self) -> str:
        """The share killed of the mutants that are not equivalent, in per cent."""
        different = self.mutants - self.equivalent
        return f"{100 * self.killed / different:.1f}" if different else UNCHECKED


class Mutants(NamedTuple):
    """The facts with a named mutant, and the figures of mutation runs."""

    named: frozenset[str]
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the statuses of facts are made of."""

    facts: tuple[Fact, ...]
    outcomes: Outcomes
    deviations: Mapping[str, str]
    runs: Mapping[str, Run]

    def is_current(self, run: Run, tests: Iterable[str]) -> bool:
        """Return whether a recorded test still has its mark.

        Tests that need Apache's tools did not run here: `make interop` checks them.
        """
        marked = {test_name(test) for test in tests}
        ran = {file_of(test) for each in self.outcomes.values() for test in each}
        return any(
            test in marked or file_of(f"tests/{test}") not in ran for test in run.tests
        )


def file_of(test: str) -> str:
    """Return the file of a test."""
    return test.partition("::")[0]


def read_facts(text: str) -> tuple[Fact, ...]:
    """Parse the rows of facts.tsv below its heading."""
    return tuple(Fact(*line.split("\t")) for line in text.splitlines()[1:])


def read_deviations(text: str) -> dict[str, str]:
    """Parse deviations.tsv; return the reason for each fact that Coterie does not
    follow.
    """
    lines = (line.partition("\t") for line in text.splitlines()[1:] if line)
    return {fact: reason.strip() for fact, _, reason in lines}


def read_mutants(figures: str, named: Iterable[str]) -> Mutants:
    """Parse docs/mutants.tsv and the files of named mutants."""
    rows = (line.split("\t") for line in figures.splitlines()[1:])
    tables = (ids for text in named for ids in tomllib.loads(text))
    return Mutants(
        frozenset(fact.strip() for ids in tables for fact in ids.split(",")),
        tuple(
            Figure(package, int(mutants), int(killed), int(equivalent), *last)
            for package, mutants, killed, equivalent, *last in rows
        ),
    )


def judge(inputs: Inputs) -> tuple[Row, ...]:
    """Return the status of each fact.

    Raises:
        ConformanceError: An id is not in the fact list, a deviation has no reason, or
            tests show a deviation or a fact that refers to one.
    """
    known = {fact.id for fact in inputs.facts}
    named = (
        ("a fact mark", inputs.outcomes),
        ("docs/deviations.tsv", inputs.deviations),
        ("docs/kafka-runs.tsv", inputs.runs),
    )
    for name, ids in named:
        if unknown := sorted(set(ids) - known):
            raise ConformanceError(
                f"{name} names {', '.join(unknown)}: docs/facts.tsv has no such row"
            )
    if silent := sorted(f for f, reason in inputs.deviations.items() if not reason):
        names = ", ".join(silent)
        raise ConformanceError(f"docs/deviations.tsv: {names} has no reason")
    rows = tuple(judge_one(fact, inputs) for fact in inputs.facts)
    for row in rows:
        if row.status in {PROVEN, TESTED}:
            _refuse_deviation(row, inputs.deviations)
    return rows


def _refuse_deviation(row: Row, deviations: Mapping[str, str]) -> None:
    if row.fact.id in deviations:
        raise ConformanceError(
            f"{row.fact.id} is shown by {row.evidence}: take it out of "
            "docs/deviations.tsv, or take the mark off those tests"
        )
    for cited in FACT_ID.findall(row.fact.statement):
        if cited in deviations:
            raise ConformanceError(
                f"{row.fact.id} is {row.status} and refers to {cited}, a deviation: "
                f"state {row.fact.id} without it, or make it a deviation too"
            )


def judge_one(fact: Fact, inputs: Inputs) -> Row:
    """Return the status of one fact; failed and skipped tests prove nothing."""
    tests = inputs.outcomes.get(fact.id, {})
    if tests and all(outcome == "passed" for outcome in tests.values()):
        run = inputs.runs.get(fact.id)
        if run is not None and inputs.is_current(run, tests):
            return Row(fact, PROVEN, shown({*tests, *run.tests}, run.tests), run.kafka)
        return Row(fact, TESTED, shown(tests))
    if fact.id in inputs.deviations:
        return Row(fact, DIFFERENT, inputs.deviations[fact.id])
    return Row(fact, OPEN, shown(tests) if tests else "")


def shown(tests: Iterable[str], first: Iterable[str] = ()) -> str:
    """Return up to three names of tests, those of `first` first."""
    on_kafka = set(first)
    names = {test_name(test) for test in tests}
    ordered = sorted(names, key=lambda name: (name not in on_kafka, name))
    text = ", ".join(f"`{name}`" for name in ordered[:TESTS_SHOWN_MAX])
    more = len(ordered) - TESTS_SHOWN_MAX
    return f"{text} and {more} more" if more > 0 else text


def render(rows: Sequence[Row], mutants: Mutants) -> str:
    """Return the page of counts."""
    parts = heading(rows), kills(rows, mutants), areas(rows), summary(rows)
    return "\n".join([*(line for part in parts for line in part), ""])


def heading(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the introduction and the totals."""
    counts = Counter(row.status for row in rows)
    yield "# Conformance"
    yield ""
    yield "Written by `make conformance`; do not edit. A fact is one checkable"
    yield "statement about Kafka's group coordinator, its clients or its tools:"
    yield ""
    yield "- **proven**: a test shows it on Apache Kafka and on Coterie. `make interop`"
    yield "  repeats these runs; `docs/kafka-runs.tsv` records them."
    yield "- **tested here**: tests show it on Coterie; no run on Kafka is recorded."
    yield "- **different**: Coterie differs on purpose, for the reason that is given."
    yield "- **open**: no test shows it."
    yield ""
    totals = ", ".join(f"{counts[status]} {status}" for status in STATUSES)
    yield f"**{len(rows)} facts: {totals}.**"
    yield ""
    checked = Counter(row.fact.checked for row in rows)
    for version, count in sorted(checked.items(), reverse=True):
        if version != UNCHECKED:
            yield f"Compared with Kafka {version}, by source or broker: {count} facts;"
            yield "each row names the place."
    unchecked = [row.fact for row in rows if row.fact.checked == UNCHECKED]
    if own := [fact for fact in unchecked if fact.source != UNCHECKED]:
        yield f"Choices of Coterie, and fields of KIPs that Kafka lacks: {len(own)}."
    if len(own) < len(unchecked):
        yield f"Not yet compared, without a source: {len(unchecked) - len(own)}."
    runs = Counter(row.kafka for row in rows if row.kafka)
    for version, count in sorted(runs.items()):
        yield f"Proven by runs on Kafka {version}: {count}."
    yield ""
    letters = sorted({row.fact.letter for row in rows})
    links = ", ".join(f"[{each}](conformance/{each}.md)" for each in letters)
    yield f"Every fact with its tests, by the letter of its id: {links}."
    yield "`docs/facts.tsv` has the layer of each fact: W wire, S server, R records,"
    yield "C client, L command line."
    yield ""


def kills(rows: Sequence[Row], mutants: Mutants) -> Iterator[str]:
    """Yield how many facts have a named mutant, and the shares of mutants killed."""
    tested = [row for row in rows if row.status in {PROVEN, TESTED}]
    count = sum(row.fact.id in mutants.named for row in tested)
    yield "## Tests that can fail"
    yield ""
    yield f"{count} of the {len(tested)} proven or tested facts have a named mutant: a"
    yield "change of the source that breaks what the row states (`mutation/facts/`)."
    yield "`python -m mutation --sample 60 --seed 7` draws rows and runs their own"
    yield "tests on their mutants."
    yield ""
    if mutants.figures:
        yield "| package | mutants | killed | equivalent | share | seed | date |"
        yield "|---|--:|--:|--:|--:|--:|---|"
        for figure in mutants.figures:
            yield (
                f"| {figure.package} | {figure.mutants} | {figure.killed} "
                f"| {figure.equivalent} | {figure.share} % | {figure.seed} "
                f"| {figure.date} |"
            )
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
        f"| {first} | facts | {' | '.join(STATUSES)} |",
        "|---" + "|--:" * (1 + len(STATUSES)) + "|",
    )


def count_line(name: str, rows: Sequence[Row]) -> str:
    """Return how many facts of an area or section have each status, as a row."""
    counts = Counter(row.status for row in rows)
    cells = [cell(name), str(len(rows)), *(str(counts[status]) for status in STATUSES)]
    return f"| {' | '.join(cells)} |"


def render_rows(letter: str, rows: Sequence[Row], named: Collection[str]) -> str:
    """Return the page of one letter's facts, a table for each section."""
    lines = [f"# Conformance: facts {letter}", ""]
    lines += [
        "Written by `make conformance`; do not edit. Counts and the meaning of each"
    ]
    lines += ["status are in [conformance.md](../conformance.md).", ""]
    chosen = [row for row in rows if row.fact.letter == letter]
    for section, members in groupby(chosen, key=lambda row: row.fact.section):
        lines += [f"## {section}", ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        for row in members:
            fact = row.fact
            mutant = "yes" if fact.id in named else UNCHECKED
            values = (fact.id, fact.statement, row.status, fact.checked, fact.source)
            cells = [cell(each) for each in (*values, mutant, row.evidence)]
            lines += [f"| {' | '.join(cells)} |"]
        lines += [""]
    return "\n".join(lines)


def write_pages(rows: Sequence[Row]) -> None:
    """Write the page of counts and the pages of rows."""
    mutants = read_mutants(
        MUTANTS.read_text(encoding="utf-8") if MUTANTS.exists() else "",
        [path.read_text(encoding="utf-8") for path in NAMED_MUTANTS.glob("*.toml")],
    )
    ROWS.mkdir(exist_ok=True)
    PAGE.write_text(render(rows, mutants), encoding="utf-8")
    for letter in {row.fact.letter for row in rows}:
        text = render_rows(letter, rows, mutants.named)
        (ROWS / f"{letter}.md").write_text(text, encoding="utf-8")


def cell(text: str) -> str:
    """Escape text for a cell of a table."""
    return text.replace("|", "\\|")


def statuses(pages: str) -> dict[str, str]:
    """Parse the status of each fact from the text of written pages."""
    lines = (re.split(r"(?<!\\)\|", line) for line in pages.splitlines())
    wide = (cells for cells in lines if len(cells) == len(COLUMNS) + 2)
    return {
        cells[1].strip(): cells[3].strip()
        for cells in wide
        if cells[3].strip() in STATUSES
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
    """Yield the facts of all areas that are open, one fact per line."""
    for row in rows:
        if row.status == OPEN and any(area.holds(row.fact) for area in AREAS):
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
        "--missing", action="store_true", help="list the facts that are open"
    )
    options = parser.parse_args(arguments)
    outcomes = json.loads(options.results.read_text(encoding="utf-8"))
    try:
        rows = judge(
            Inputs(
                read_facts(FACTS.read_text(encoding="utf-8")),
                outcomes,
                read_deviations(DEVIATIONS.read_text(encoding="utf-8")),
                read_runs(RUNS.read_text(encoding="utf-8")),
            )
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
