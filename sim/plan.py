"""The plan of a world, drawn from its seed before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final

from coterie.settings import Settings
from coterie.types import GroupId, TopicName
from sim.members.member import MemberConfig
from sim.network import NetworkFaults

TOPICS: Final = ("t", "u", "v")
REGEXES: Final = ("t", "t|u", "[u-w]", ".*")


class Protocol(Enum):
    """The protocol of a member."""

    CONSUMER = "consumer"
    CLASSIC = "classic"

    @property
    def other(self) -> Protocol:
        """The other protocol."""
        return Protocol.CLASSIC if self is Protocol.CONSUMER else Protocol.CONSUMER


class Kind(Enum):
    """The protocols of a group's members."""

    CONSUMER = "consumer"
    EAGER = "eager"
    COOPERATIVE = "cooperative"
    MIGRATING = "migrating"
    """Members of both protocols, which may change it when they restart."""
    COMPUTING = "computing"
    """Members of the consumer protocol with client-side assignors."""


@dataclass(frozen=True)
class GroupPlan:
    """A group and its members."""

    group_id: GroupId
    kind: Kind
    config: tuple[MemberConfig, ...]


@dataclass(frozen=True)
class Plan:
    """The plan of a world."""

    settings: Settings
    topics: dict[TopicName, int]
    groups: tuple[GroupPlan, ...]
    shard_count: int
    network_faults: NetworkFaults
    disk_ms: int
    trouble_ms: int
    """The time during which faults happen."""
    fault_every_ms: int
    fault_kinds: int
    """A bit for each kind of fault in this world."""

    @property
    def bound_ms(self) -> int:
        """The time after the last fault within which all members must reach the target.
        It covers the session and rebalance timeout of members that ended, the timeout
        of another rebalance that they delayed, and some heartbeats to move partitions.
        """
        patience = [
            max(
                each.session_timeout_ms + each.rebalance_timeout_ms,
                self.settings.group_consumer_session_timeout_ms,
            )
            for group in self.groups
            for each in group.config
        ]
        return 3 * max(patience) + 90_000


def draw_plan(rng: Random) -> Plan:
    """Draw a plan."""
    kinds = rng.choice(_MIXES)
    topics = {name: rng.randint(1, 4) for name in TOPICS[: rng.randint(1, 3)]}
    return Plan(
        settings=_settings(rng),
        topics=topics,
        groups=tuple(
            _group(rng, f"g{number}", kind, tuple(topics))
            for number, kind in enumerate(kinds)
        ),
        shard_count=rng.choice((1, 2)),
        network_faults=_network_faults(rng),
        disk_ms=rng.choice((0, 0, 0, 20, 300)),
        trouble_ms=rng.randint(15_000, 50_000),
        fault_every_ms=rng.choice((500, 1_500, 3_000)),
        fault_kinds=rng.getrandbits(32) | rng.getrandbits(32),
    )


_MIXES: Final[Sequence[tuple[Kind, ...]]] = (
    (Kind.CONSUMER,),
    (Kind.CONSUMER,),
    (Kind.CONSUMER, Kind.CONSUMER),
    (Kind.CONSUMER, Kind.EAGER),
    (Kind.EAGER,),
    (Kind.COOPERATIVE,),
    (Kind.MIGRATING,),
    (Kind.MIGRATING,),
    (Kind.MIGRATING,),
    (Kind.MIGRATING, Kind.MIGRATING),
    (Kind.MIGRATING, Kind.CONSUMER),
    (Kind.COMPUTING,),
)


_POLICIES: Final = (*["bidirectional"] * 3, "upgrade", "downgrade", "disabled")


def _settings(rng: Random) -> Settings:
    assignors = rng.choice((("uniform", "range"), ("range", "uniform"), ("uniform",)))
    return Settings(
        group_initial_rebalance_delay_ms=rng.choice((0, 500, 3_000)),
        group_consumer_session_timeout_ms=rng.choice((8_000, 12_000, 20_000)),
        group_consumer_heartbeat_interval_ms=rng.choice((1_500, 3_000)),
        group_consumer_assignment_interval_ms=rng.choice((0, 0, 1_000, 4_000)),
        group_consumer_assignors=assignors,
        group_consumer_client_assignors_enable=True,
        group_consumer_migration_policy=rng.choice(_POLICIES),
        group_consumer_max_size=rng.choice((3, 100, 100, 100)),
        offsets_commit_timeout_ms=rng.choice((200, 5_000)),
    )


def _network_faults(rng: Random) -> NetworkFaults:
    if rng.random() < 0.3:
        return NetworkFaults()
    return NetworkFaults(
        loss=rng.choice((0.0, 0.02, 0.1)),
        repetition=rng.choice((0.0, 0.02, 0.1)),
        delay_share=rng.choice((0.0, 0.02, 0.1)),
        usual_ms=rng.choice((5, 40, 400)),
    )


def _group(
    rng: Random, group_id: GroupId, kind: Kind, topics: tuple[TopicName, ...]
) -> GroupPlan:
    size = rng.choice((2, 3, 3, 4, 5))
    alike = rng.random() < 0.5
    is_cooperative = kind is Kind.COOPERATIVE or (
        kind is Kind.MIGRATING and rng.random() < 0.5
    )
    static_share = rng.choice((0.0, 0.0, 0.3, 1.0))
    config = tuple(
        MemberConfig(
            name=f"{group_id}m{number}",
            group_id=group_id,
            topics=topics if alike else _some(rng, topics),
            instance_id=f"i{number}" if rng.random() < static_share else None,
            session_timeout_ms=rng.choice((6_000, 10_000)),
            rebalance_timeout_ms=rng.choice((4_000, 10_000)),
            callback_ms=rng.choice((0, 200, 2_000)),
            commit_every_ms=rng.choice((2_000, 8_000)),
            assignor=rng.choice((None, None, "uniform")),
            is_cooperative=is_cooperative,
            regex=rng.choice(REGEXES) if rng.random() < 0.2 else None,
            version=rng.choice((0, 1, 1)),
            computes=kind is Kind.COMPUTING and rng.random() < 0.95,
        )
        for number in range(size)
    )
    return GroupPlan(group_id, kind, config)


def _some(rng: Random, topics: tuple[TopicName, ...]) -> tuple[TopicName, ...]:
    return tuple(rng.sample(topics, rng.randint(1, len(topics))))
