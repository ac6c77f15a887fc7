"""The topic of the shards in the upstream cluster, created by the first node.

`preflight.check_upstream` has checked rights and the cleanup policy before.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from coterie.client import AdminClient, NewTopic, TopicDescription
from coterie.errors import UnsupportedByBroker, code_of
from coterie.types import TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

REPLICAS: Final = 3
"""The replication factor by default; fewer only in a cluster of fewer brokers, as that
of `__consumer_offsets`."""
POLL_S: Final = 0.1
"""The time between two descriptions of a topic that was just created."""
MESSAGE_BYTES_MAX: Final = 1_048_588
SEGMENT_BYTES: Final = 100 << 20
"""As `offsets.topic.segment.bytes`: only closed segments are compacted."""
DELETE_RETENTION_MS: Final = 24 * 3_600_000
"""The time for which compaction keeps tombstones, so that who reads the log meanwhile
reads the deletion, too."""


class ShardsTopic(NamedTuple):
    """The topic of the shards; partition i is shard i."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    cluster_id: str


async def open_topic(
    admin: AdminClient,
    name: TopicName,
    *,
    partition_count: int,
    replication_factor: int = -1,
) -> ShardsTopic:
    """Return the topic, which is created if it does not exist. A replication factor of
    -1 means `REPLICAS`, or one replica on each broker.

    An existing topic keeps its partitions: their count maps groups to shards. Raises
    ApiError and the errors of `AdminClient`.
    """
    cluster = await admin.brokers.describe()
    described = await admin.topics.describe([name])
    topic = described.values.get(name)
    if topic is None:
        error = described.errors[name]
        if code_of(error) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        if replication_factor < 0:
            replication_factor = default_replicas(len(cluster.nodes))
        new = NewTopic(
            name,
            partition_count,
            replication_factor,
            _configs(replication_factor),
        )
        created = await admin.topics.create([new])
        failed = created.errors.get(name)
        # Another node may have created it meanwhile.
        if failed is not None and code_of(failed) is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise failed
        topic = await _created(admin, name)
    if topic.topic_id is None or cluster.cluster_id is None:
        raise UnsupportedByBroker(
            "upstream gives its topics or itself no id, which the gateway needs: raise "
            "inter.broker.protocol.version to 2.8 or later"
        )
    return ShardsTopic(name, topic.topic_id, len(topic.partitions), cluster.cluster_id)


async def _created(admin: AdminClient, name: TopicName) -> TopicDescription:
    """Return a topic that was just created. Brokers learn of it one after the other.

    Raises ApiError when it is unknown for `api_timeout_ms`.
    """
    loop = asyncio.get_running_loop()
    until_s = loop.time() + admin.cluster.options.api_timeout_ms / 1000
    while True:
        described = await admin.topics.describe([name])
        error = described.errors.get(name)
        is_unknown = code_of(error) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not is_unknown or loop.time() > until_s:
            return described.one(name)
        await asyncio.sleep(POLL_S)


def default_replicas(brokers: int) -> int:
    """Return the number of replicas in a cluster of so many live brokers."""
    return min(REPLICAS, brokers)


def _configs(replication_factor: int) -> dict[str, str]:
    in_sync = 2 if replication_factor > 2 else 1
    return {
        "cleanup.policy": "compact",
        "min.insync.replicas": str(in_sync),
        "unclean.leader.election.enable": "false",
        "segment.bytes": str(SEGMENT_BYTES),
        "delete.retention.ms": str(DELETE_RETENTION_MS),
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        "message.timestamp.type": "CreateTime",
        "compression.type": "producer",
    }
