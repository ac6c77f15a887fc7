"""The time and the server's CPU time in which large groups form.

The same driver joins all members of a group at once, and sends the next heartbeat of
each after the response to the last: what is left is the server's time, its assignment
interval of 1 s (KIP-848) and its initial rebalance delay of 1 s (classic) included.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from benchmarks.beside.servers import (
    KAFKA,
    SESSION_MS,
    Against,
    Sample,
    Servers,
    absolute,
    compare,
    wait_until_idle,
)
from benchmarks.harness.figures import Bar, Figure, Rounds, take_turns
from benchmarks.harness.processes import Server, open_files
from benchmarks.harness.table import COMPILED, PURE
from benchmarks.peers import classic_groups
from benchmarks.peers.connection import Connection, create_topic
from benchmarks.peers.consumer_groups import JoinedMember, joined

MEMBERS = 1_000
ROUNDS_MAX = 3
CONNECTIONS, PAUSE_S, LIMIT_S = 50, 0.02, 120.0
BIG_GROUPS = {3_000: {PURE: 3.0, COMPILED: 1.5}, 10_000: {PURE: 15.0, COMPILED: 8.0}}
KAFKA_MEMBERS_MAX = 3_000
"""Kafka keeps three files for each of as many partitions."""
_numbers = itertools.count()


def measure(servers: Servers, rounds: Rounds) -> Iterator[Figure]:
    """Form groups of MEMBERS members in turns on all servers."""
    forms: dict[str, Callable[[str], None]] = {
        f"KIP-848 group of {MEMBERS:,} forms": form_consumer_group,
        f"classic group of {MEMBERS:,} forms": form_classic_group,
    }
    for name, form in forms.items():
        if not rounds.includes(name):
            continue
        for server in servers.values():
            create_topic(server.address, _topic(MEMBERS), MEMBERS)
        sides = {
            side: partial(_timed, server, form) for side, server in servers.items()
        }
        with open_files(2 * MEMBERS + 1_000):
            take_turns(Rounds(1, 0), sides)
            results = take_turns(Rounds(min(rounds.times, ROUNDS_MAX), 0), sides)
        against = Against(other=KAFKA, bars={})
        for position, what in enumerate(("time", "server CPU")):
            samples = [
                {side: both[position] for side, both in each.items()}
                for each in results
            ]
            yield from compare(
                f"{name}, {what}", samples, against, _seconds, Bar.AT_MOST
            )


def measure_big_groups(servers: Servers, rounds: Rounds) -> Iterator[Figure]:
    """Form one KIP-848 group of each size; its members join one after the other."""
    for size, bars in BIG_GROUPS.items():
        name = f"KIP-848 group of {size:,} forms: server CPU"
        if not rounds.includes(name):
            continue
        values: dict[str, float | None] = {
            side: _big_group_cpu(server, size)
            for side, server in servers.items()
            if side != KAFKA or size <= KAFKA_MEMBERS_MAX
        }
        yield from absolute(name, values, bars, "s")


def _topic(partitions: int) -> str:
    return f"partitions-{partitions}"


def _timed(server: Server, form: Callable[[str], None]) -> tuple[Sample, Sample]:
    wait_until_idle(server)
    began, before = time.perf_counter(), server.cpu_s
    form(server.address)
    spent = server.cpu_s - before
    return Sample(value=time.perf_counter() - began), Sample(value=max(spent, 0.01))


def form_consumer_group(address: str) -> None:
    """Form a KIP-848 group: all partitions have an owner, all members one epoch."""
    group = f"forming-{next(_numbers)}"
    connections = [Connection(address) for _ in range(CONNECTIONS)]
    members = [
        JoinedMember(connections[number % CONNECTIONS], group, f"{group}-{number}")
        for number in range(MEMBERS)
    ]
    deadline = time.monotonic() + LIMIT_S
    try:
        for member in members:
            member.send_join(_topic(MEMBERS))
        for member in members:
            member.receive()
        while not _has_formed(members):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{group} did not form in {LIMIT_S:.0f} s")
            time.sleep(PAUSE_S)
            for member in members:
                member.send_heartbeat()
            for member in members:
                member.receive()
    finally:
        for connection in connections:
            connection.close()


def _has_formed(members: Sequence[JoinedMember]) -> bool:
    return _owned(members) == MEMBERS and len({each.epoch for each in members}) == 1


def _owned(members: Sequence[JoinedMember]) -> int:
    return sum(len(part.partitions) for each in members for part in each.owned or ())


def form_classic_group(address: str) -> None:
    """Form a classic group: every member has its assignment."""
    group = f"forming-{next(_numbers)}"
    with classic_groups.joined(address, [group], MEMBERS, SESSION_MS):
        pass


def _big_group_cpu(server: Server, size: int) -> float:
    create_topic(server.address, _topic(size), size)
    wait_until_idle(server)
    before = server.cpu_s
    with joined(server.address, [f"big-{size}"], size, _topic(size)) as members:
        spent = server.cpu_s - before
        if (owned := _owned(members)) != size:
            raise RuntimeError(f"{owned} of {size} partitions have an owner")
    return spent


def _seconds(value: float) -> str:
    return f"{value:,.2f} s"
