"""Scripted brokers of one cluster, each with partitions that it leads.

async with ScriptedCluster(2) as nodes:
    nodes.leaders[TopicPartition("t", 0)] = 2
    cluster = nodes.client()
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.types import TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.client.scripted_broker import OPTIONS, ScriptedBroker

NOBODY = -1


class ScriptedCluster:
    """Scripted brokers, numbered from 1.

    `leaders` maps partitions to their leaders in Metadata responses, NOBODY for none;
    `refused` maps topics to the error in their metadata.
    """

    def __init__(self, count: int = 1) -> None:
        self.brokers = [ScriptedBroker(number) for number in range(1, count + 1)]
        self.leaders: dict[TopicPartition, int] = {}
        self.refused: dict[TopicName, ErrorCode] = {}
        self.controller_id = 1
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        for broker in self.brokers:
            await self._stack.enter_async_context(broker)
            broker.answers[ApiKey.METADATA] = self.metadata
            broker.answers[ApiKey.LIST_OFFSETS] = offsets_of_node(broker.node_id)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def client(self, options: ClientOptions = OPTIONS) -> Cluster:
        """Return a client that is closed with the cluster."""
        cluster = Cluster(self.brokers[0].bootstrap, options)
        self._stack.push_async_callback(cluster.close)
        return cluster

    def lead(self, node_id: int, topic: TopicName, *partitions: int) -> None:
        """Make a node the leader of partitions."""
        for each in partitions:
            self.leaders[TopicPartition(topic, each)] = node_id

    def metadata(self, request: m.MetadataRequest) -> m.MetadataResponse:
        """Return the metadata of the cluster."""
        led: dict[TopicName, list[m.MetadataResponsePartition]] = defaultdict(list)
        for (topic, partition), leader_id in self.leaders.items():
            code = ErrorCode.LEADER_NOT_AVAILABLE if leader_id == NOBODY else 0
            led[topic].append(
                m.MetadataResponsePartition(
                    error_code=code,
                    partition_index=partition,
                    leader_id=leader_id,
                    replica_nodes=[1, 2],
                    isr_nodes=[1],
                )
            )
        wanted = request.topics
        names = led if wanted is None else [each.name or "" for each in wanted]
        return m.MetadataResponse(
            brokers=[
                m.MetadataResponseBroker(
                    node_id=broker.node_id, host="127.0.0.1", port=broker.port
                )
                for broker in self.brokers
            ],
            cluster_id="scripted",
            controller_id=self.controller_id,
            topics=[self._topic(name, led.get(name)) for name in names],
        )

    def _topic(
        self, name: TopicName, led: list[m.MetadataResponsePartition] | None
    ) -> m.MetadataResponseTopic:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if led is None else 0
        return m.MetadataResponseTopic(
            name=name,
            error_code=self.refused.get(name, unknown),
            partitions=[] if name in self.refused else led or [],
        )


def offsets_of_node(
    node_id: int, code: int = 0
) -> Callable[[m.ListOffsetsRequest], m.ListOffsetsResponse]:
    """Return a ListOffsets response in which partition 7 on node 2 ends at 2007."""

    def answer(request: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
        return m.ListOffsetsResponse(
            topics=[
                m.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        m.ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            error_code=code,
                            offset=1_000 * node_id + each.partition_index,
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer
