"""Descriptions of groups of every type, of their members, and of the cluster.

A value that the broker did not send and that cannot be derived is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from coterie.auth.acl import Operation
from coterie.client.admin.results import Partial
from coterie.errors import CoterieError
from coterie.types import GroupId, MemberId, TopicName, TopicPartition


class GroupType(Enum):
    """The type of a group; a type of a newer broker is UNKNOWN (E29-05)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    UNKNOWN = "unknown"

    @classmethod
    def read(cls, text: str) -> GroupType:
        """Return the type with that name, ignoring case."""
        return _TYPES.get(text.lower(), cls.UNKNOWN)


class GroupState(Enum):
    """The state of a group; a state of a newer broker is UNKNOWN (E29-04)."""

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
        """Return the state with that name, ignoring case."""
        return _STATES.get(text.lower(), cls.UNKNOWN)

    @property
    def is_active(self) -> bool:
        """Whether the group may have members, so that offsets must not be reset
        (E29-07)."""
        return self not in {GroupState.EMPTY, GroupState.DEAD}

    @property
    def is_rebalancing(self) -> bool:
        """Whether a rebalance is in progress (A-74)."""
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
    """A broker. `node_id` is -1 when only its address is known."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group as ListGroups returns it. `state` and `type` are None before versions 4
    and 5. A simple group, which has commits but never had members, has the protocol
    type "" (E28-05)."""

    group_id: GroupId
    protocol_type: str
    state: GroupState | None = None
    type: GroupType | None = None
    coordinator_id: int = -1

    @property
    def is_simple(self) -> bool:
        """Whether the group never had members."""
        return self.protocol_type == ""


@dataclass(frozen=True, slots=True)
class GroupListings(Partial[int]):
    """The groups of the whole cluster, and the errors of nodes that could not list
    theirs."""

    groups: tuple[GroupListing, ...]
    """In the order of their ids."""
    errors: Mapping[int, CoterieError] = field(default_factory=dict)
    """By node id."""
    classic_only: frozenset[int] = frozenset()
    """The nodes without ConsumerGroupDescribe, older than KIP-848. They do not list the
    types of their groups, which are all classic."""

    def all(self) -> tuple[GroupListing, ...]:
        """Return every group. Raises the first node's error, if any."""
        self.raise_any()
        return self.groups


class Task(NamedTuple):
    """A task of a streams group: a subtopology and a partition of its topics."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        """Return the name that Kafka Streams logs, as in "0_2"."""
        return f"{self.subtopology_id}_{self.partition}"


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a member of a streams group (KIP-1071), sorted."""

    active: tuple[Task, ...] = ()
    standby: tuple[Task, ...] = ()
    warmup: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of a streams topology whose tasks are assigned together. Topics are
    sorted."""

    subtopology_id: str
    source_topics: tuple[TopicName, ...] = ()
    repartition_source_topics: tuple[TopicName, ...] = ()
    """Internal topics that it reads."""
    repartition_sink_topics: tuple[TopicName, ...] = ()
    """Internal topics that it writes to."""
    changelog_topics: tuple[TopicName, ...] = ()
    """Internal topics with the changes of its state stores."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of a streams group; a group that is not ready has no
    subtopologies."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """One member of a described group."""

    member_id: MemberId
    client_id: str
    host: str
    """With Kafka's leading slash, as in "/127.0.0.1"."""
    assignment: tuple[TopicPartition, ...] = ()
    """The assigned partitions, sorted. In a share group, members share partitions; in a
    streams group, they are those that the active tasks read."""
    instance_id: str | None = None
    rack_id: str | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None
    """KIP-848 groups only."""
    epoch: int | None = None
    """The member epoch; groups other than classic ones (E29-02)."""
    is_classic: bool | None = None
    """Whether the member of a KIP-848 group uses the classic protocol; None before
    version 1 of ConsumerGroupDescribe."""
    subscribed_topics: tuple[TopicName, ...] | None = None
    """Sorted. From the broker, or from the subscription of a classic consumer."""
    subscribed_topic_regex: str | None = None
    protocols: tuple[str, ...] | None = None
    """The assignors that a classic member supports, by preference: Coterie brokers only
    (KIP-181)."""
    tasks: Tasks | None = None
    """Streams groups only."""
    target_tasks: Tasks | None = None
    """Streams groups only."""
    topology_epoch: int | None = None
    """Streams groups only."""
    process_id: str | None = None
    """The process of a streams member, which may have several."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group of any type."""

    group_id: GroupId
    type: GroupType
    state: GroupState
    protocol_type: str
    assignor: str
    """The selected assignor; "" without one."""
    coordinator: Node
    members: tuple[MemberDescription, ...] = ()
    """In the order of their ids."""
    group_epoch: int | None = None
    """Groups other than classic ones."""
    assignment_epoch: int | None = None
    """Groups other than classic ones."""
    generation_id: int | None = None
    """Classic groups on Coterie only (KIP-181)."""
    leader_id: MemberId | None = None
    """Classic groups on Coterie only (KIP-181)."""
    authorized_operations: frozenset[Operation] | None = None
    """The operations that the principal is authorized for, when requested."""
    topology: Topology | None = None
    """Streams groups only."""

    @property
    def is_simple(self) -> bool:
        """Whether the group never had members: its offsets are committed without group
        management."""
        return self.type is GroupType.CLASSIC and self.protocol_type == ""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster and its brokers, sorted by id. `cluster_id` is None on brokers before
    0.10.1; `controller_id` is -1 without a controller, or when it is unknown."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]
