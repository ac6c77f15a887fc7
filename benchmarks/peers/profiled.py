"""Run a Python script under cProfile.

`python -m benchmarks.peers.profiled OUTPUT SCRIPT [ARGUMENT ...]` writes the profile to
OUTPUT at the script's end. SIGUSR1 discards what was measured before it.
"""

from __future__ import annotations

import cProfile
import runpy
import signal
import sys


def main(output: str, *arguments: str) -> None:
    """Run the script."""
    profiler = cProfile.Profile()
    signal.signal(signal.SIGUSR1, lambda *_: profiler.clear())
    sys.argv = list(arguments)
    profiler.enable()
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    finally:
        profiler.disable()
        profiler.dump_stats(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
