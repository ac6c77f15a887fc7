"""Profile a row of the table: `python -m benchmarks.beside.profile "commits of 50"`.

Runs the load of the first row that matches on a warm server under cProfile, and prints
the functions with most own time, in us for each request. cProfile makes calls dearer
and sees only the event loop's thread: compare the functions with each other, not with
the table.
"""

from __future__ import annotations

import argparse
import os
import pstats
import signal
import sys
from pathlib import Path

from benchmarks.beside.requests import OUR_WARM_UP_S, ROWS, Row, prepare
from benchmarks.harness.figures import Rounds
from benchmarks.harness.load import load
from benchmarks.harness.processes import coterie_command, python, running, scratch

ROWS_OF_PROFILE = 25


def profile(row: Row, seconds: float) -> tuple[pstats.Stats, int]:
    """Return the profile of a load, and its number of requests."""
    with scratch() as home:
        output = home / "profile"
        command = coterie_command("--data", str(home / "data"))
        profiled = [*python("peers.profiled"), str(output), *command]
        with running(profiled, home / "log") as server:
            prepare(server.address)
            frames = row.frames(server.address)
            load(server.address, frames, row.shape, Rounds(1, OUR_WARM_UP_S))
            os.kill(server.pid, signal.SIGUSR1)
            result = load(server.address, frames, row.shape, Rounds(1, seconds))
        return pstats.Stats(str(output)), result.sent


def lines(
    stats: pstats.Stats, requests: int, limit: int = ROWS_OF_PROFILE
) -> list[str]:
    """Return the functions with most own time: own and total us, calls, a request."""
    found: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    found = stats.stats  # type: ignore[attr-defined]
    order = sorted(found.items(), key=lambda entry: -entry[1][2])
    texts = [f"{'own us':>8} {'us':>8} {'calls':>6}  function"]
    for (path, line, name), (_, calls, own, total, _) in order[:limit]:
        place = f"{Path(path).name}:{line}" if line else "built-in"
        per_request = f"{own / requests * 1e6:8.2f} {total / requests * 1e6:8.2f}"
        texts.append(f"{per_request} {calls / requests:6.2f}  {name} ({place})")
    return texts


def main(argv: list[str] | None = None) -> int:
    """Profile the row that the command line names; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", help="a regular expression for the row's name")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of the load")
    options = parser.parse_args(argv)
    choose = Rounds(1, options.seconds, options.row)
    chosen = [row for row in ROWS if choose.includes(row.name)]
    if not chosen:
        names = "; ".join(row.name for row in ROWS)
        parser.error(f"no row matches {options.row!r}; the rows: {names}")
    stats, requests = profile(chosen[0], options.seconds)
    print(f"{chosen[0].name}: {requests:,} requests")
    print("\n".join(lines(stats, requests)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
