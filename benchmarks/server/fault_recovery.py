"""Measure how long clients with their defaults need to recover from the kit's faults.

From the hit of a fault until a record that was written after it is committed, on an
idle topic: bar 3 s. Clients notice some faults only when a request times out or at the
next heartbeat; these are measured with both at 1 s too, and the bar is for that.
`--rows` selects faults.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from benchmarks.harness.figures import Bar, Figure, Rounds
from tests.real_clients import fault_recovery
from tests.real_clients.fault_recovery import CLIENTS, FAULTS, NEEDS_SHORT

BAR_S = 3.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Yield the time to recover of each fault and client."""
    for fault in filter(rounds.includes, FAULTS):
        for client in CLIENTS:
            name = f"{fault}: {client}"
            if (fault, client) in NEEDS_SHORT:
                yield _figure(f"{name}, defaults", fault, client, 1, is_short=False)
                name += ", 1 s"
            is_short = (fault, client) in NEEDS_SHORT
            yield _figure(name, fault, client, rounds.times, is_short=is_short)


def _figure(
    name: str, fault: str, client: str, times: int, *, is_short: bool
) -> Figure:
    found = [
        fault_recovery.measure(fault, client, is_short=is_short) for _ in range(times)
    ]
    seconds = [each.seconds for each in found]
    errors = dict.fromkeys(error for each in found for error in each.errors)
    return Figure(
        name=name,
        value=statistics.median(seconds),
        unit="s",
        bar=None if name.endswith("defaults") else BAR_S,
        side=Bar.AT_MOST,
        detail=" ".join((*(f"{each:.2f}" for each in seconds), *errors)),
    )
