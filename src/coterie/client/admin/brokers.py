"""Calls about brokers: Metadata, ApiVersions (KIP-35) and DescribeLogDirs (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from coterie.client.admin.calls import ask_nodes
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.groups import ClusterDescription
from coterie.client.admin.results import Results, api_error
from coterie.client.cluster import nodes_in
from coterie.errors import CoterieError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.schema import Versions

BrokerVersions: TypeAlias = Mapping[int, Versions]
"""The versions of each API that a broker serves, by API key."""


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker. With an error its sizes are unknown."""

    path: str
    sizes: Mapping[TopicPartition, int]
    """The size of each replica in it (bytes), without replicas that are being moved
    here from another directory."""
    total_bytes: int | None = None
    """The size of its volume; None before Kafka 3.3."""
    usable_bytes: int | None = None
    error: CoterieError | None = None


class Brokers(Family):
    """Calls about the brokers of the cluster."""

    async def describe(self) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers, by Metadata, which
        every version of Kafka serves."""
        cluster = self._cluster
        metadata = await cluster.retrying(lambda: cluster.metadata([]))
        return ClusterDescription(
            metadata.cluster_id, metadata.controller_id, nodes_in(metadata)
        )

    async def describe_api_versions(
        self, node_ids: Iterable[int] | None = None
    ) -> Results[int, BrokerVersions]:
        """Return the versions of each API, by its key, that brokers serve; None means
        every broker. A broker that cannot be reached has an error, after one
        attempt."""

        async def request(node_id: int) -> BrokerVersions:
            response = await self._cluster.call(
                # Before version 3 the client's name is not sent.
                m.ApiVersionsRequest(),
                m.ApiVersionsResponse,
                node_id=node_id,
                wanted=Versions(0, 2),
            )
            if response.error_code:
                raise api_error(
                    response.error_code, f"the API versions of node {node_id}"
                )
            return {
                each.api_key: Versions(each.min_version, each.max_version)
                for each in response.api_keys
            }

        return await ask_nodes(self._cluster, request, node_ids, is_retried=False)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """Describe the log directories of brokers with the sizes of their replicas;
        None means every broker (KIP-113). Each broker is asked once, without
        retries."""

        async def request(node_id: int) -> tuple[LogDir, ...]:
            response = await self._cluster.call(
                m.DescribeLogDirsRequest(topics=None),
                m.DescribeLogDirsResponse,
                node_id=node_id,
            )
            if response.error_code:
                raise api_error(
                    response.error_code, f"log directories of node {node_id}"
                )
            return tuple(map(_log_dir, response.results))

        return await ask_nodes(self._cluster, request, node_ids, is_retried=False)


class SyncBrokers(SyncFamily[Brokers]):
    """The blocking methods of `Brokers`."""

    describe = blocking(Brokers.describe)
    describe_api_versions = blocking(Brokers.describe_api_versions)
    describe_log_dirs = blocking(Brokers.describe_log_dirs)


def _log_dir(result: m.DescribeLogDirsResult) -> LogDir:
    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return LogDir(
        path=result.log_dir,
        sizes={
            TopicPartition(topic.name, each.partition_index): each.partition_size
            for topic in result.topics
            for each in topic.partitions
            if not each.is_future_key
        },
        total_bytes=known(result.total_bytes),
        usable_bytes=known(result.usable_bytes),
        error=(
            api_error(result.error_code, f"log directory {result.log_dir}")
            if result.error_code
            else None
        ),
    )
