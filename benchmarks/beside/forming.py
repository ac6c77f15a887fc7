"""The time and the server's CPU time in which large groups form.

The same driver joins all members of a group at once and, for KIP-848, sends a heartbeat
of each member every EVERY_S. The time includes an assignment interval of 1 s (KIP-848)
and an initial rebalance delay of 1 s (classic), on both sides.
"""

from __future__ import annotations

import contextlib
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
CONNECTIONS, EVERY_S, LIMIT_S = 50, 0.1, 120.0
BIG_GROUPS = {3_000: {PURE: 3.0, COMPILED: 1.5}, 10_000: {PURE: 15.0, COMPILED: 8.0}}
KAFKA_MEMBERS_MAX = 3_000
"""Kafka keeps three files for each of as many partitions."""
_numbers = itertools.count()

Connect = Callable[[str], contextlib.AbstractContextManager[Callable[[], None]]]
"""A function from an address to the context in which a group's members connect."""


def measure(servers: Servers, rounds: Rounds) -> Iterator[Figure]:
    """Form groups of MEMBERS members in turns on all servers."""
    groups: dict[str, Connect] = {
        f"KIP-848 group of {MEMBERS:,} forms": consumer_group,
        f"classic group of {MEMBERS:,} forms": classic_group,
    }
    for name, connect in groups.items():
        if not rounds.includes(name):
            continue
        for server in servers.values():
            create_topic(server.address, _topic(MEMBERS), MEMBERS)
        sides = {
            side: partial(_timed, server, connect) for side, server in servers.items()
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


def _timed(server: Server, connect: Connect) -> tuple[Sample, Sample]:
    wait_until_idle(server)
    with connect(server.address) as form:
        began, before = time.perf_counter(), server.cpu_s
        form()
        seconds, cpu_s = time.perf_counter() - began, server.cpu_s - before
    return Sample(value=seconds), Sample(value=max(cpu_s, 0.01))


@contextlib.contextmanager
def consumer_group(address: str) -> Iterator[Callable[[], None]]:
    """Connect members; yield the function that forms a KIP-848 group of them."""
    group = f"forming-{next(_numbers)}"
    connections = [Connection(address) for _ in range(CONNECTIONS)]
    members = [
        JoinedMember(connections[number % CONNECTIONS], group, f"{group}-{number}")
        for number in range(MEMBERS)
    ]
    try:
        yield partial(_form, members)
    finally:
        for connection in connections:
            connection.close()


def _form(members: Sequence[JoinedMember]) -> None:
    deadline = time.monotonic() + LIMIT_S
    for member in members:
        member.send_join(_topic(MEMBERS))
    changed = _receive(members)
    while not has_formed(members):
        now = time.monotonic()
        if now > deadline:
            raise RuntimeError(f"{members[0].group} did not form in {LIMIT_S:.0f} s")
        time.sleep(EVERY_S - now % EVERY_S)
        for member in members:
            member.send_heartbeat(with_partitions=member.member_id in changed)
        changed = _receive(members)


def _receive(members: Sequence[JoinedMember]) -> set[str]:
    """Receive a response for each member; return the ids of those that changed."""
    return {member.member_id for member in members if member.receive()}


def has_formed(members: Sequence[JoinedMember]) -> bool:
    """Return whether each member has one partition, and all have the same epoch."""
    return {_owned([member]) for member in members} == {1} and len(
        {member.epoch for member in members}
    ) == 1


def _owned(members: Sequence[JoinedMember]) -> int:
    return sum(len(part.partitions) for each in members for part in each.owned or ())


@contextlib.contextmanager
def classic_group(address: str) -> Iterator[Callable[[], None]]:
    """Connect members; yield the function that forms a classic group of them."""
    group = f"forming-{next(_numbers)}"
    with classic_groups.connected(address, [group], MEMBERS) as members:
        yield partial(classic_groups.form, members, SESSION_MS)


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
