"""The server's CPU time of a commit, when the server has much state and little.

Four servers of one build run at once. The first has one topic and a group of one
member; each other one differs in one number: topics, members, committed offsets.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.beside.servers import Sample, builds, coterie, sample, wait_until_idle
from benchmarks.harness.figures import Bar, Figure, Rounds, take_turns
from benchmarks.harness.load import LoadResult, LoadShape
from benchmarks.harness.processes import Server, scratch
from benchmarks.peers import offset_requests
from benchmarks.peers.connection import create_topics, frame
from benchmarks.peers.consumer_groups import joined

SMALL, TOPICS, MEMBERS, OFFSETS = "little", "topics", "members", "offsets"
MANY_TOPICS, MANY_MEMBERS = 2_000, 2_000
GROUPS, OFFSETS_PER_GROUP = 1_000, 1_000
STATES = {
    TOPICS: f"{MANY_TOPICS:,} topics",
    MEMBERS: f"{MANY_MEMBERS:,} members",
    OFFSETS: f"{GROUPS * OFFSETS_PER_GROUP:,} offsets",
}
TOPIC, WIDE_TOPIC, PARTITIONS = "t", "wide", 10
ROUNDS_MAX, SECONDS_MAX = 3, 1.0
"""CPU times differ less between rounds than rates."""
SHAPE = LoadShape(connections=10, error_at=offset_requests.COMMIT_ERROR_AT)
BAR = 1.2


@dataclass(frozen=True, slots=True)
class Loaded:
    """A server with its state, and the measured frames."""

    server: Server
    frames: Sequence[bytes]


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Measure each build by itself."""
    names = {state: f"commit of 10 with {what}: CPU" for state, what in STATES.items()}
    states = [state for state, name in names.items() if rounds.includes(name)]
    if not states:
        return
    rounds = Rounds(min(rounds.times, ROUNDS_MAX), min(rounds.seconds, SECONDS_MAX))
    for build in builds():
        with contextlib.ExitStack() as stack:
            home = stack.enter_context(scratch())
            loaded = {
                state: stack.enter_context(_loaded(build, home, state))
                for state in (SMALL, *states)
            }
            results = take_turns(
                rounds,
                {state: partial(_cpu, each, rounds) for state, each in loaded.items()},
            )
        for state in states:
            yield _figure(names[state], build, state, results)


def _figure(
    name: str, build: str, state: str, results: Sequence[dict[str, Sample]]
) -> Figure:
    ratios = [each[state].value / each[SMALL].value for each in results]
    few, many = (
        statistics.median(each[key].value for each in results) for key in (SMALL, state)
    )
    return Figure(
        name=f"{name}: of that with little state",
        value=statistics.median(ratios),
        bar=BAR,
        side=Bar.AT_MOST,
        build=build,
        ours=f"{few:.0f} to {many:.0f} us",
        other="itself",
        cpu_us=many,
        detail=f"rounds {min(ratios):.2f} to {max(ratios):.2f}",
    )


def _cpu(loaded: Loaded, rounds: Rounds) -> Sample:
    def rate(result: LoadResult) -> float:
        return result.rate

    measured = sample(loaded.server, loaded.frames, SHAPE, rounds, rate)
    assert measured.cpu_us is not None
    return Sample(value=measured.cpu_us)


@contextlib.contextmanager
def _loaded(build: str, home: Path, state: str) -> Iterator[Loaded]:
    """Run a server with one kind of large state, or with little."""
    with coterie(build, home, state) as server:
        address = server.address
        create_topics(address, [TOPIC], PARTITIONS)
        if state == TOPICS:
            names = [f"topic-{number}" for number in range(MANY_TOPICS)]
            create_topics(address, names, 1)
            for name in names:
                offset_requests.commit_offsets(address, ["g"], name, 1)
        if state == OFFSETS:
            create_topics(address, [WIDE_TOPIC], OFFSETS_PER_GROUP)
            groups = [f"group-{number}" for number in range(GROUPS)]
            offset_requests.commit_offsets(
                address, groups, WIDE_TOPIC, OFFSETS_PER_GROUP
            )
        size = MANY_MEMBERS if state == MEMBERS else 1
        with joined(address, ["g"], size, TOPIC) as members:
            request = offset_requests.commit(
                "g",
                TOPIC,
                PARTITIONS,
                member_id=members[0].member_id,
                generation=members[0].epoch,
            )
        wait_until_idle(server)
        yield Loaded(server, [frame(request, offset_requests.COMMIT)])
