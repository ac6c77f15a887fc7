"""Raw clients of a `Kafka` of the test kit."""

from __future__ import annotations

from typing import Any

from coterie.testing.kafka import Kafka
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

TOPIC = "t"


def connect(kafka: Kafka, node: int = 0, **options: Any) -> WireClient:
    """Connect to a node."""
    host, _, port = kafka.bootstrap_servers.split(",")[node].rpartition(":")
    return WireClient(host, int(port), **options)


def create_topic(client: WireClient) -> None:
    """Create topic t with one partition."""
    topic = m.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    response = client.call(m.CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0


def commit(group: str = "g", offset: int = 5) -> m.OffsetCommitRequest:
    """Return a commit of a consumer that is no member, for v9 and older."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset
    )
    return m.OffsetCommitRequest(
        group_id=group,
        topics=[m.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )


def committed(client: WireClient, group: str = "g") -> int:
    """Return the committed offset of partition 0, -1 without one."""
    topics = [m.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    request = m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequestGroup(group_id=group, topics=topics)]
    )
    response = client.call(request, 9)
    (row,) = response.groups[0].topics[0].partitions
    return int(row.committed_offset)


def commit_code(client: WireClient, group: str = "g", offset: int = 5) -> int:
    """Commit an offset; return the error code."""
    return code_of(client.call(commit(group, offset), 9))


def code_of(response: Any) -> int:
    """Return the error code of a commit of one partition."""
    return int(response.topics[0].partitions[0].error_code)


def join(
    client: WireClient, group: str = "g", instance: str | None = None
) -> tuple[str, int]:
    """Join a classic group as its only member, and sync; return member id and
    generation."""
    request = m.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joined = client.call(request, 9)
    if joined.member_id and joined.error_code:
        request.member_id = joined.member_id
        joined = client.call(request, 9)
    assert joined.error_code == 0
    synced = client.call(
        m.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name="range",
        ),
        5,
    )
    assert synced.error_code == 0
    return joined.member_id, joined.generation_id


def heartbeat_code(
    client: WireClient,
    member: tuple[str, int],
    group: str = "g",
    instance: str | None = None,
) -> int:
    """Send a heartbeat of a classic member; return the error code."""
    request = m.HeartbeatRequest(
        group_id=group,
        member_id=member[0],
        generation_id=member[1],
        group_instance_id=instance,
    )
    return int(client.call(request, 4).error_code)


def consumer_heartbeat(
    client: WireClient, epoch: int, instance: str | None = None
) -> Any:
    """Send a heartbeat of member m of the KIP-848 group g; return the response."""
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, instance_id=instance
    )
    if epoch == 0:
        request.rebalance_timeout_ms = 60_000
        request.subscribed_topic_names = [TOPIC]
        request.topic_partitions = []
    return client.call(request, 1)
