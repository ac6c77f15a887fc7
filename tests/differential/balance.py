"""Compare how evenly and how stickily the assignor `uniform` of Apache Kafka and of
Coterie assigns partitions to members with different subscriptions.

    python -m tests.differential.balance build/kafka --groups 60 --seed 7

Each random group has three or four members. It settles; then one member leaves, the
group settles, and the member joins again. The table has means over all groups.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.differential.servers import Server, both, client_of
from tests.interop.kafka import Unavailable, fetch_jars
from tests.support.waiting import eventually

TOPICS: Final = {"b1": 12, "b2": 7, "b3": 4, "b4": 2}
_SETTLES_S: Final = 10.0

Partition = tuple[bytes, int]
Owners = Mapping[Partition, int]


@dataclass
class _Member:
    member_id: str
    topics: Sequence[str]
    epoch: int = 0
    owned: dict[bytes, list[int]] = field(default_factory=dict)


class Figures(NamedTuple):
    """The measures of one group: the spread, and the partitions that moved between
    members that both stay and may have them, of a leave and of a join."""

    spread: int
    left_spread: int
    moved_by_leave: int
    moved_by_join: int
    excess_by_join: int


class Group:
    """A group on one server, whose members heartbeat one after the other."""

    def __init__(
        self, client: WireClient, group_id: str, wanted: Sequence[Sequence[str]]
    ) -> None:
        self._client = client
        self._group_id = group_id
        self.members = {
            at: _Member(f"{at}-{group_id}", topics) for at, topics in enumerate(wanted)
        }

    def settle(self) -> Owners:
        """Send heartbeats until all partitions have an owner and nothing changes;
        return the owner of each partition."""
        eventually(
            self._is_settled, within_s=_SETTLES_S, expected=f"{self._group_id} settles"
        )
        assert len({each.epoch for each in self.members.values()}) == 1
        return {
            (topic, partition): at
            for at, member in self.members.items()
            for topic, some in member.owned.items()
            for partition in some
        }

    def leave(self, at: int) -> _Member:
        """Let a member leave; return it."""
        member = self.members.pop(at)
        self._call(member, member_epoch=-1)
        member.epoch, member.owned = 0, {}
        return member

    def _is_settled(self) -> bool:
        changes = [self._heartbeat(each) for each in self.members.values()]
        if any(changes):
            return False
        wanted = {topic for each in self.members.values() for topic in each.topics}
        some = [some for each in self.members.values() for some in each.owned.values()]
        return sum(map(len, some)) == sum(TOPICS[topic] for topic in wanted)

    def _heartbeat(self, member: _Member) -> bool:
        """Return whether the member's epoch or assignment changed."""
        fields: dict[str, Any] = {}
        if member.epoch == 0:
            fields = {
                "subscribed_topic_names": [*member.topics],
                "rebalance_timeout_ms": 60_000,
                "server_assignor": "uniform",
            }
        owned = [
            m.TopicPartitions(topic_id=topic, partitions=[*some])
            for topic, some in member.owned.items()
        ]
        response = self._call(
            member, member_epoch=member.epoch, topic_partitions=owned, **fields
        )
        before = member.epoch, member.owned
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.owned = {
                topic.topic_id: sorted(topic.partitions)
                for topic in response.assignment.topic_partitions
                if topic.partitions
            }
        return (member.epoch, member.owned) != before

    def _call(self, member: _Member, **fields: Any) -> Any:
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=member.member_id, **fields
        )
        response = self._client.call(request, 1)
        assert response.error_code == 0, response
        return response


def spread(
    owners: Owners, wanted: Mapping[int, Sequence[str]], counts: Mapping[str, int]
) -> int:
    """Return the largest minus the smallest number of partitions of the members that
    could have more: smaller members that have all that they may have do not count."""
    sizes = Counter(owners.values())
    free = [
        sizes[at]
        for at, topics in wanted.items()
        if sizes[at] < sum(counts[topic] for topic in topics)
    ]
    return max(sizes.values()) - min(free) if free else 0


def figures(client: WireClient, group_id: str, chance: Random) -> Figures:
    """Play a group that one member leaves and joins again."""
    wanted = drawn(chance)
    group = Group(client, group_id, wanted)
    topics = dict(enumerate(wanted))
    first = group.settle()
    at = chance.randrange(len(wanted))
    gone = group.leave(at)
    without = group.settle()
    rest = {each: topics[each] for each in topics if each != at}
    group.members[at] = gone
    again = group.settle()
    for each in list(group.members):
        group.leave(each)
    given = sum(owner == at for owner in again.values())
    moved = sum(again[one] != owner for one, owner in without.items())
    taken = sum(one in without for one, owner in again.items() if owner == at)
    assert given >= taken
    return Figures(
        spread=spread(first, topics, TOPICS),
        left_spread=spread(without, rest, TOPICS),
        # The partitions of the member that leaves must move; the others need not.
        moved_by_leave=sum(
            without.get(one) != owner for one, owner in first.items() if owner != at
        ),
        moved_by_join=moved,
        # Those that another member than the one that joins got.
        excess_by_join=moved - taken,
    )


def drawn(chance: Random) -> list[list[str]]:
    """Draw the topics of each member; not all of them are equal."""
    while True:
        wanted = [
            sorted(chance.sample([*TOPICS], chance.randint(1, len(TOPICS))))
            for _ in range(chance.choice((3, 4)))
        ]
        if any(each != wanted[0] for each in wanted):
            return wanted


def measure(server: Server, groups: int, seed: int) -> list[Figures]:
    """Play the same random groups on a server."""
    request = m.CreateTopicsRequest(
        topics=[
            m.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in TOPICS.items()
        ],
        timeout_ms=10_000,
    )
    with client_of(server) as client:
        assert not any(each.error_code for each in client.call(request, 7).topics)
        return [
            figures(client, f"balance-{seed}-{number}", Random(f"{seed}.{number}"))
            for number in range(groups)
        ]


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential.balance", description=__doc__
    )
    parser.add_argument("jars", type=Path, help="the folder of Apache Kafka's jars")
    parser.add_argument("--groups", type=int, default=60, help="how many to play")
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    console = Console(highlight=False)
    try:
        jars = fetch_jars(options.jars.absolute())
    except Unavailable as reason:
        console.print(f"Apache Kafka is unavailable: {reason}. Nothing was compared.")
        return 0
    table = Table("mean of a group")
    with (
        tempfile.TemporaryDirectory() as directory,
        both(jars, Path(directory), "bidirectional") as servers,
    ):
        columns = []
        for server in servers:
            table.add_column(server.name)
            columns.append(measure(server, options.groups, options.seed))
    for name in Figures._fields:
        means = [fmean(getattr(each, name) for each in column) for column in columns]
        table.add_row(name.replace("_", " "), *(f"{mean:.2f}" for mean in means))
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
