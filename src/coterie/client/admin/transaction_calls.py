"""The calls of the admin client about transactions and their producers (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.client.admin.results import Progress, Results
    from coterie.client.admin.transactions import (
        HangingTransaction,
        OpenTransaction,
        ProducerState,
        TransactionDescription,
        TransactionListings,
        TransactionState,
    )
    from coterie.client.cluster import Cluster
    from coterie.types import ProducerId, TopicPartition


class TransactionCalls:
    """The part of `AdminClient` about transactions."""

    _cluster: Cluster

    async def list_transactions(
        self,
        *,
        states: Collection[TransactionState] = (),
        producer_ids: Collection[ProducerId] = (),
        running_ms: int | None = None,
        id_pattern: str | None = None,
    ) -> TransactionListings:
        """List the transactions of all brokers that match every filter; an empty filter
        matches all.

        `running_ms` selects transactions that started longer ago (ms), complete ones
        too; `id_pattern` those whose transactional id matches a regular expression
        (RE2J). Raises
        UnsupportedByBroker for brokers before Kafka 3.0, before 3.8 for `running_ms`
        (KIP-994) and before 4.1 for `id_pattern` (KIP-1152).
        """
        from coterie.client.admin import transactions

        return await transactions.list_transactions(
            self._cluster, states, producer_ids, running_ms, id_pattern
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, TransactionDescription]:
        """Describe the current or last transaction of transactional ids (KIP-664). One
        that does not exist has the error TRANSACTIONAL_ID_NOT_FOUND.

        Brokers before Kafka 3.0 have the error UnsupportedByBroker.
        """
        from coterie.client.admin import transactions

        return await transactions.describe_transactions(
            self._cluster, transactional_ids
        )

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Describe the producers with recent records in partitions, and their open
        transactions (KIP-664). It needs READ on the topic and Kafka 2.8."""
        from coterie.client.admin import transactions

        return await transactions.describe_producers(
            self._cluster, partitions, progress
        )

    async def find_hanging_transactions(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        older_than_ms: int = 900_000,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, tuple[HangingTransaction, ...]]:
        """Find open transactions that their coordinators do not have, so that nothing
        but `abort_transactions` ends them; None means every partition.

        Only transactions without a record for `older_than_ms` are checked (default: the
        default of `transaction.max.timeout.ms`). Raises the errors of
        `describe_topics` and of nodes that cannot list transactions, and
        UnsupportedByBroker for brokers before Kafka 3.0.
        """
        import time

        from coterie.client.admin import topics, transactions

        if partitions is None:
            described = (await topics.describe_topics(self._cluster)).all()
            partitions = [
                at for each in described.values() for at in each.all_partitions
            ]
        return await transactions.find_hanging_transactions(
            self._cluster,
            partitions,
            older_than_ms,
            lambda: time.time_ns() // 1_000_000,
            progress,
        )

    async def abort_transactions(
        self, aborted: Iterable[OpenTransaction]
    ) -> Results[OpenTransaction, None]:
        """Write abort markers for open transactions, whatever their coordinators know.

        Abort only transactions that `find_hanging_transactions` returned: a marker for
        one that is in progress splits it, with some partitions aborted and others
        committed. It needs CLUSTER_ACTION on the cluster and Kafka 2.8.
        """
        from coterie.client.admin import transactions

        return await transactions.abort_transactions(self._cluster, aborted)
