"""A node's requests about transactions to the simulated upstream cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coterie.errors import ApiError, CoterieError
from coterie.gateway.upstream.transactions import Application
from coterie.types import ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import INT32_MAX, Producer
from sim.gateway.upstream import Cluster, UpstreamClient

_REFUSALS: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class ClientTransactions:
    """A node's requests about transactions, `TransactionRequests` of the gateway."""

    def __init__(self, client: UpstreamClient, cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster

    def add_partition(
        self,
        application: Application,
        shard: int,
        done: Callable[[CoterieError | None], None],
    ) -> None:
        """Add a shard's partition to the transaction of an application."""
        cluster = self._cluster

        def execute() -> CoterieError | None:
            if cluster.happens(cluster.faults.refusals):
                return ApiError(cluster.rng.choice(_REFUSALS))
            return cluster.transactions.add_partition(application, shard)

        self._client.call(execute, done)

    def producers(
        self,
        shard: int,
        done: Callable[[Mapping[ProducerId, Producer] | CoterieError], None],
    ) -> None:
        """List the producers of a shard's partition, with their next sequences."""
        cluster = self._cluster

        def execute() -> Mapping[ProducerId, Producer] | CoterieError:
            if not cluster.has_leader(shard) or cluster.happens(
                cluster.faults.refusals
            ):
                return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            entries = cluster.partitions[shard].producers.entries
            return {
                producer_id: Producer(
                    producer_id,
                    entry.epoch,
                    (entry.recent[-1].last + 1) & INT32_MAX if entry.recent else 0,
                )
                for producer_id, entry in entries.items()
            }

        self._client.call(execute, done)
