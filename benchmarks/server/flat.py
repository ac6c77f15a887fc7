"""Compare requests with few and many topics, in small and large groups.

A heartbeat of a stable member, a commit, an OffsetFetch of one partition and a Fetch of
one partition: with 10 topics against 2,000, and in a group of 1 member against one of
2,000. Bar: 1.3 times the time on the small server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import LoadShape, load
from benchmarks.harness.processes import (
    coterie_command,
    open_files,
    running,
    scratch,
    settings,
)
from benchmarks.peers.classic_groups import JoinedMember, joined
from benchmarks.peers.connection import Connection, create_topic, frame
from benchmarks.peers.offset_requests import (
    COMMIT,
    COMMIT_ERROR_AT,
    OFFSET_FETCH,
    OFFSET_FETCH_ERROR_AT,
    commit,
    fetch_error_at,
    fetch_frame,
    offset_fetch,
)
from coterie.wire import messages as m

SMALL_TOPICS, MANY_TOPICS, MANY_MEMBERS = 10, 2_000, 2_000
TOPIC = "t0"
CONNECTIONS = 10
HEARTBEAT, HEARTBEAT_ERROR_AT = 4, 9
BAR = 1.3


@dataclass(frozen=True, slots=True)
class Scenario:
    """A server with topics, and one member of its group."""

    address: str
    member: JoinedMember


@contextlib.contextmanager
def scenario(folder: Path, *, topics: int, group_size: int) -> Iterator[Scenario]:
    """Start a server with a stable group that has an offset for every topic."""
    folder.mkdir()
    quick = settings(group_initial_rebalance_delay_ms=1_000)
    with (
        open_files(2 * MANY_MEMBERS + 1_000),
        running(coterie_command("--memory", *quick), folder / "log") as server,
    ):
        for number in range(topics):
            create_topic(server.address, f"t{number}", 1)
        # The session outlives the rounds, in which only one member sends heartbeats.
        with joined(server.address, ["g"], group_size, session_ms=1_800_000) as members:
            _commit_all(server.address, members[0], topics)
            yield Scenario(server.address, members[0])


def _commit_all(address: str, member: JoinedMember, topics: int) -> None:
    with Connection(address) as peer:
        for number in range(topics):
            request = _commit(member, f"t{number}")
            answer = peer.call(request, m.OffsetCommitResponse, COMMIT)
            assert answer.topics[0].partitions[0].error_code == 0


def _commit(member: JoinedMember, topic: str) -> m.OffsetCommitRequest:
    return commit(
        member.group,
        topic,
        1,
        member_id=member.member_id,
        generation=member.generation,
    )


def requests(scenario: Scenario) -> dict[str, tuple[bytes, int]]:
    """Return the measured frames by name, each with the place of its error code."""
    member = scenario.member
    commits = frame(_commit(member, TOPIC), COMMIT)
    fetches = frame(offset_fetch([member.group], TOPIC, [0]), OFFSET_FETCH)
    return {
        "heartbeat": (frame(member.heartbeat(), HEARTBEAT), HEARTBEAT_ERROR_AT),
        "commit": (commits, COMMIT_ERROR_AT),
        "offset fetch": (fetches, OFFSET_FETCH_ERROR_AT),
        "fetch": (fetch_frame(TOPIC), fetch_error_at(TOPIC)),
    }


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Run three servers at once; in each compared pair one number differs."""
    with scratch() as home, contextlib.ExitStack() as stack:

        def make(name: str, topics: int, members: int) -> Scenario:
            context = scenario(home / name, topics=topics, group_size=members)
            return stack.enter_context(context)

        small = make("small", SMALL_TOPICS, 1)
        topical = make("topics", MANY_TOPICS, 1)
        crowded = make("members", SMALL_TOPICS, MANY_MEMBERS)
        yield from _compare(small, topical, f"{MANY_TOPICS:,} topics of 10", rounds)
        yield from _compare(small, crowded, f"{MANY_MEMBERS:,} members of 1", rounds)


def _compare(
    small: Scenario, large: Scenario, what: str, rounds: Rounds
) -> Iterator[Figure]:
    to_small, to_large = requests(small), requests(large)
    for name, (_, error_at) in to_small.items():
        shape = LoadShape(connections=CONNECTIONS, error_at=error_at)

        pairs = alternate(
            rounds,
            partial(load, small.address, [to_small[name][0]], shape, rounds),
            partial(load, large.address, [to_large[name][0]], shape, rounds),
        )
        yield Figure(
            name=f"{name}: time with {what}",
            value=median_ratio([(few.rate, many.rate) for few, many in pairs]),
            bar=BAR,
            side=Bar.AT_MOST,
            detail=f"{pairs[-1][0].rate:,.0f}/s | {pairs[-1][1].rate:,.0f}/s",
        )
