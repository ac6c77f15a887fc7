"""Consumer groups as an operator sees them, of both protocols.

What a broker did not say, and what cannot be derived from what it said, is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from coterie.auth.authorizer import Operation
from coterie.errors import CoterieError
from coterie.types import GroupId, MemberId, TopicName, TopicPartition


class GroupType(Enum):
    """The kind of a group; a word of a newer broker is UNKNOWN (E29-05)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def read(cls, text: str) -> GroupType:
        """The type of that name, in any case."""
        return _TYPES.get(text.lower(), cls.UNKNOWN)


class GroupState(Enum):
    """The state of a group; a word of a newer broker is UNKNOWN (E29-04)."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"
    UNKNOWN = "Unknown"

    @classmethod
    def read(cls, text: str) -> GroupState:
        """The state of that name, in any case."""
        return _STATES.get(text.lower(), cls.UNKNOWN)

    @property
    def is_active(self) -> bool:
        """Whether members may be there, so that offsets must not be reset (E29-07)."""
        return self not in {GroupState.EMPTY, GroupState.DEAD}

    @property
    def is_rebalancing(self) -> bool:
        """Whether who owns what is about to change (A-74)."""
        return self in {
            GroupState.PREPARING_REBALANCE,
            GroupState.COMPLETING_REBALANCE,
            GroupState.ASSIGNING,
            GroupState.RECONCILING,
        }


_TYPES: Final = {each.value.lower(): each for each in GroupType}
_STATES: Final = {each.value.lower(): each for each in GroupState}


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """One broker. `node_id` is -1 for an address that is only known by name."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list (ListGroups). `state` and `type` are None when the broker is
    too old to say (before versions 4 and 5). A group without members or generation,
    whose offsets somebody commits by hand, has the protocol type "" (E28-05)."""

    group_id: GroupId
    protocol_type: str
    state: GroupState | None = None
    type: GroupType | None = None
    coordinator_id: int = -1

    @property
    def is_simple(self) -> bool:
        """Whether nobody ever joined it."""
        return self.protocol_type == ""


@dataclass(frozen=True, slots=True)
class GroupListings:
    """The groups of a whole cluster, and the nodes that could not be asked."""

    groups: tuple[GroupListing, ...]
    """In the order of their ids."""
    errors: Mapping[int, CoterieError] = field(default_factory=dict)
    """By node id."""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a described group."""

    member_id: MemberId
    client_id: str
    host: str
    """With Kafka's leading slash, as in "/127.0.0.1"."""
    assignment: tuple[TopicPartition, ...] = ()
    """What it owns now, sorted."""
    instance_id: str | None = None
    rack_id: str | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    """What it is to own; groups of KIP-848 only."""
    epoch: int | None = None
    """Its member epoch; groups of KIP-848 only (E29-02)."""
    is_classic: bool | None = None
    """Whether it speaks the classic protocol in a group of KIP-848; None when the
    broker does not say (ConsumerGroupDescribe before version 1)."""
    subscribed_topics: tuple[TopicName, ...] | None = None
    """Sorted. From the broker, or from what a classic consumer said when it joined."""
    subscribed_topic_regex: str | None = None
    protocols: tuple[str, ...] | None = None
    """The assignors a classic member offers, its favourite first (KIP-181): from
    Coterie; elsewhere None."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of either protocol."""

    group_id: GroupId
    type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    """The chosen assignment strategy, "" when there is none."""
    coordinator: Node
    members: tuple[MemberDescription, ...] = ()
    """In the order of their ids."""
    group_epoch: int | None = None
    """Groups of KIP-848 only."""
    assignment_epoch: int | None = None
    """Groups of KIP-848 only."""
    generation_id: int | None = None
    """Classic groups on Coterie only (KIP-181)."""
    leader_id: MemberId | None = None
    """Classic groups on Coterie only (KIP-181)."""
    authorized_operations: frozenset[Operation] | None = None
    """What the caller may do to it, when asked for."""

    @property
    def is_simple(self) -> bool:
        """Whether nobody ever joined it: somebody commits offsets by hand."""
        return self.type is GroupType.CLASSIC and self.protocol_type == ""
