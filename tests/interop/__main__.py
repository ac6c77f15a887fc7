"""Run the tests of this folder against Apache Kafka, and what runs Kafka's programs
against Coterie too.

`python -m tests.interop FOLDER [PYTEST-ARGUMENT ...]` fetches Kafka's jars into FOLDER
and starts one node for the whole run. Where the jars are unavailable it prints a
warning and succeeds: `make test` runs the same tests against Coterie alone. The tests
of `GroupMember` and of plans run against the node, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from tests.interop.kafka import (
    JARS,
    SPARK_KAFKA_JARS,
    Unavailable,
    fetch_jars,
    fetch_spark_kafka,
)
from tests.interop.node import open_node, variable_of
from tools.conformance import RUN_ON_KAFKA

ROOT: Final = Path(__file__).parent.parent.parent
TESTS: Final = "tests/interop"
EXCHANGES: Final = "tests/interop/exchanges"
FOREIGN_BROKER: Final = "COTERIE_TEST_BOOTSTRAP"
NOT_SELECTED: Final = 5
"""pytest's exit code when it ran no test, as with -k and a name of another run."""


class Run(NamedTuple):
    """Tests of one run of pytest, and its arguments."""

    tests: tuple[str, ...]
    arguments: tuple[str, ...]
    apart: str = ""
    """A folder in `tests` that is left out."""


def main(words: list[str]) -> int:
    """Run the tests; return pytest's exit code."""
    try:
        jars = fetch_jars(Path(words[0]).absolute())
    except Unavailable as reason:
        sys.stderr.write(
            f"\n{'!' * 72}\nINTEROP SKIPPED: Apache Kafka is unavailable: {reason}."
            f"\nNothing was compared with it.\n{'!' * 72}\n"
        )
        return 0
    with tempfile.TemporaryDirectory() as directory:
        return _run(jars, words[1:], Path(directory))


def _run(jars: Path, words: list[str], folder: Path) -> int:
    """Run the tests with Kafka's files in a folder; return an exit code."""
    spark_kafka = jars.with_name("spark-kafka")
    if not fetch_spark_kafka(spark_kafka):
        sys.stderr.write("Spark's Kafka source is unavailable: its test is skipped.\n")
    arguments = tuple(words)
    # Exchanges leave groups and transactions that tests of the whole log would see.
    interop = Run((TESTS,), arguments, apart=EXCHANGES)
    exchanges = Run((EXCHANGES,), arguments)
    members = Run(RUN_ON_KAFKA, arguments)
    with open_node(jars, folder) as node:
        environment = {
            **os.environ,
            JARS: str(jars),
            SPARK_KAFKA_JARS: str(spark_kafka),
            **{variable_of(name): where for name, where in node.addresses.items()},
        }
        exit_codes = [_pytest(run, environment) for run in (interop, exchanges)]
        environment[FOREIGN_BROKER] = node.addresses["PLAIN"]
        exit_codes.append(_pytest(members, environment))
    return max(exit_codes)


def _pytest(run: Run, environment: dict[str, str]) -> int:
    """Run the tests; return pytest's exit code, or 0 if none was selected."""
    apart = (f"--ignore={run.apart}",) if run.apart else ()
    options = (*apart, *run.arguments)
    command = [sys.executable, "-m", "pytest", "-q", *run.tests, *options]
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment)
    return 0 if done.returncode == NOT_SELECTED else done.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
