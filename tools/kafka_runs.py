"""Read and compare docs/kafka-runs.tsv: facts shown by tests that passed on Kafka.

`make interop` runs tests with a fact mark on Coterie and on Apache Kafka. With
`ARGS=--record` it writes this file; otherwise it fails when a test of the file did not
run or did not pass on Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

RUNS: Final = Path(__file__).parent.parent / "docs" / "kafka-runs.tsv"
HEADING: Final = "fact\tkafka\ttests"
ON_KAFKA: Final = re.compile(r"[\[-]kafka[\]-]")
"""Node ids of tests with the parameter `kafka` of the fixture `broker`."""

Outcomes: TypeAlias = Mapping[str, Mapping[str, str]]
"""The outcome of each test that carries a fact's mark, by fact and test."""


class Run(NamedTuple):
    """The version of Kafka, and the names of tests that passed on it."""

    kafka: str
    tests: tuple[str, ...]


def test_name(node_id: str) -> str:
    """Return a test's file and function, without its parameters."""
    return node_id.partition("[")[0].removeprefix("tests/")


def read_runs(text: str) -> dict[str, Run]:
    """Parse docs/kafka-runs.tsv; return the run of each fact."""
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {fact: Run(kafka, tuple(tests.split(" "))) for fact, kafka, tests in rows}


def write_runs(runs: Mapping[str, Run]) -> str:
    """Return the text of docs/kafka-runs.tsv."""
    rows = [
        f"{fact}\t{run.kafka}\t{' '.join(run.tests)}"
        for fact, run in sorted(runs.items())
    ]
    return "\n".join([HEADING, *rows, ""])


def runs_of(outcomes: Outcomes, kafka: str, *, all_on_kafka: bool) -> dict[str, Run]:
    """Return the run of each fact whose tests passed on Kafka.

    A fact with a test that failed on Kafka is left out. Skipped tests show nothing.
    `all_on_kafka` is set for tests that run on Kafka without a parameter `kafka`.
    """
    runs = {}
    for fact, tests in outcomes.items():
        found = {
            test: outcome
            for test, outcome in tests.items()
            if outcome != "skipped" and (all_on_kafka or ON_KAFKA.search(test))
        }
        if found and set(found.values()) == {"passed"}:
            runs[fact] = Run(kafka, tuple(sorted({test_name(test) for test in found})))
    return runs


def merged(first: Mapping[str, Run], second: Mapping[str, Run]) -> dict[str, Run]:
    """Return the facts of both runs, each with the tests of both."""
    both = dict(first)
    for fact, run in second.items():
        before = both[fact].tests if fact in both else ()
        both[fact] = Run(run.kafka, tuple(sorted({*before, *run.tests})))
    return both


def faults(
    recorded: Mapping[str, Run], now: Mapping[str, Run], facts: Collection[str]
) -> Iterator[str]:
    """Yield one sentence for each recorded run that was not repeated."""
    for fact, run in sorted(recorded.items()):
        passed = now[fact].tests if fact in now else ()
        if fact not in facts:
            yield f"{fact}: docs/facts.tsv has no such row"
        for test in sorted(set(run.tests) - set(passed)):
            yield f"{fact}: {test} did not run or did not pass on Kafka with its mark"
