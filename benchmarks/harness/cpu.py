"""CPU time of this process and its descendants.

With Spark, the descendants are the JVM and its Python workers.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_s() -> float:
    """Return user and system CPU seconds, including those of ended children."""
    children: dict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(entry.name)
        children[int(fields[1])].append(pid)
        seconds[pid] = sum(map(int, fields[11:15])) / _TICKS
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += seconds.get(pid, 0.0)
        waiting += children[pid]
    return total


def tree_cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one call of a function."""
    start = tree_cpu_s()
    work()
    return tree_cpu_s() - start
