"""Run the tests of this folder against Apache Kafka, and what runs Kafka's programs
against Coterie too.

`python -m tests.interop FOLDER [PYTEST-ARGUMENT ...]` fetches Kafka's jars into FOLDER
and starts one node for the whole run. Where the jars are unavailable it prints a
warning and succeeds: `make test` runs the same tests against Coterie alone. The tests
of `GroupMember` and of plans run against the node, too.

A run of all tests is compared with docs/kafka-runs.tsv, which names for each fact the
tests that passed on Kafka: each must pass there again. `--record` writes that file.
`--failed` repeats only the tests that failed when they ran last.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from tests.interop.kafka import (
    JARS,
    SPARK_KAFKA_JARS,
    Unavailable,
    fetch_jars,
    fetch_spark_kafka,
    version_of,
)
from tests.interop.node import open_node, variable_of
from tools.conformance import FACTS, read_facts
from tools.kafka_runs import RUNS, faults, merged, read_runs, runs_of, write_runs

ROOT: Final = Path(__file__).parent.parent.parent
LAST_FAILED: Final = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
TESTS: Final = "tests/interop"
EXCHANGES: Final = "tests/interop/exchanges"
MEMBERS: Final = "tests/client/test_group_member_server.py"
CLASSIC_MEMBERS: Final = "tests/client/test_classic_member_server.py"
ADOPTION: Final = "tests/gateway/test_adoption.py"
MIRROR: Final = "tests/gateway/test_mirror.py"
TRANSACTIONS: Final = "tests/gateway/test_transactions_clients.py"
NODES: Final = "tests/gateway/test_membership.py"
PLANS: Final = "tests/operations/test_operations_on_server.py"
FOREIGN_BROKER: Final = "COTERIE_TEST_BOOTSTRAP"
INTEROP_FACTS: Final = "interop-facts.json"
NOT_SELECTED: Final = 5
"""pytest's exit code when it ran no test, as with -k and a name of another run."""
EXCHANGES_FACTS: Final = "exchanges-facts.json"
MEMBERS_FACTS: Final = "members-facts.json"
RECORD: Final = "--record"
FAILED: Final = "--failed"
SELECTING: Final = ("-k", "-m", "--lf", "--last-failed", FAILED, "--deselect", "tests/")
"""The start of arguments of pytest that leave tests out."""


class Run(NamedTuple):
    """Tests of one run of pytest, its arguments, and the file for outcomes of facts."""

    tests: tuple[str, ...]
    arguments: tuple[str, ...]
    facts: str
    apart: str = ""
    """A folder in `tests` that is left out."""

    def of_failed(self, failed: Iterable[str]) -> Run:
        """Return the run of only those tests that failed before.

        With `--last-failed` pytest runs all tests when none of them has failed.
        """
        repeated = [
            test
            for test in failed
            if test.startswith(self.tests)
            and not (self.apart and test.startswith(self.apart))
        ]
        return self._replace(tests=tuple(repeated))


def main(words: list[str]) -> int:
    """Run the tests; return pytest's exit code, or 1 if a recorded test is missing."""
    try:
        jars = fetch_jars(Path(words[0]).absolute())
    except Unavailable as reason:
        sys.stderr.write(
            f"\n{'!' * 72}\nINTEROP SKIPPED: Apache Kafka is unavailable: {reason}."
            f"\nNothing was compared with it.\n{'!' * 72}\n"
        )
        return 0
    arguments = [word for word in words[1:] if word != RECORD]
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        exit_code = _run(jars, arguments, folder)
        if exit_code or any(word.startswith(SELECTING) for word in arguments):
            return exit_code
        return check_runs(folder, version_of(jars), record=RECORD in words)


def _run(jars: Path, words: list[str], folder: Path) -> int:
    """Run the tests, write the outcomes of facts into a folder; return an exit code."""
    spark_kafka = jars.with_name("spark-kafka")
    if not fetch_spark_kafka(spark_kafka):
        sys.stderr.write("Spark's Kafka source is unavailable: its test is skipped.\n")
    arguments = tuple(word for word in words if word != FAILED)
    # Exchanges leave groups and transactions that tests of the whole log would see.
    interop = Run((TESTS,), arguments, INTEROP_FACTS, apart=EXCHANGES)
    exchanges = Run((EXCHANGES,), arguments, EXCHANGES_FACTS)
    members = Run(
        (MEMBERS, CLASSIC_MEMBERS, NODES, ADOPTION, MIRROR, TRANSACTIONS, PLANS),
        arguments,
        MEMBERS_FACTS,
    )
    if FAILED in words:
        failed = json.loads(LAST_FAILED.read_text(encoding="utf-8"))
        interop, exchanges, members = (
            run.of_failed(failed) for run in (interop, exchanges, members)
        )
    with open_node(jars, folder) as node:
        environment = {
            **os.environ,
            JARS: str(jars),
            SPARK_KAFKA_JARS: str(spark_kafka),
            **{variable_of(name): where for name, where in node.addresses.items()},
        }
        exit_codes = [_pytest(run, folder, environment) for run in (interop, exchanges)]
        environment[FOREIGN_BROKER] = node.addresses["PLAIN"]
        exit_codes.append(_pytest(members, folder, environment))
    return max(exit_codes)


def check_runs(folder: Path, kafka: str, *, record: bool) -> int:
    """Record the facts shown on Kafka, or compare them with the recorded ones."""
    interop, exchanges, members = (
        json.loads((folder / name).read_text(encoding="utf-8"))
        for name in (INTEROP_FACTS, EXCHANGES_FACTS, MEMBERS_FACTS)
    )
    now = merged(
        merged(
            runs_of(interop, kafka, all_on_kafka=False),
            runs_of(exchanges, kafka, all_on_kafka=False),
        ),
        runs_of(members, kafka, all_on_kafka=True),
    )
    if record:
        RUNS.write_text(write_runs(now), encoding="utf-8")
        sys.stdout.write(f"{len(now)} facts are shown on Kafka {kafka}\n")
        return 0
    known = {fact.id for fact in read_facts(FACTS.read_text(encoding="utf-8"))}
    wrong = list(faults(read_runs(RUNS.read_text(encoding="utf-8")), now, known))
    if wrong:
        sys.stderr.write(
            "\n".join(wrong)
            + "\ndocs/kafka-runs.tsv records runs on Kafka that were not repeated.\n"
            "Give the tests their marks again, or, if that is meant, write the file\n"
            "by `make interop ARGS=--record` and the pages by `make conformance`.\n"
        )
    return int(bool(wrong))


def _pytest(run: Run, folder: Path, environment: dict[str, str]) -> int:
    """Run the tests; return pytest's exit code, or 0 if none was selected."""
    if not run.tests:
        return 0
    facts = f"--fact-results={folder / run.facts}"
    apart = (f"--ignore={run.apart}",) if run.apart else ()
    options = (*apart, facts, *run.arguments)
    command = [sys.executable, "-m", "pytest", "-q", *run.tests, *options]
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment)
    return 0 if done.returncode == NOT_SELECTED else done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
