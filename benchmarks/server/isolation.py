"""Measure the heartbeats of ordinary clients while one client is hostile.

Ten members of ten groups send a heartbeat every 50 ms each, on schedule, whether the
last one was answered or not. Beside them, one hostile client in its own process sends
requests that cost a server far more than their bytes: offsets of thousands of refused
topics, compressed batches of millions of records, pipelined Metadata of 50,000
partitions, a frame of millions of empty names, frames that never end, a flood of
ordinary requests, and requests of tens of thousands of groups, topics or partitions.
Bars: the heartbeats' p99 is at most 3 times their p99 on the same server without the
hostile client, and the server's peak memory stays under 400 MB.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import GENERATOR_CPU
from benchmarks.harness.processes import (
    Server,
    coterie_command,
    running,
    scratch,
    settings,
)
from benchmarks.peers.classic_groups import JoinedMember, joined
from benchmarks.peers.connection import Connection, frame
from benchmarks.peers.hostile import KINDS
from coterie.wire import messages as m

MEMBERS = 10
INTERVAL_S = 0.005
"""The time between two heartbeats, of one member and the next."""
VERSION, ERROR_AT = 4, 9
SESSION_MS = 1_800_000
GRACE_S = 3.0
"""The time to wait for late responses after a round; then they count as that late."""
P99_BAR, MEMORY_BAR_MB = 3.0, 400
PREPARE_S = 120.0
IDLE_S = 0.2


@dataclass(slots=True)
class Observer:
    """A member's connection, without blocking; the times at which it sent what is not
    answered yet."""

    heartbeat: bytes
    socket: socket.socket
    sent: deque[float] = field(default_factory=deque)
    buffer: bytearray = field(default_factory=bytearray)

    def send(self) -> None:
        """Send a heartbeat."""
        self.sent.append(time.perf_counter())
        self.socket.sendall(self.heartbeat)

    def read(self) -> Iterator[float]:
        """Read what has arrived; yield the latency of each response, in seconds."""
        now = time.perf_counter()
        piece = self.socket.recv(65_536)
        if not piece:
            raise RuntimeError("the server disconnected an ordinary client")
        self.buffer += piece
        while len(self.buffer) >= 4:
            (size,) = struct.unpack_from(">i", self.buffer)
            if len(self.buffer) < 4 + size:
                return
            (code,) = struct.unpack_from(">h", self.buffer, 4 + ERROR_AT)
            if code:
                raise RuntimeError(f"a heartbeat was answered with error {code}")
            del self.buffer[: 4 + size]
            yield now - self.sent.popleft()


@contextlib.contextmanager
def observers(server: Server) -> Iterator[list[Observer]]:
    """Join the groups; close the connections at the end."""
    host, _, port = server.address.rpartition(":")
    groups = [f"observed-{number}" for number in range(MEMBERS)]
    with (
        joined(server.address, groups, 1, session_ms=SESSION_MS) as members,
        contextlib.ExitStack() as stack,
    ):
        yield [_observer(stack, host, int(port), member) for member in members]


def _observer(
    stack: contextlib.ExitStack, host: str, port: int, member: JoinedMember
) -> Observer:
    connected = socket.create_connection((host, port), timeout=PREPARE_S)
    stack.enter_context(connected)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Observer(frame(member.heartbeat(), VERSION), connected)


def observe(peers: Sequence[Observer], seconds: float) -> list[float]:
    """Send heartbeats on schedule; return the latencies, in ms and sorted."""
    latencies: list[float] = []
    sockets = {peer.socket: peer for peer in peers}
    began = time.perf_counter()
    for number in range(round(seconds / INTERVAL_S)):
        due = began + number * INTERVAL_S
        while (left := due - time.perf_counter()) > 0:
            _read(sockets, left, latencies)
        peers[number % len(peers)].send()
    ends = time.perf_counter() + GRACE_S
    while any(peer.sent for peer in peers):
        left = ends - time.perf_counter()
        if left <= 0:
            break
        _read(sockets, left, latencies)
    now = time.perf_counter()
    latencies += [now - at for peer in peers for at in peer.sent]
    return sorted(each * 1_000 for each in latencies)


def _read(
    sockets: dict[socket.socket, Observer], wait_s: float, latencies: list[float]
) -> None:
    # select() waits in microseconds, epoll in whole milliseconds.
    for each in select.select(list(sockets), (), (), wait_s)[0]:
        latencies += sockets[each].read()


def p99(latencies: Sequence[float]) -> float:
    """Return the 99th percentile of sorted values."""
    return latencies[min(len(latencies) * 99 // 100, len(latencies) - 1)]


@contextlib.contextmanager
def hostile(kind: str, address: str, seconds: float) -> Iterator[dict[str, int]]:
    """Run a hostile client beside a `with` block; its tally is complete afterwards."""
    tally: dict[str, int] = {}
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.peers.hostile", kind, address, f"{seconds}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"hostile client {kind!r} could not prepare")
            process.stdin.write("go\n")
            process.stdin.flush()
            yield tally
            output, _ = process.communicate(timeout=seconds + PREPARE_S)
            tally |= json.loads(output)
        finally:
            process.kill()


@contextlib.contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Pin this process and its new children to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def wait_until_idle(server: Server) -> None:
    """Wait until the server has done the work of the round before."""
    ends = time.monotonic() + PREPARE_S
    is_busy = True
    while is_busy and time.monotonic() < ends:
        before = server.cpu_s
        time.sleep(IDLE_S)
        is_busy = server.cpu_s - before > IDLE_S / 4
    with Connection(server.address) as connection:
        connection.call(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)


@dataclass(slots=True)
class Case:
    """One kind of hostile client against one server."""

    kind: str
    server: Server
    peers: Sequence[Observer]
    seconds: float
    tally: dict[str, int] = field(default_factory=dict)

    def alone(self) -> float:
        """Return the p99 without the hostile client, in ms."""
        self._settle()
        return p99(observe(self.peers, self.seconds))

    def attacked(self) -> float:
        """Return the p99 beside the hostile client, in ms."""
        self._settle()
        with hostile(self.kind, self.server.address, self.seconds) as tally:
            worst = p99(observe(self.peers, self.seconds))
        self.tally = tally
        return worst

    def _settle(self) -> None:
        """Read the late responses of the round before."""
        wait_until_idle(self.server)
        sockets = {peer.socket: peer for peer in self.peers}
        ends = time.monotonic() + PREPARE_S
        while any(peer.sent for peer in self.peers) and time.monotonic() < ends:
            _read(sockets, GRACE_S, [])


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure each kind against its own server."""
    wanted = settings(
        group_initial_rebalance_delay_ms=0,
        authorizer="acl",
        allow_everyone_if_no_acl_found="true",
    )
    for kind in KINDS:
        with (
            scratch() as home,
            running(coterie_command("--memory", *wanted), home / "log") as server,
            observers(server) as peers,
            pinned(GENERATOR_CPU),
        ):
            yield from _figures(Case(kind, server, peers, rounds.seconds), rounds)


def _figures(case: Case, rounds: Rounds) -> Iterator[Figure]:
    observe(case.peers, case.seconds)  # warm up
    pairs = alternate(rounds, case.attacked, case.alone)
    p99s = [statistics.median(side) for side in zip(*pairs, strict=True)]
    answered, sent = case.tally["answered"], case.tally["sent"]
    yield Figure(
        name=f"{case.kind}: heartbeat p99 relative to none",
        value=median_ratio(pairs),
        bar=P99_BAR,
        side=Bar.AT_MOST,
        detail=f"{p99s[0]:.2f} and {p99s[1]:.2f} ms; {answered} of {sent} answered, "
        f"{case.tally['connections']} connections",
    )
    yield Figure(
        name=f"{case.kind}: peak memory of the server",
        value=case.server.peak_mb,
        unit="MB",
        bar=MEMORY_BAR_MB,
        side=Bar.AT_MOST,
    )
