"""Measure heartbeats, commits and fetches of offsets, compared with Apache Kafka.

One core for each server, in turns, the generator on the other; the same frames but for
members and epochs. The data of both is on the same disk; Coterie syncs it before it
responds, Kafka does not. Kafka is warmed up with each load for WARM_UP_S first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import WARM_UP_S, LoadResult, LoadShape, load
from benchmarks.harness.processes import (
    Server,
    coterie_command,
    python,
    running,
    scratch,
)
from benchmarks.peers import consumer_groups, offset_requests
from benchmarks.peers.connection import create_topic, frame
from benchmarks.peers.consumer_groups import joined

TOPIC, PARTITIONS = "t", 50
KAFKA_WARM_UP_S = 6.0

Frames = Callable[[str, str], Sequence[bytes]]
"""A function from a server's address and a group prefix to the frames of a load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A load, and the bar of its rate (or of its time) relative to Kafka's."""

    name: str
    frames: Frames
    shape: LoadShape
    bar: float
    is_latency: bool = False


def heartbeats(address: str, prefix: str, *, groups: int, size: int) -> list[bytes]:
    """Return the heartbeats of the members of stable KIP-848 groups."""
    names = [f"{prefix}-{number}" for number in range(groups)]
    return consumer_groups.heartbeat_frames(address, names, size, TOPIC)


def commits(address: str, prefix: str, *, partitions: int) -> list[bytes]:
    """Return commits by the members of five KIP-848 groups of ten."""
    names = [f"{prefix}-{number}" for number in range(5)]
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


def fetches(address: str, prefix: str) -> list[bytes]:
    """Return OffsetFetch requests for three groups of 50 offsets each."""
    groups = [f"{prefix}-{number}" for number in range(3)]
    offset_requests.commit_offsets(address, groups, TOPIC, PARTITIONS)
    request = offset_requests.offset_fetch(groups, TOPIC, range(PARTITIONS))
    return [frame(request, offset_requests.OFFSET_FETCH)]


_BEAT = partial(LoadShape, error_at=consumer_groups.ERROR_AT)
_COMMIT = partial(LoadShape, error_at=offset_requests.COMMIT_ERROR_AT)
_FETCH = partial(LoadShape, error_at=offset_requests.OFFSET_FETCH_ERROR_AT)
_MANY = partial(heartbeats, groups=20, size=50)
_TEN = partial(commits, partitions=10)
ROWS = (
    Row(name="heartbeats", frames=_MANY, shape=_BEAT(connections=50), bar=1.8),
    Row(
        name="heartbeats, 16 in flight",
        frames=_MANY,
        shape=_BEAT(connections=50, in_flight=16),
        bar=1.8,
    ),
    Row(
        name="heartbeat, p50 of one connection",
        frames=partial(heartbeats, groups=1, size=10),
        shape=_BEAT(connections=1),
        bar=1.0,
        is_latency=True,
    ),
    Row(name="commits of 10", frames=_TEN, shape=_COMMIT(connections=50), bar=0.8),
    Row(
        name="commits of 10, 4 in flight",
        frames=_TEN,
        shape=_COMMIT(connections=50, in_flight=4),
        bar=0.8,
    ),
    Row(
        name="commit of 10, p50 of one connection",
        frames=_TEN,
        shape=_COMMIT(connections=1),
        bar=2.0,
        is_latency=True,
    ),
    Row(
        name="commits of 50",
        frames=partial(commits, partitions=50),
        shape=_COMMIT(connections=20),
        bar=0.8,
    ),
    Row(
        name="fetches of 3 x 50 offsets",
        frames=fetches,
        shape=_FETCH(connections=50),
        bar=1.0,
    ),
)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure every row on both servers."""
    with scratch() as home:
        log = home / "log"
        kafka = [*python("peers.apache_kafka"), str(home / "kafka")]
        with (
            running(kafka, log) as theirs,
            running(coterie_command("--data", str(home / "data")), log) as ours,
        ):
            for server in (ours, theirs):
                create_topic(server.address, TOPIC, PARTITIONS)
            for number, row in enumerate(ROWS):
                yield _measure(row, f"g{number}", (ours, theirs), rounds)


def _measure(
    row: Row, prefix: str, servers: tuple[Server, Server], rounds: Rounds
) -> Figure:
    ours, theirs = servers
    to_theirs = row.frames(theirs.address, prefix)
    warm_up = Rounds(1, KAFKA_WARM_UP_S)
    load(theirs.address, to_theirs, row.shape, warm_up)
    to_ours = row.frames(ours.address, prefix)
    pairs = alternate(
        rounds,
        lambda: _load(ours, to_ours, row.shape, rounds),
        lambda: _load(theirs, to_theirs, row.shape, rounds),
    )
    (one, cpu_us), (other, kafka_cpu_us) = pairs[-1]
    detail = f"{one}, {cpu_us:.0f} us CPU | Kafka {other}, {kafka_cpu_us:.0f} us CPU"
    if row.is_latency:
        value = median_ratio([(a.p50_us, b.p50_us) for (a, _), (b, _) in pairs])
        side = Bar.AT_MOST
    else:
        value = median_ratio([(a.rate, b.rate) for (a, _), (b, _) in pairs])
        side = Bar.AT_LEAST
    name = f"{row.name}: relative to Kafka"
    return Figure(name=name, value=value, bar=row.bar, side=side, detail=detail)


def _load(
    server: Server, frames: Sequence[bytes], shape: LoadShape, rounds: Rounds
) -> tuple[LoadResult, float]:
    """Return the result of a round, and the server's CPU time per request in us."""
    before = server.cpu_s
    result = load(server.address, frames, shape, rounds)
    requests = result.rate * (rounds.seconds + WARM_UP_S)
    return result, (server.cpu_s - before) / requests * 1e6
