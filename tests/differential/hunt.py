"""Which of the simulation's mutants does the comparison with Kafka find?

    python -m tests.differential.hunt build/kafka --requests 1500

Kafka runs once; Coterie runs from a copy of the sources with one mutant at a time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from sim.mutants import Mutant, all_mutants, apply
from tests.differential.run import Run
from tests.differential.servers import Coterie, Kafka, Server, wait_until_loaded

ROOT: Final = Path(__file__).parents[2]
_PATH: Final = "PYTHONPATH"


def main() -> int:
    """Hunt all mutants; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jars", type=Path, help="the folder of Apache Kafka's jars")
    parser.add_argument("--requests", type=int, default=1_500, help="for each mutant")
    parser.add_argument("--only", default="", help="a part of the mutants' names")
    options = parser.parse_args()
    console = Console()
    table = Table("mutant", "found by", "after requests")
    with tempfile.TemporaryDirectory() as directory:
        kafka = Kafka(options.jars.absolute(), Path(directory, "kafka"))
        try:
            wait_until_loaded(kafka)
            for number, mutant in enumerate(all_mutants()):
                if options.only in mutant.name:
                    run = _hunt(kafka, mutant, number, options.requests)
                    found = [each.found for each in run.unknown]
                    how = [
                        f"{one.step.api.title} {one.difference.kind}" for one in found
                    ]
                    table.add_row(mutant.name, ", ".join(how) or "-", str(run.sent))
                    console.print(f"{mutant.name}: {how}", markup=False)
        finally:
            kafka.stop()
    console.print(table)
    return 0


def _hunt(kafka: Server, mutant: Mutant, number: int, requests: int) -> Run:
    """Compare until a difference is found or the requests are sent."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "copy")
        ignored = shutil.ignore_patterns("__pycache__")
        for part in ("src", "sim"):
            shutil.copytree(ROOT / part, copy / part, ignore=ignored)
        apply(mutant, copy)
        before = os.environ.get(_PATH)
        os.environ[_PATH] = str(copy / "src")
        try:
            coterie = Coterie(Path(directory, "coterie"))
        finally:
            if before is None:
                del os.environ[_PATH]
            else:
                os.environ[_PATH] = before
        try:
            wait_until_loaded(coterie)
            run = Run((kafka, coterie), seed=1_000_000 + number)
            while run.sent < requests and not run.unknown:
                run.sequence(requests)
            return run
        finally:
            coterie.stop()


if __name__ == "__main__":
    sys.exit(main())
