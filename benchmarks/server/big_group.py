"""Check that a classic group of 3,000 members forms and stays stable.

Every member has its own connection and a session timeout of 10 s. After the last one
has synced, all send heartbeats every 2 s for two session timeouts; an error in a
response means that the member was removed. Bar: no removed members.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import coterie_command, open_files, running, scratch
from benchmarks.peers.classic_groups import joined, send_heartbeats

MEMBERS = 3_000
SESSION_S, EVERY_S = 10.0, 2.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Form one large group and count its lost members."""
    del rounds
    with (
        open_files(2 * MEMBERS + 1_000),
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        began = time.perf_counter()
        session_ms = int(SESSION_S * 1_000)
        with joined(server.address, ["big"], MEMBERS, session_ms) as members:
            formed = time.perf_counter() - began
            lost, slowest = 0, 0.0
            while time.perf_counter() < began + formed + 2 * SESSION_S:
                asked = time.perf_counter()
                lost = max(lost, sum(code != 0 for code in send_heartbeats(members)))
                slowest = max(slowest, time.perf_counter() - asked)
                time.sleep(max(0.0, EVERY_S - (time.perf_counter() - asked)))
    yield Figure(
        name=f"members lost by a classic group of {MEMBERS:,}",
        value=lost,
        unit="members",
        bar=0,
        side=Bar.AT_MOST,
        detail=f"slowest response to 3,000 heartbeats: {slowest:.2f} s",
    )
    yield Figure(
        name=f"time to form a classic group of {MEMBERS:,}",
        value=formed,
        unit="s",
        detail="3 s of it are Kafka's initial rebalance delay",
    )
