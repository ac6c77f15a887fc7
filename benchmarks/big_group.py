"""Does a classic group of 3,000 members form, and stay, with short sessions?

Every member has a connection of its own and a session of 10 s. After the last of them
has synced all beat every 2 s for two sessions; a member that was missed answers with
an error and counts as lost. Bar: none is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.classic import beat, joined
from benchmarks.figures import Bar, Figure, Rounds
from benchmarks.processes import coterie_command, open_files, running, scratch

MEMBERS = 3_000
SESSION_S, EVERY_S = 10.0, 2.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """One group is one round; its size is the point."""
    del rounds
    with (
        open_files(2 * MEMBERS + 1_000),
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        began = time.perf_counter()
        session_ms = int(SESSION_S * 1_000)
        with joined(server.address, ["big"], MEMBERS, session_ms) as everybody:
            formed = time.perf_counter() - began
            lost, slowest = 0, 0.0
            while time.perf_counter() < began + formed + 2 * SESSION_S:
                asked = time.perf_counter()
                lost = max(lost, sum(code != 0 for code in beat(everybody)))
                slowest = max(slowest, time.perf_counter() - asked)
                time.sleep(max(0.0, EVERY_S - (time.perf_counter() - asked)))
    yield Figure(
        name=f"members lost while a classic group of {MEMBERS:,} forms and lives",
        value=lost,
        unit="members",
        bar=0,
        side=Bar.AT_MOST,
        detail=f"all 3,000 heartbeats answered within {slowest:.2f} s",
    )
    yield Figure(
        name=f"a classic group of {MEMBERS:,} has formed after",
        value=formed,
        unit="s",
        detail="3 s of it are Kafka's initial rebalance delay",
    )
