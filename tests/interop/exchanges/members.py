"""Members and offsets of groups, by raw requests.

Functions return the response, so a test asserts what it is about. Those that bring a
group into a state, `join_consumer`, `join_classic` and `commit`, assert their success.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from coterie.wire import messages as m
from coterie.wire.codec import encode
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

MEMBER_ID_REQUIRED: Final = 79
REBALANCE_TIMEOUT_MS: Final = 30_000
SESSION_TIMEOUT_MS: Final = 30_000

Partition = tuple[str, int]


class ConsumerMember(NamedTuple):
    """A KIP-848 member with its latest epoch and assignment."""

    id: str
    epoch: int
    assigned: list[m.TopicPartitions]


class ClassicMember(NamedTuple):
    """A classic member after its SyncGroup."""

    id: str
    generation: int
    assignment: bytes


def new_member_id() -> str:
    """Return an id as clients of KIP-1082 make one."""
    return secrets.token_urlsafe(16)


def topic_id(wire: WireClient, topic: str) -> bytes:
    """Return the id of a topic."""
    request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=topic)])
    [found] = wire.call(request, 12).topics
    assert found.error_code == 0
    return bytes(found.topic_id)


def alter_group(wire: WireClient, group: str, **configs: int) -> None:
    """Set configs of a group; `consumer_session_timeout_ms` is one with dots.

    A broker of Kafka applies them after its response, so wait until it shows them.
    """
    values = {name.replace("_", "."): str(value) for name, value in configs.items()}
    each = [
        m.IncrementalAlterableConfig(name=name, config_operation=0, value=value)
        for name, value in values.items()
    ]
    resource = m.IncrementalAlterConfigsResource(
        resource_type=32, resource_name=group, configs=each
    )
    request = m.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )
    [answer] = wire.call(request, 1).responses
    assert answer.error_code == 0, answer
    asked = m.DescribeConfigsResource(
        resource_type=32, resource_name=group, configuration_keys=[*values]
    )

    def applied() -> bool:
        [found] = wire.call(m.DescribeConfigsRequest(resources=[asked]), 4).results
        return {each.name: each.value for each in found.configs} == values

    eventually(applied, expected=f"configs of {group}")


def assign_at_once(wire: WireClient, group: str) -> None:
    """Let the group compute each target without waiting for the interval."""
    alter_group(
        wire,
        group,
        consumer_assignment_interval_ms=0,
        share_assignment_interval_ms=0,
    )


def heartbeat(
    wire: WireClient, group: str, member_id: str, epoch: int, **fields: Any
) -> m.ConsumerGroupHeartbeatResponse:
    """Send a ConsumerGroupHeartbeat v1; return its response."""
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, **fields
    )
    response: m.ConsumerGroupHeartbeatResponse = wire.call(request, 1)
    return response


def join_consumer(
    wire: WireClient, group: str, *topics: str, **fields: Any
) -> ConsumerMember:
    """Join as a KIP-848 member and heartbeat until it has an assignment.

    `fields` are those of the joining heartbeat: `instance_id`, `server_assignor`,
    `subscribed_topic_regex` and so on. `member_id` is new if absent.
    """
    member_id = fields.pop("member_id", None) or new_member_id()
    joining: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
        "subscribed_topic_names": list(topics),
        "topic_partitions": [],
        **fields,
    }
    last = heartbeat(wire, group, member_id, 0, **joining)
    assert last.error_code == 0, last

    def assignment() -> m.Assignment | None:
        nonlocal last
        if last.assignment is None:
            last = heartbeat(wire, group, member_id, last.member_epoch)
            assert last.error_code == 0, last
        return last.assignment

    found = eventually(assignment, expected=f"an assignment of {member_id}")
    assert found is not None
    return ConsumerMember(member_id, last.member_epoch, found.topic_partitions)


class Beating:
    """A KIP-848 member that sends each heartbeat with the epoch of the last response.

    It joins at once; `fields` are those of the joining heartbeat.
    """

    def __init__(
        self, wire: WireClient, group: str, *topics: str, **fields: Any
    ) -> None:
        self.wire = wire
        self.group = group
        self.id = fields.pop("member_id", None) or new_member_id()
        self.instance_id = fields.get("instance_id")
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.last = self.join(*topics, **fields)
        assert self.last.error_code == 0, self.last

    def join(self, *topics: str, **fields: Any) -> m.ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with epoch 0."""
        self.epoch = 0
        joining: dict[str, Any] = {
            "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        return self.beat(**{**joining, **fields})

    def beat(self, **fields: Any) -> m.ConsumerGroupHeartbeatResponse:
        """Send a heartbeat; `fields` may replace the member's epoch."""
        epoch = fields.pop("epoch", self.epoch)
        fields.setdefault("instance_id", self.instance_id)
        answer = heartbeat(self.wire, self.group, self.id, epoch, **fields)
        self.last = answer
        if not answer.error_code:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = partitions_of(answer.assignment)
        return answer

    def owning(self, count: int) -> Self:
        """Heartbeat until the member has this number of partitions.

        A group coordinator of Kafka learns of a new topic after its creation.
        """

        def owns() -> bool:
            if sum(map(len, self.owned.values())) == count:
                return True
            return self.beat().error_code != 0

        eventually(owns, expected=f"{count} partitions of {self.id}")
        assert self.last.error_code == 0, self.last
        return self

    def report(self, owned: Mapping[bytes, Sequence[int]] | None = None) -> Any:
        """Send a heartbeat with owned partitions, by default those assigned."""
        return self.beat(
            topic_partitions=topic_partitions(self.owned if owned is None else owned)
        )


def partitions_of(assignment: m.Assignment) -> dict[bytes, list[int]]:
    """Return the sorted partitions of an assignment by topic id."""
    return {
        bytes(each.topic_id): sorted(each.partitions)
        for each in assignment.topic_partitions
    }


def topic_partitions(owned: Mapping[bytes, Sequence[int]]) -> list[m.TopicPartitions]:
    """Return partitions in the form of a heartbeat."""
    return [
        m.TopicPartitions(topic_id=topic, partitions=list(some))
        for topic, some in owned.items()
    ]


def leave_consumer(
    wire: WireClient, group: str, member_id: str, **fields: Any
) -> m.ConsumerGroupHeartbeatResponse:
    """Leave as a KIP-848 member: a heartbeat with epoch -1."""
    return heartbeat(wire, group, member_id, -1, **fields)


def subscription(
    *topics: str, owned: Mapping[str, Sequence[int]] | None = None, version: int = 1
) -> bytes:
    """Return the embedded metadata of a classic consumer."""
    partitions = [
        m.ConsumerProtocolTopicPartitions(topic=topic, partitions=list(of_topic))
        for topic, of_topic in (owned or {}).items()
    ]
    value = m.ConsumerProtocolSubscription(
        topics=list(topics), owned_partitions=partitions
    )
    return version.to_bytes(2, "big") + encode(value, version)


def join_request(group: str, *topics: str, **fields: Any) -> m.JoinGroupRequest:
    """Return the JoinGroup of a classic consumer with the protocol `range`."""
    usual: dict[str, Any] = {
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [
            m.JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))
        ],
    }
    return m.JoinGroupRequest(group_id=group, **{**usual, **fields})


def join_classic(
    wire: WireClient, group: str, *topics: str, assignment: bytes = b"", **fields: Any
) -> ClassicMember:
    """Join and sync as the only classic member; it assigns `assignment` to itself.

    `fields` are those of JoinGroup v9: `group_instance_id`, `protocols` and so on.
    """
    request = join_request(group, *topics, **fields)
    joined = wire.call(request, 9)
    if joined.error_code == MEMBER_ID_REQUIRED:
        request = join_request(
            group, *topics, **{**fields, "member_id": joined.member_id}
        )
        joined = wire.call(request, 9)
    assert joined.error_code == 0, joined
    assigned = m.SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=assignment
    )
    sync = m.SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=request.group_instance_id,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        assignments=[assigned],
    )
    synced = wire.call(sync, 5)
    assert synced.error_code == 0, synced
    return ClassicMember(joined.member_id, joined.generation_id, synced.assignment)


def leave_classic(wire: WireClient, group: str, *member_ids: str) -> Any:
    """Send a LeaveGroup v5 of these members; return its response."""
    members = [m.MemberIdentity(member_id=member_id) for member_id in member_ids]
    return wire.call(m.LeaveGroupRequest(group_id=group, members=members), 5)


def await_writes(wire: WireClient, group: str) -> None:
    """Return once the records of earlier requests to the group are committed.

    Kafka refuses a JoinGroup before the group that it created is committed, and reads
    only what is. It answers every LeaveGroup, this one of an unknown member too, after
    all earlier writes.
    """
    assert leave_classic(wire, group, "unknown").error_code == 0


def commit_errors(
    wire: WireClient,
    group: str,
    offsets: Mapping[Partition, int],
    *,
    member_id: str = "",
    epoch: int = -1,
    version: int = 9,
    metadata: str | None = "",
    leader_epoch: int = -1,
) -> dict[Partition, int]:
    """Send an OffsetCommit of v2 to v9; return the error code of each partition."""
    by_topic: dict[str, list[m.OffsetCommitRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        each = m.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch if version >= 6 else -1,
            committed_metadata=metadata,
        )
        by_topic.setdefault(topic, []).append(each)
    request = m.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            m.OffsetCommitRequestTopic(name=name, partitions=partitions)
            for name, partitions in by_topic.items()
        ],
    )
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in wire.call(request, version).topics
        for each in topic.partitions
    }


def commit(
    wire: WireClient, group: str, offsets: Mapping[Partition, int], **fields: Any
) -> None:
    """Commit offsets as `commit_errors`, by default as an admin; all must succeed."""
    errors = commit_errors(wire, group, offsets, **fields)
    assert set(errors.values()) <= {0}, errors


def describe_classic(
    wire: WireClient, group: str, *, version: int = 6, operations: bool = False
) -> m.DescribedGroup:
    """Return the answer of DescribeGroups on one group."""
    request = m.DescribeGroupsRequest(
        groups=[group], include_authorized_operations=operations
    )
    [found] = wire.call(request, version).groups
    assert isinstance(found, m.DescribedGroup)
    return found


def describe_consumer(wire: WireClient, group: str) -> m.DescribedConsumerGroup:
    """Return the answer of ConsumerGroupDescribe v1 on one group."""
    [found] = wire.call(m.ConsumerGroupDescribeRequest(group_ids=[group]), 1).groups
    assert isinstance(found, m.DescribedConsumerGroup)
    return found
