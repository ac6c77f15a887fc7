"""Compare Apache Kafka and Coterie on random requests: `make differential`.

    python -m tests.differential build/kafka --requests 5000 --seed 7

Exits with 1 when more differences than allowed are unexplained; each is printed as its
shortest sequence.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from tests.differential.run import Run
from tests.differential.servers import POLICIES, both
from tests.interop.kafka import Unavailable, fetch_jars


def main() -> int:
    """Run the comparison; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__
    )
    parser.add_argument("jars", type=Path, help="the folder of Apache Kafka's jars")
    parser.add_argument("--requests", type=int, default=5_000, help="how many to send")
    parser.add_argument("--seed", type=int, help="repeat a run")
    parser.add_argument(
        "--restarts", type=int, default=2, help="restarts of both servers"
    )
    parser.add_argument(
        "--policy",
        choices=POLICIES,
        help="of migration between the protocols; drawn from the seed by default",
    )
    parser.add_argument(
        "--allow",
        type=int,
        default=0,
        metavar="N",
        help="succeed with up to N unexplained differences",
    )
    parser.add_argument("--stop-after", type=int, default=10, metavar="N")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    console = Console(highlight=False)
    try:
        jars = fetch_jars(options.jars.absolute())
    except Unavailable as reason:
        console.print(f"Apache Kafka is unavailable: {reason}. Nothing was compared.")
        return 0
    policy = options.policy or Random(seed).choice((POLICIES[0], *POLICIES))
    console.print(f"migration {policy}; repeat this run with --seed {seed}")
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory() as directory,
        both(jars, Path(directory), policy) as servers,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task("requests", total=options.requests)
        run = Run(servers, seed, restarts=options.restarts)
        while run.sent < options.requests and len(run.unknown) < options.stop_after:
            run.sequence(options.requests)
            progress.update(task, completed=run.sent)
    sys.stdout.write("\n".join(run.report()) + "\n")
    return int(run.unexplained_count > options.allow)


if __name__ == "__main__":
    raise SystemExit(main())
