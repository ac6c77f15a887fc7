"""DescribeLogDirs (key 35): the log directories of brokers and the sizes of replicas
(KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coterie.client.admin.calls import Deadline, describe_cluster
from coterie.client.admin.results import Results, api_error, results_of
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError
from coterie.types import TopicPartition
from coterie.wire import messages as m


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


async def describe_log_dirs(
    cluster: Cluster, node_ids: Iterable[int] | None = None
) -> Results[int, tuple[LogDir, ...]]:
    """Describe the log directories of brokers; None means every broker."""
    deadline = Deadline(cluster)
    if node_ids is None:
        described = await describe_cluster(cluster, deadline)
        node_ids = (node.node_id for node in described.nodes)
    wanted = list(dict.fromkeys(node_ids))

    async def ask(node_id: int) -> tuple[LogDir, ...] | CoterieError:
        request = m.DescribeLogDirsRequest(topics=None)
        try:
            response = await deadline.limit(
                lambda: cluster.call(
                    request, m.DescribeLogDirsResponse, node_id=node_id
                )
            )
        except CoterieError as error:
            return error
        if response.error_code:
            return api_error(response.error_code, f"log directories of node {node_id}")
        return tuple(map(_log_dir, response.results))

    outcomes = await asyncio.gather(*map(ask, wanted))
    return results_of(wanted, dict(zip(wanted, outcomes, strict=True)))


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
