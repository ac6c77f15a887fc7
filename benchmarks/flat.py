"""Does a request cost more because much else exists?

A steady heartbeat, a commit, a look at one committed offset and a fetch of one
partition: with 10 topics against 2,000, and in a group of 1 member against one of
2,000. Bar: 1.3 times the time of the small world.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.classic import Joined, joined
from benchmarks.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.generator import Shape, load
from benchmarks.offsets import (
    COMMIT,
    COMMIT_ERROR_AT,
    OFFSET_FETCH,
    OFFSET_FETCH_ERROR_AT,
    commit,
    fetch_error_at,
    fetch_frame,
    offset_fetch,
)
from benchmarks.peer import Peer, create_topic, frame
from benchmarks.processes import coterie_command, open_files, running, scratch, settings
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)

SMALL_TOPICS, MANY_TOPICS, MANY_MEMBERS = 10, 2_000, 2_000
TOPIC = "t0"
CONNECTIONS = 10
HEARTBEAT, HEARTBEAT_ERROR_AT = 4, 9
BAR = 1.3


@dataclass(frozen=True, slots=True)
class World:
    """A server with so many topics, and one group with so many members."""

    address: str
    member: Joined


@contextlib.contextmanager
def world(folder: Path, *, topics: int, members: int) -> Iterator[World]:
    """Start it and fill it; the group has committed an offset of every topic."""
    folder.mkdir()
    quick = settings(group_initial_rebalance_delay_ms=1_000)
    with (
        open_files(2 * MANY_MEMBERS + 1_000),
        running(coterie_command("--memory", *quick), folder / "log") as server,
    ):
        for number in range(topics):
            create_topic(server.address, f"t{number}", 1)
        # A session that outlives the rounds: only one of the members beats in them.
        with joined(server.address, ["g"], members, session_ms=1_800_000) as everybody:
            _commit_all(server.address, everybody[0], topics)
            yield World(server.address, everybody[0])


def _commit_all(address: str, member: Joined, topics: int) -> None:
    with Peer(address) as peer:
        for number in range(topics):
            request = _commit(member, f"t{number}")
            answer = peer.call(request, OffsetCommitResponse, COMMIT)
            assert answer.topics[0].partitions[0].error_code == 0


def _commit(member: Joined, topic: str) -> OffsetCommitRequest:
    return commit(
        member.group,
        topic,
        1,
        member_id=member.member_id,
        generation=member.generation,
    )


def requests(one: World) -> dict[str, tuple[bytes, int]]:
    """By name, the frame that is sent over and over and where its error stands."""
    member = one.member
    commits = frame(_commit(member, TOPIC), COMMIT)
    fetches = frame(offset_fetch(member.group, TOPIC, 0), OFFSET_FETCH)
    return {
        "heartbeat": (frame(member.heartbeat(), HEARTBEAT), HEARTBEAT_ERROR_AT),
        "commit": (commits, COMMIT_ERROR_AT),
        "offset fetch": (fetches, OFFSET_FETCH_ERROR_AT),
        "fetch": (fetch_frame(TOPIC), fetch_error_at(TOPIC)),
    }


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Three worlds at once; each pair of them differs in one number."""
    with scratch() as home, contextlib.ExitStack() as stack:

        def make(name: str, topics: int, members: int) -> World:
            made = world(home / name, topics=topics, members=members)
            return stack.enter_context(made)

        small = make("small", SMALL_TOPICS, 1)
        topical = make("topics", MANY_TOPICS, 1)
        crowded = make("members", SMALL_TOPICS, MANY_MEMBERS)
        yield from _compare(small, topical, f"{MANY_TOPICS:,} topics of 10", rounds)
        yield from _compare(small, crowded, f"{MANY_MEMBERS:,} members of 1", rounds)


def _compare(small: World, large: World, what: str, rounds: Rounds) -> Iterator[Figure]:
    to_small, to_large = requests(small), requests(large)
    for name, (_, error_at) in to_small.items():
        shape = Shape(connections=CONNECTIONS, error_at=error_at)

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
