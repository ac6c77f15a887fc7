"""Break a gateway and its cluster under load, and print what clients saw.

    python -m tests.interop.gateway.failures build/kafka --kills 50 --pauses 20
        --broker-kills 20 --stops 10 --transactions 10 --java-transactions 10
        --kgo-transactions 10

The last option needs Go, and the module proxy once.

It starts three brokers, by default of Apache Kafka and set to the classic group
protocol only, and three nodes. The exit code is 1 when an acknowledged commit was lost,
a partition had two owners, or a node answered from state that it did not own any more,
and when a record was not copied exactly once or a worker hung.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.interop.gateway.failures.world import run
from tests.interop.gateway.upstreams import NEWEST, UPSTREAMS
from tests.interop.kafka import Unavailable


def main(words: list[str]) -> int:
    """Run the failures of the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop.gateway.failures")
    parser.add_argument("jars", type=Path, help="folder of Kafka's jars")
    for option in (
        *("kills", "stops", "pauses", "broker-kills"),
        *("transactions", "kgo-transactions", "java-transactions"),
    ):
        parser.add_argument(f"--{option}", type=int, default=0, metavar="N")
    parser.add_argument("--upstream", choices=UPSTREAMS, default=NEWEST)
    parser.add_argument("--groups", type=int, default=24, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs there")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as directory:
        counts = {
            "kill_nodes": options.kills,
            "stop_nodes": options.stops,
            "pause_nodes": options.pauses,
            "kill_brokers": options.broker_kills,
            "kill_nodes_under_transactions": options.transactions,
            "kill_nodes_under_kgo": options.kgo_transactions,
            "kill_nodes_under_java": options.java_transactions,
        }
        try:
            return asyncio.run(
                run(
                    options.jars.absolute(),
                    options.keep or Path(directory),
                    counts,
                    upstream=options.upstream,
                    groups=options.groups,
                    random=Random(options.seed),
                )
            )
        except Unavailable as reason:
            sys.stderr.write(f"nothing was run: {reason}\n")
            return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
