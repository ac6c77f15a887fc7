"""CPU time of this process and its descendants, and of all others.

With Spark, the descendants are the JVM and its Python workers. CPU time that other
processes or other virtual machines use makes the figures of a run doubtful.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
QUIET_LOAD, QUIET_SHARE = 0.5, 0.05
_BUSY = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq and steal in the first line of /proc/stat."""


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


def machine_cpu_s(stat: str | None = None) -> float:
    """Return the busy CPU seconds of all cores, time stolen by other machines included.

    `stat` is the content of /proc/stat, which is read by default.
    """
    text = Path("/proc/stat").read_text() if stat is None else stat
    times = [int(word) for word in text.splitlines()[0].split()[1:]]
    return sum(times[number] for number in _BUSY) / _TICKS


class MachineUse:
    """The use of the machine by processes that do not belong to the benchmark."""

    def __init__(self) -> None:
        self.load = os.getloadavg()[0]
        self._began = time.perf_counter()
        self._others_s = machine_cpu_s() - tree_cpu_s()

    def start_note(self) -> str:
        """Return the load average at the start, with a warning if it is high."""
        note = f"load average {self.load:.1f}"
        if self.load > QUIET_LOAD:
            note += ": WARNING, THE MACHINE IS NOT QUIET"
        return note

    def end_note(self) -> str:
        """Return the share of the cores that others used, with a warning if high."""
        seconds = (time.perf_counter() - self._began) * (os.cpu_count() or 1)
        share = (machine_cpu_s() - tree_cpu_s() - self._others_s) / seconds
        return others_note(share)


def others_note(share: float) -> str:
    """Return the text about the share of the cores that others used."""
    note = f"other processes used {max(share, 0.0):.0%} of the cores during the run"
    if share > QUIET_SHARE:
        note += ": WARNING, THE MACHINE WAS NOT QUIET, REPEAT THE RUN"
    return note
