"""Write docs/conformance.md: what of Kafka's behaviour is shown, and by which tests.

The status of a fact of docs/facts.tsv:
  - `proven`: a test with its mark runs on Coterie and on Apache Kafka;
  - `tested here`: all tests with its mark run on Coterie only;
  - `different`: docs/deviations.tsv has the reason why Coterie differs;
  - `open`: none of these.
The marks are read from the sources of the tests, and from the titles of scenarios;
`make test` and `make interop` make sure that these tests pass. A fact of
docs/deviations.tsv that has a test, or that a tested fact refers to, is an error, and
so is a deviation without a reason.

`make conformance` writes the page; a test fails when it is out of date. `make docs`
adds a page of all facts for each letter to the docs site.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).parent.parent
TESTS: Final = ROOT / "tests"
SCENARIOS: Final = TESTS / "scenarios"
FACTS: Final = ROOT / "docs" / "facts.tsv"
DEVIATIONS: Final = ROOT / "docs" / "deviations.tsv"
MUTANTS: Final = ROOT / "docs" / "mutants.tsv"
PAGE: Final = ROOT / "docs" / "conformance.md"

RUN_ON_KAFKA: Final = (
    "tests/client/test_group_member_server.py",
    "tests/client/test_classic_member_server.py",
    "tests/gateway/test_membership.py",
    "tests/gateway/test_adoption.py",
    "tests/gateway/test_mirror.py",
    "tests/gateway/test_transactions_clients.py",
    "tests/operations/test_operations_on_server.py",
)
"""Tests outside of tests/interop that `make interop` runs on Apache Kafka."""
ON_KAFKA: Final = ("tests/interop/", *RUN_ON_KAFKA)
"""The start of the names of tests that run on Apache Kafka, too."""

PROVEN: Final = "proven"
TESTED: Final = "tested here"
DIFFERENT: Final = "different"
OPEN: Final = "open"
STATUSES: Final = (PROVEN, TESTED, DIFFERENT, OPEN)
FACT_ID: Final = re.compile(r"\b(?:SG|[A-K]\d*)-\d+[a-z]?\b")
COLUMNS: Final = ("id", "statement", "status", "compared with", "source", "shown by")
TESTS_SHOWN_MAX: Final = 3

Marks: TypeAlias = Mapping[str, Mapping[str, bool]]
"""By fact: its tests, and whether each runs on Apache Kafka."""


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
        """The letter of the fact list's part with the row, A to K, or S."""
        return self.id[0]


class Subject(NamedTuple):
    """A KIP, API or command: the sections of its facts, and where its tests are."""

    name: str
    sections: str
    tests: str

    def holds(self, fact: Fact) -> bool:
        """Return whether a fact belongs to it."""
        return re.fullmatch(self.sections, fact.section_number) is not None


SUBJECTS: Final = (
    Subject("ApiVersions, versions and framing", r"G\..*|E30", "interop/exchanges"),
    Subject("FindCoordinator: KIP-699", r"B\..*", "interop/exchanges"),
    Subject(
        "ConsumerGroupHeartbeat: KIP-848",
        r"E[1-6](\..*)?|E7.*|H\.[123]|F.*",
        "scenarios",
    ),
    Subject("sessions and rebalance timeouts", r"E8|H\.4", "scenarios/timers.txt"),
    Subject("static members: KIP-345", r"E9|H\.5", "scenarios/static.txt"),
    Subject("member ids: KIP-1082", r"E10", "interop/exchanges"),
    Subject(
        "assignors on the server", r"E1[12].*|H\.10", "broker/coordinator/assignors"
    ),
    Subject("client-side assignors: KIP-848", r"E13.*", "scenarios/client_side.txt"),
    Subject("subscriptions by regular expression", r"E14", "scenarios/regexes.txt"),
    Subject("changed topics", r"E15", "scenarios/epochs.txt"),
    Subject("ConsumerGroupDescribe", r"E16", "scenarios/admin.txt"),
    Subject("JoinGroup, SyncGroup, Heartbeat, LeaveGroup", r"E19", "interop/exchanges"),
    Subject("migration of groups: KIP-848", r"E20.*|H\.8", "scenarios/migration.txt"),
    Subject(
        "OffsetCommit, OffsetFetch, TxnOffsetCommit",
        r"E17|H\.6",
        "scenarios/offsets.txt",
    ),
    Subject("OffsetFetch: KIP-88", r"A\.[2-5]", "interop/exchanges"),
    Subject("OffsetDelete: KIP-496", r"D\.5", "scenarios/offsets.txt"),
    Subject("DescribeGroups: KIP-181", r"C\.[123]", "interop/exchanges"),
    Subject("ListGroups: KIP-518, KIP-848", r"E28|H\.7", "scenarios/admin.txt"),
    Subject("DeleteGroups: KIP-229", r"D\.[123]", "scenarios/admin.txt"),
    Subject("configs of groups and of the broker", r"E2[14]", "interop/exchanges"),
    Subject("ACLs", r"E27", "interop/exchanges"),
    Subject(
        "kafka-consumer-groups: KIP-175",
        r"A\.7|C\.[456]|D\.4|E29",
        "cli/kafka_consumer_groups",
    ),
    Subject("clients: offsets, consumers, metrics", r"A\.6|E2[56]", "real_clients"),
    Subject("records of __consumer_offsets", r"E22.*|H\.9", "broker/coordinator"),
    Subject("loading, failover, durability", r"E23|I\.?", "broker/runtime"),
    Subject("the log, read by the pipeline", r"K\.?", "pipeline"),
    Subject("share groups: KIP-932", r"L\..*", "scenarios/share_groups.txt"),
)
"""Every fact belongs to one of them."""


_PAGE: Final = """\
# Conformance

Written by `make conformance`; do not edit. A fact is one checkable statement about
Kafka's group coordinator, its clients or its tools. `docs/facts.tsv` has all of them,
each with the place in Kafka 4.3.1 or 4.4.0 that shows it.

- **proven**: a test shows it on Coterie and, in `make interop`, on Apache Kafka.
- **here**: tests show it on Coterie only, as they need a clock that moves, a failure,
  or the inside of the coordinator.
- **different**: Coterie differs on purpose; **open**: no test shows it. See below.

**{facts} facts: {totals}.**

| KIP, API or command | facts | proven | here | different | open | `tests/` |
|---|--:|--:|--:|--:|--:|---|
{subjects}

[Scenarios](../tests/scenarios/README.md) are the shortest way to read what is proven.
The docs site (`make docs`) lists each fact with its tests.

## What is different or open

{gaps}

## Tests that can fail

`make mutants` changes the source at random places and runs the tests of the package:

| package | mutants | killed | equivalent | seed | date |
|---|--:|--:|--:|--:|---|
{figures}
"""


class Row(NamedTuple):
    """A fact, its status, and the tests or the reason."""

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


# Marks.


def read_marks(tests: Path = TESTS) -> dict[str, dict[str, bool]]:
    """Return the tests and scenarios that carry the mark of each fact."""
    found: dict[str, dict[str, bool]] = {}
    for path in sorted(tests.rglob("*.py")):
        name = path.relative_to(tests.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        if "mark.fact(" in text:
            for fact, function in _marks_of(ast.parse(text), path):
                test = f"{name.removeprefix('tests/')}::{function}"
                found.setdefault(fact, {})[test] = name.startswith(ON_KAFKA)
    for path in sorted((tests / "scenarios").glob("*.txt")):
        for title, text in _scenarios(path.read_text(encoding="utf-8")):
            everywhere = not re.search(r"^(only|not on Kafka)\b.*:", text, re.MULTILINE)
            for fact in FACT_ID.findall(title):
                files = found.setdefault(fact, {})
                file = f"scenarios/{path.name}"
                files[file] = everywhere or files.get(file, False)
    return found


def _marks_of(tree: ast.AST, path: Path, within: str = "") -> Iterator[tuple[str, str]]:
    """Yield each fact of a mark with the outermost function that has it.

    A starred mark is of a table of cases in modules beside the test.
    """
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = within or node.name
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "fact"
        ):
            for each in node.args:
                if isinstance(each, ast.Constant):
                    yield str(each.value), name
                elif path.parent != SCENARIOS:
                    yield from ((fact, name) for fact in _facts_beside(path))
        yield from _marks_of(node, path, name)


def _facts_beside(path: Path) -> set[str]:
    cases = (each for each in path.parent.glob("*_rows*.py"))
    return {fact for each in cases for fact in FACT_ID.findall(each.read_text("utf-8"))}


def _scenarios(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        title, _, lines = part.partition("\n")
        yield title, lines


# Statuses.


def judge(
    facts: Sequence[Fact], marks: Marks, deviations: Mapping[str, str]
) -> tuple[Row, ...]:
    """Return the status of each fact.

    Raises:
        ConformanceError: An id is not in the fact list, a deviation has no reason, or
            tests show a deviation or a fact that refers to one.
    """
    known = {fact.id for fact in facts}
    for name, ids in (("a fact mark", marks), ("docs/deviations.tsv", deviations)):
        if unknown := sorted(set(ids) - known):
            raise ConformanceError(
                f"{name} names {', '.join(unknown)}: docs/facts.tsv has no such row"
            )
    if silent := sorted(fact for fact, reason in deviations.items() if not reason):
        names = ", ".join(silent)
        raise ConformanceError(f"docs/deviations.tsv: {names} has no reason")
    rows = tuple(_judge_one(fact, marks, deviations) for fact in facts)
    for row in rows:
        if row.status in {PROVEN, TESTED}:
            _refuse_deviation(row, deviations)
    return rows


def _judge_one(fact: Fact, marks: Marks, deviations: Mapping[str, str]) -> Row:
    if tests := marks.get(fact.id):
        status = PROVEN if any(tests.values()) else TESTED
        return Row(fact, status, _shown(tests))
    if fact.id in deviations:
        return Row(fact, DIFFERENT, deviations[fact.id])
    return Row(fact, OPEN, "")


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


def _shown(tests: Mapping[str, bool]) -> str:
    """Return up to three names of tests, those that run on Kafka first."""
    ordered = sorted(tests, key=lambda name: (not tests[name], name))
    text = ", ".join(f"`{name}`" for name in ordered[:TESTS_SHOWN_MAX])
    more = len(ordered) - TESTS_SHOWN_MAX
    return f"{text} and {more} more" if more > 0 else text


# Pages.


def render(rows: Sequence[Row], figures: str) -> str:
    """Return the page of subjects; `figures` is the text of docs/mutants.tsv."""
    counts = Counter(row.status for row in rows)
    return _PAGE.format(
        totals=", ".join(f"{counts[status]} {status}" for status in STATUSES),
        facts=len(rows),
        subjects="\n".join(_subject_line(subject, rows) for subject in SUBJECTS),
        gaps="\n".join(_gap(row) for row in rows if row.status in {DIFFERENT, OPEN}),
        figures="\n".join(
            f"| {' | '.join(line.split(chr(9)))} |" for line in figures.splitlines()[1:]
        ),
    )


def _subject_line(subject: Subject, rows: Iterable[Row]) -> str:
    statuses = [row.status for row in rows if subject.holds(row.fact)]
    counts = [str(statuses.count(status) or "") for status in STATUSES]
    where = f"`{subject.tests}`"
    return f"| {' | '.join([subject.name, str(len(statuses)), *counts, where])} |"


def _gap(row: Row) -> str:
    text = row.evidence or "no test shows it"
    return f"- **{row.fact.id}** {row.status}. {row.fact.statement} *{text}*"


def render_rows(letter: str, rows: Sequence[Row]) -> str:
    """Return the page of one letter's facts, a table for each section."""
    lines = [f"# Conformance: facts {letter}", ""]
    chosen = [row for row in rows if row.fact.letter == letter]
    for section, members in groupby(chosen, key=lambda row: row.fact.section):
        lines += [f"## {section}", ""]
        lines += [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
        for fact, status, evidence in members:
            texts = fact.id, fact.statement, status, fact.checked, fact.source, evidence
            lines.append(
                f"| {' | '.join(each.replace('|', '&#124;') for each in texts)} |"
            )
        lines.append("")
    return "\n".join(lines)


def read_rows() -> tuple[Row, ...]:
    """Return all facts of the repository. Raises ConformanceError."""
    return judge(
        read_facts(FACTS.read_text(encoding="utf-8")),
        read_marks(),
        read_deviations(DEVIATIONS.read_text(encoding="utf-8")),
    )


def pages() -> dict[str, str]:
    """Return the text of the page of each letter."""
    rows = read_rows()
    letters = sorted({row.fact.letter for row in rows})
    return {letter: render_rows(letter, rows) for letter in letters}


def main() -> int:
    """Write the page; return 2 for contradictory inputs."""
    try:
        rows = read_rows()
    except ConformanceError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    PAGE.write_text(render(rows, MUTANTS.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
