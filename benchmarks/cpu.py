"""CPU time of this process and of all that it started: of Spark, that is Java and the
Python workers of Java."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu_s() -> float:
    """Seconds, user's and system's, those of children that ended among them."""
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
    """What one call costs."""
    start = tree_cpu_s()
    work()
    return tree_cpu_s() - start
