"""Calls about brokers: Metadata, ApiVersions (KIP-35) and DescribeLogDirs (KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from coterie.client.admin.calls import nodes_in, nodes_of
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.groups import ClusterDescription
from coterie.client.admin.results import Results, api_error, results_of
from coterie.client.cluster import Deadline
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
        deadline = Deadline(self._cluster.options)
        if node_ids is None:
            nodes = await nodes_of(self._cluster, deadline)
            node_ids = (node.node_id for node in nodes)
        wanted = list(dict.fromkeys(node_ids))

        async def ask(node_id: int) -> BrokerVersions | CoterieError:
            call = partial(
                self._cluster.call,
                # Before version 3 the client's name is not sent.
                m.ApiVersionsRequest(),
                m.ApiVersionsResponse,
                node_id=node_id,
                wanted=Versions(0, 2),
            )
            try:
                response = await deadline.limit(call)
            except CoterieError as error:
                return error
            if response.error_code:
                return api_error(
                    response.error_code, f"the API versions of node {node_id}"
                )
            return {
                each.api_key: Versions(each.min_version, each.max_version)
                for each in response.api_keys
            }

        outcomes = await asyncio.gather(*map(ask, wanted))
        return results_of(wanted, dict(zip(wanted, outcomes, strict=True)))

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """Describe the log directories of brokers with the sizes of their replicas;
        None means every broker (KIP-113). Each broker is asked once, without
        retries."""
        deadline = Deadline(self._cluster.options)
        if node_ids is None:
            nodes = await nodes_of(self._cluster, deadline)
            node_ids = (node.node_id for node in nodes)
        wanted = list(dict.fromkeys(node_ids))

        async def ask(node_id: int) -> tuple[LogDir, ...] | CoterieError:
            request = m.DescribeLogDirsRequest(topics=None)
            try:
                response = await deadline.limit(
                    lambda: self._cluster.call(
                        request, m.DescribeLogDirsResponse, node_id=node_id
                    )
                )
            except CoterieError as error:
                return error
            if response.error_code:
                return api_error(
                    response.error_code, f"log directories of node {node_id}"
                )
            return tuple(map(_log_dir, response.results))

        outcomes = await asyncio.gather(*map(ask, wanted))
        return results_of(wanted, dict(zip(wanted, outcomes, strict=True)))


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
