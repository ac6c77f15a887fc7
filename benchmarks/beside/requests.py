"""Heartbeats, commits and fetches of offsets: one frame for one response.

The frames of each server are made for it, because members and epochs differ. The loads
of Kafka are warmed up for KAFKA_WARM_UP_S, those of the others for OUR_WARM_UP_S.
"""

from __future__ import annotations

import contextlib
import operator
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.beside.servers import (
    BARE,
    FLOOR,
    KAFKA,
    MOCK,
    Against,
    Round,
    Sample,
    Servers,
    absolute,
    compare,
    median_cpu,
    sample,
)
from benchmarks.harness.figures import Bar, Figure, Rounds, reported, take_turns
from benchmarks.harness.load import LoadResult, LoadShape
from benchmarks.harness.processes import SERVER_CPU, Server, python, running
from benchmarks.harness.table import COMPILED, PURE
from benchmarks.peers import consumer_groups, offset_requests
from benchmarks.peers.connection import create_topic, create_topics, frame
from benchmarks.peers.consumer_groups import joined

TOPIC, PARTITIONS = "t", 50
MOCK_TOPICS, MOCK_PARTITIONS = tuple(f"m{number}" for number in range(5)), 4
KAFKA_WARM_UP_S, OUR_WARM_UP_S = 6.0, 1.0
BARE_BYTES = 1_024
"""About the size of a batch of ten committed offsets."""
BARE_FILE_BYTES = 8 << 20

Frames = Callable[[str], Sequence[bytes]]
"""A function from a server's address to the frames of a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A load and its comparisons.

    A row of latency compares the p50 of one connection, the others compare rates.
    `mock_frames` replaces the frames for librdkafka's mock. `cpu_bars` are bars of the
    CPU time of a request.
    """

    name: str
    frames: Frames
    shape: LoadShape
    against: Sequence[Against]
    is_latency: bool = False
    mock_frames: Frames | None = None
    cpu_bars: Mapping[str, float] = field(default_factory=dict)


def heartbeats(address: str, *, groups: int, size: int) -> list[bytes]:
    """Return the heartbeats of the members of stable KIP-848 groups."""
    names = [f"beat{size}-{number}" for number in range(groups)]
    return consumer_groups.heartbeat_frames(address, names, size, TOPIC)


def commits(address: str, *, partitions: int) -> list[bytes]:
    """Return commits by the members of five KIP-848 groups of ten."""
    names = [f"commit{partitions}-{number}" for number in range(5)]
    with joined(address, names, 10, TOPIC) as members:
        return [
            frame(
                offset_requests.commit(
                    member.group,
                    TOPIC,
                    partitions,
                    member_id=member.member_id,
                    generation=member.epoch,
                ),
                offset_requests.COMMIT,
            )
            for member in members
        ]


def spread_commits(address: str) -> list[bytes]:
    """Return commits of two partitions of five topics, by groups without members.

    The topics of librdkafka's mock have four partitions.
    """
    del address
    requests = []
    for number in range(PARTITIONS):
        group = f"spread-{number}"
        parts = [offset_requests.commit(group, topic, 2) for topic in MOCK_TOPICS]
        whole = parts[0]
        whole.topics = [part.topics[0] for part in parts]
        requests.append(frame(whole, offset_requests.COMMIT))
    return requests


def fetches(address: str) -> list[bytes]:
    """Return one OffsetFetch request for three groups of 50 offsets each."""
    groups = _fetched_groups()
    offset_requests.commit_offsets(address, groups, TOPIC, PARTITIONS)
    request = offset_requests.offset_fetch(groups, TOPIC, range(PARTITIONS))
    return [frame(request, offset_requests.OFFSET_FETCH)]


def fetches_and_commits(address: str) -> list[bytes]:
    """Return that request three times, then a commit by one of its groups, for each."""
    (fetch,) = fetches(address)
    frames = []
    for group in _fetched_groups():
        commit = offset_requests.commit_frame(group, TOPIC, 10)
        frames += [fetch, fetch, fetch, commit]
    return frames


def _fetched_groups() -> list[str]:
    return [f"fetch-{number}" for number in range(3)]


_BEAT = partial(LoadShape, error_at=consumer_groups.ERROR_AT)
_COMMIT = partial(LoadShape, error_at=offset_requests.COMMIT_ERROR_AT)
_FETCH = partial(LoadShape, error_at=offset_requests.OFFSET_FETCH_ERROR_AT)
_MEMBERS = partial(heartbeats, groups=20, size=50)
# In larger groups the mock refuses heartbeats until the group is stable.
_SINGLE_MEMBERS = partial(heartbeats, groups=200, size=1)
_TEN = partial(commits, partitions=10)


def _against(
    other: str, pure: float | None = None, compiled: float | None = None
) -> Against:
    bars = {PURE: pure, COMPILED: compiled}
    return Against(
        other=other, bars={key: bar for key, bar in bars.items() if bar is not None}
    )


ROWS = (
    Row(
        name="KIP-848 heartbeats, 50 connections",
        frames=_MEMBERS,
        mock_frames=_SINGLE_MEMBERS,
        shape=_BEAT(connections=50),
        against=(
            _against(KAFKA, 1.8, 2.2),
            _against(FLOOR, 0.9, 1.0),
            _against(MOCK, 0.6, 0.8),
        ),
    ),
    Row(
        name="KIP-848 heartbeats, 16 in flight",
        frames=_MEMBERS,
        mock_frames=_SINGLE_MEMBERS,
        shape=_BEAT(connections=50, in_flight=16),
        against=(_against(KAFKA, 1.8, 2.2), _against(MOCK, 1.5, 4.0)),
    ),
    Row(
        name="KIP-848 heartbeat, 1 connection, p50",
        frames=_MEMBERS,
        shape=_BEAT(connections=1),
        against=(_against(KAFKA, 1.0, 1.0),),
        is_latency=True,
    ),
    Row(
        name="commits of 10, 50 connections",
        frames=_TEN,
        shape=_COMMIT(connections=50),
        against=(_against(KAFKA, 0.8, 1.5),),
        cpu_bars={PURE: 35, COMPILED: 18},
    ),
    Row(
        name="commits of 10, 4 in flight",
        frames=_TEN,
        shape=_COMMIT(connections=50, in_flight=4),
        against=(_against(KAFKA, 0.8, 1.5),),
    ),
    Row(
        name="commit of 10, 1 connection, p50",
        frames=_TEN,
        shape=_COMMIT(connections=1),
        against=(_against(KAFKA), _against(BARE, 2.0, 1.5)),
        is_latency=True,
    ),
    Row(
        name="commits of 50, 20 connections",
        frames=partial(commits, partitions=50),
        shape=_COMMIT(connections=20),
        against=(_against(KAFKA, 0.8, 1.5),),
    ),
    Row(
        name="commits of 5 topics x 2, 50 connections",
        frames=spread_commits,
        shape=_COMMIT(connections=50),
        against=(_against(MOCK),),
    ),
    Row(
        name="fetches of 3 groups x 50 offsets, 50 connections",
        frames=fetches,
        shape=_FETCH(connections=50),
        against=(_against(KAFKA, 1.0, 1.5),),
    ),
    Row(
        name="fetches of 3 groups x 50 offsets, each fourth request a commit",
        frames=fetches_and_commits,
        # In a response to a commit, this has the low byte of the error code.
        shape=_FETCH(connections=50),
        against=(_against(KAFKA),),
    ),
)
CONNECTIONS = (1, 50, 500)
COMMITS_BY_CONNECTIONS = tuple(
    Row(
        name=f"commits of 10, {count} connections",
        frames=_TEN,
        shape=_COMMIT(connections=count),
        against=(_against(KAFKA),),
    )
    for count in CONNECTIONS
)


def measure_rows(
    rows: Sequence[Row], servers: Servers, home: Path, rounds: Rounds
) -> Iterator[Figure]:
    """Measure the rows that `rounds` includes."""
    rows = [row for row in rows if rounds.includes(row.name)]
    others = {each.other for row in rows for each in row.against}
    with contextlib.ExitStack() as stack:
        everything = dict(servers)
        for name, module in PEERS.items():
            if name in others:
                peer = running(python(module), home / "log")
                everything[name] = stack.enter_context(peer)
        frames = _FrameCache(everything)
        for name, server in everything.items():
            if name not in PEERS:
                prepare(server.address)
        for row in rows:
            figures = _measure(row, everything, frames, home, rounds)
            yield from reported(row.name, figures)


def prepare(address: str) -> None:
    """Create the topics of all rows."""
    create_topic(address, TOPIC, PARTITIONS)
    create_topics(address, MOCK_TOPICS, MOCK_PARTITIONS)


PEERS = {FLOOR: "peers.asyncio_floor", MOCK: "peers.librdkafka_mock"}


class _FrameCache:
    """The frames of each server and load: groups form once for several rows."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._frames: dict[tuple[str, Frames], Sequence[bytes]] = {}

    def of(self, row: Row, side: str) -> Sequence[bytes]:
        """Return the frames of a row for a side."""
        source = row.frames
        if side == MOCK and row.mock_frames is not None:
            source = row.mock_frames
        # The floor accepts every frame.
        maker = PURE if side == FLOOR else side
        key = (maker, source)
        if key not in self._frames:
            self._frames[key] = source(self._servers[maker].address)
        return self._frames[key]


def _measure(
    row: Row,
    servers: Servers,
    frames: _FrameCache,
    home: Path,
    rounds: Rounds,
) -> Iterator[Figure]:
    names = [name for name in servers if name in (PURE, COMPILED)]
    names += [each.other for each in row.against if each.other != BARE]
    value = operator.attrgetter("p50_us" if row.is_latency else "rate")
    sides: dict[str, Callable[[], Sample]] = {}
    for name in names:
        server, to_server = servers[name], frames.of(row, name)
        warm_up_s = KAFKA_WARM_UP_S if name == KAFKA else OUR_WARM_UP_S
        _warm_up(server, to_server, row.shape, warm_up_s)
        sides[name] = partial(sample, server, to_server, row.shape, rounds, value)
    if any(each.other == BARE for each in row.against):
        sides[BARE] = lambda: Sample(value=bare_sync_us(home / "bare", rounds.seconds))
    results = take_turns(rounds, sides)
    side = Bar.AT_MOST if row.is_latency else Bar.AT_LEAST
    describe = _microseconds if row.is_latency else _per_second
    for against in row.against:
        yield from compare(row.name, results, against, describe, side)
    if row.cpu_bars:
        yield from _cpu_figures(row, results)


def _warm_up(
    server: Server, frames: Sequence[bytes], shape: LoadShape, seconds: float
) -> None:
    def rate(result: LoadResult) -> float:
        return result.rate

    sample(server, frames, shape, Rounds(1, seconds), rate)


def _cpu_figures(row: Row, results: Sequence[Round]) -> Iterator[Figure]:
    values = {side: median_cpu(results, side) for side in results[0]}
    yield from absolute(f"{row.name}: server CPU", values, row.cpu_bars, "us")


def bare_sync_us(path: Path, seconds: float) -> float:
    """Return the median time of a write and fdatasync into a pre-allocated file.

    The file is pre-allocated because in a growing file fdatasync also writes metadata.
    It runs on the servers' core, where it competes with the same processes as they.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {SERVER_CPU})
    block, times = bytes(BARE_BYTES), []
    path.write_bytes(bytes(BARE_FILE_BYTES))
    file = os.open(path, os.O_WRONLY)
    os.fsync(file)
    at = 0
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        os.pwrite(file, block, at)
        os.fdatasync(file)
        times.append(time.perf_counter() - began)
        at = (at + BARE_BYTES) % BARE_FILE_BYTES
    os.close(file)
    os.sched_setaffinity(0, cores)
    return statistics.median(times) * 1e6


def _microseconds(value: float) -> str:
    return f"{value:,.0f} us"


def _per_second(value: float) -> str:
    return f"{value:,.0f}/s"
