"""Run the tests of this folder against Apache Kafka too.

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
from typing import Final

from tests.interop.kafka import (
    JARS,
    SPARK_KAFKA_JARS,
    Unavailable,
    fetch_jars,
    fetch_spark_kafka,
)
from tests.interop.node import open_node, variable_of

TESTS: Final = str(Path(__file__).parent)
MEMBERS: Final = "tests/client/test_group_member_server.py"
PLANS: Final = "tests/operations/test_operations_on_server.py"
FOREIGN_BROKER: Final = "COTERIE_TEST_BOOTSTRAP"


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
    spark_kafka = jars.with_name("spark-kafka")
    if not fetch_spark_kafka(spark_kafka):
        sys.stderr.write("Spark's Kafka source is unavailable: its test is skipped.\n")
    with (
        tempfile.TemporaryDirectory() as directory,
        open_node(jars, Path(directory)) as node,
    ):
        addresses = {
            variable_of(name): address for name, address in node.addresses.items()
        }
        environment = {
            **os.environ,
            JARS: str(jars),
            SPARK_KAFKA_JARS: str(spark_kafka),
            **addresses,
        }
        interop = _pytest([TESTS, *words[1:]], environment)
        environment[FOREIGN_BROKER] = node.addresses["PLAIN"]
        members = _pytest([MEMBERS, PLANS], environment)
    return interop or members


def _pytest(words: list[str], environment: dict[str, str]) -> int:
    command = [sys.executable, "-m", "pytest", "-q", *words]
    return subprocess.run(command, check=False, env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
