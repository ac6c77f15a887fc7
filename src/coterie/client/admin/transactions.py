"""Transactions and their producers: list, describe, find hanging ones, abort (KIP-664).

A transaction hangs when a partition waits for its end and its coordinator will never
write one, because it does not know the transaction. Consumers with
`isolation.level=read_committed` stop there, and a compacted log is not cleaned beyond
it.

Rules of this file: an error of a broker, transaction or partition does not affect the
others. Only a transaction that its coordinator certainly does not have counts as
hanging, so an unavailable coordinator is an error and never a hanging transaction.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from coterie.client.admin.calls import ask_nodes
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.groups import Node
from coterie.client.admin.results import (
    Partial,
    Progress,
    Results,
    api_error,
    partition_name,
    results_of,
)
from coterie.client.admin.routing import (
    Outcomes,
    send_to_coordinators,
    send_to_leaders,
)
from coterie.client.admin.topics import Topics
from coterie.client.cluster import TRANSACTION
from coterie.client.connection import ANY_VERSION
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker, code_of
from coterie.types import LogOffset, ProducerId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_IDS_PER_REQUEST: Final = 500
_DURATION: Final = m.ListTransactionsRequest.FIELDS["duration_filter"].versions
_PATTERN: Final = m.ListTransactionsRequest.FIELDS["transactional_id_pattern"].versions


class TransactionState(Enum):
    """The state of a transaction; a state of a newer broker is UNKNOWN."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    UNKNOWN = "Unknown"

    @classmethod
    def read(cls, text: str) -> TransactionState:
        """Return the state with that name."""
        return _STATES.get(text, cls.UNKNOWN)


_STATES: Final = {each.value: each for each in TransactionState}


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transaction as its coordinator lists it."""

    transactional_id: str
    producer_id: ProducerId
    state: TransactionState
    coordinator_id: int
    """The node id of the coordinator."""


@dataclass(frozen=True, slots=True)
class TransactionListings(Partial[int]):
    """The transactions of the whole cluster, and the errors of nodes that could not
    list theirs."""

    transactions: tuple[TransactionListing, ...]
    """In the order of their transactional ids."""
    errors: Mapping[int, CoterieError] = field(default_factory=dict)
    """By node id."""

    def all(self) -> tuple[TransactionListing, ...]:
        """Return every transaction. Raises the first node's error, if any."""
        self.raise_any()
        return self.transactions


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The current transaction of a transactional id, or its last one."""

    transactional_id: str
    coordinator: Node
    state: TransactionState
    producer_id: ProducerId
    producer_epoch: int
    timeout_ms: int
    """The producer's `transaction.timeout.ms` (ms)."""
    started_ms: int | None = None
    """The start of the transaction (ms since 1970, UTC), also of a complete one; None
    before the first."""
    partitions: tuple[TopicPartition, ...] = ()
    """The partitions in the transaction, sorted."""


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer with recent records in a partition."""

    producer_id: ProducerId
    producer_epoch: int
    last_sequence: int
    """The sequence number of its last record; -1 without records."""
    last_timestamp_ms: int
    """The time of its last record (ms since 1970, UTC); -1 without records."""
    coordinator_epoch: int | None = None
    """The epoch of the coordinator that wrote its last marker; None without one."""
    transaction_start: LogOffset | None = None
    """The first offset of its open transaction; None without one."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """An open transaction in a partition, as far as a marker needs it."""

    partition: TopicPartition
    producer_id: ProducerId
    producer_epoch: int
    coordinator_epoch: int = 0
    start: LogOffset | None = None
    """Its first offset in the partition."""

    @classmethod
    def of(cls, partition: TopicPartition, state: ProducerState) -> OpenTransaction:
        """Return the open transaction of a producer in a partition."""
        return cls(
            partition,
            state.producer_id,
            state.producer_epoch,
            state.coordinator_epoch or 0,
            state.transaction_start,
        )


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """An open transaction that its coordinator does not have."""

    transaction: OpenTransaction
    last_timestamp_ms: int
    """The time of its last record (ms since 1970, UTC)."""
    transactional_id: str | None = None
    """The transactional id that the producer has now; None when no coordinator knows
    the producer."""


class Transactions(Family):
    """Calls about transactions and their producers (KIP-664)."""

    async def list(
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
        (RE2J). Raises UnsupportedByBroker for brokers before Kafka 3.0, before 3.8 for
        `running_ms` (KIP-994) and before 4.1 for `id_pattern` (KIP-1152).
        """
        wanted = _PATTERN if id_pattern else _DURATION if running_ms else ANY_VERSION
        request = m.ListTransactionsRequest(
            state_filters=[each.value for each in states],
            producer_id_filters=list(producer_ids),
            duration_filter=running_ms or -1,
            transactional_id_pattern=id_pattern,
        )

        async def list_on(node_id: int) -> list[TransactionListing]:
            response = await self._cluster.call(
                request, m.ListTransactionsResponse, node_id=node_id, wanted=wanted
            )
            if response.error_code:
                code = ErrorCode.read(response.error_code)
                name = f"{self._cluster.node(node_id)} cannot list transactions"
                raise ApiError(code, f"{name}: {code.name}")
            return [
                TransactionListing(
                    each.transactional_id,
                    each.producer_id,
                    TransactionState.read(each.transaction_state),
                    node_id,
                )
                for each in response.transaction_states
            ]

        results = await ask_nodes(self._cluster, list_on)
        for error in results.errors.values():
            # Without that filter the list would be incomplete.
            if isinstance(error, UnsupportedByBroker):
                raise error
        listed = [each for own in results.values.values() for each in own]
        listed.sort(key=lambda each: each.transactional_id)
        return TransactionListings(tuple(listed), results.errors)

    async def describe(
        self, transactional_ids: Iterable[str]
    ) -> Results[str, TransactionDescription]:
        """Describe the current or last transaction of transactional ids (KIP-664). One
        that does not exist has the error TRANSACTIONAL_ID_NOT_FOUND.

        Brokers before Kafka 3.0 have the error UnsupportedByBroker.
        """

        async def request(
            node_id: int, ids: Sequence[str]
        ) -> Outcomes[str, TransactionDescription]:
            response = await self._cluster.call(
                m.DescribeTransactionsRequest(transactional_ids=list(ids)),
                m.DescribeTransactionsResponse,
                node_id=node_id,
            )
            node = self._cluster.node(node_id)
            return {
                each.transactional_id: api_error(
                    each.error_code, f"transactional id {each.transactional_id}"
                )
                if each.error_code
                else _description(node, each)
                for each in response.transaction_states
            }

        return await send_to_coordinators(
            self._cluster,
            transactional_ids,
            request,
            key_type=TRANSACTION,
            chunk=_IDS_PER_REQUEST,
        )

    async def describe_producers(
        self,
        partitions: Iterable[TopicPartition],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Describe the producers with recent records in partitions, and their open
        transactions (KIP-664). It needs READ on the topic and Kafka 2.8."""

        async def ask(
            node_id: int, wanted: Sequence[TopicPartition]
        ) -> Outcomes[TopicPartition, tuple[ProducerState, ...]]:
            topics: dict[TopicName, list[int]] = defaultdict(list)
            for each in wanted:
                topics[each.topic].append(each.partition)
            request = m.DescribeProducersRequest(
                topics=[
                    m.ProducersTopicRequest(name=name, partition_indexes=indexes)
                    for name, indexes in topics.items()
                ]
            )
            response = await self._cluster.call(
                request, m.DescribeProducersResponse, node_id=node_id
            )
            outcomes: dict[
                TopicPartition, tuple[ProducerState, ...] | CoterieError
            ] = {}
            for topic in response.topics:
                for described in topic.partitions:
                    partition = TopicPartition(topic.name, described.partition_index)
                    name = partition_name(partition)
                    outcomes[partition] = (
                        api_error(described.error_code, name, described.error_message)
                        if described.error_code
                        else tuple(map(_producer, described.active_producers))
                    )
            return outcomes

        return await send_to_leaders(self._cluster, partitions, ask, progress)

    async def find_hanging(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        older_than_ms: int = 900_000,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, tuple[HangingTransaction, ...]]:
        """Find open transactions that their coordinators do not have, so that nothing
        but `abort` ends them; None means every partition.

        Only transactions without a record for `older_than_ms` are checked (default: the
        default of `transaction.max.timeout.ms`). Raises the errors of
        `Topics.describe` and of nodes that cannot list transactions, and
        UnsupportedByBroker for brokers before Kafka 3.0.
        """
        if partitions is None:
            topics = (await Topics(self._cluster).describe()).all()
            partitions = [at for each in topics.values() for at in each.all_partitions]
        wanted = list(dict.fromkeys(partitions))
        described = await self.describe_producers(wanted, progress=progress)
        limit_ms = time.time_ns() // 1_000_000 - older_than_ms
        candidates = [
            (OpenTransaction.of(at, each), each.last_timestamp_ms)
            for at, states in described.values.items()
            for each in states
            if each.transaction_start is not None and each.last_timestamp_ms <= limit_ms
        ]
        outcomes: dict[TopicPartition, CoterieError] = dict(described.errors)
        found: dict[TopicPartition, list[HangingTransaction]] = defaultdict(list)
        if candidates:
            producers = {each.producer_id for each, _ in candidates}
            listed = await self.list(producer_ids=producers)
            names = {each.producer_id: each.transactional_id for each in listed.all()}
            current = await self.describe(names.values())
            for each, timestamp_ms in candidates:
                name = names.get(each.producer_id)
                verdict = _is_hanging(each, name, current)
                if isinstance(verdict, CoterieError):
                    outcomes[each.partition] = verdict
                elif verdict:
                    hanging = HangingTransaction(each, timestamp_ms, name)
                    found[each.partition].append(hanging)
        return Results(
            {at: tuple(found[at]) for at in wanted if at not in outcomes},
            {at: outcomes[at] for at in wanted if at in outcomes},
        )

    async def abort(
        self, aborted: Iterable[OpenTransaction]
    ) -> Results[OpenTransaction, None]:
        """Write abort markers for open transactions, whatever their coordinators know.

        Abort only transactions that `find_hanging` returned: a marker for
        one that is in progress splits it, with some partitions aborted and others
        committed. It needs CLUSTER_ACTION on the cluster and Kafka 2.8.
        """
        wanted = list(dict.fromkeys(aborted))
        outcomes: dict[OpenTransaction, CoterieError | None] = {}

        async def ask(
            node_id: int, partitions: Sequence[TopicPartition]
        ) -> Outcomes[TopicPartition, None]:
            markers = [_marker(turn[each]) for each in partitions]
            request = m.WriteTxnMarkersRequest(markers=markers)
            response = await self._cluster.call(
                request, m.WriteTxnMarkersResponse, node_id=node_id
            )
            codes = {
                (marker.producer_id, topic.name, each.partition_index): each.error_code
                for marker in response.markers
                for topic in marker.topics
                for each in topic.partitions
            }
            return {
                each: _marker_error(code, each) if code else None
                for each in partitions
                if (code := codes.get((turn[each].producer_id, *each))) is not None
            }

        turn: dict[TopicPartition, OpenTransaction] = {}
        pending = wanted
        while pending:
            turn = {each.partition: each for each in reversed(pending)}
            results = await send_to_leaders(self._cluster, turn, ask)
            for at, each in turn.items():
                outcomes[each] = results.errors.get(at)
            pending = [each for each in pending if each not in outcomes]
        return results_of(wanted, outcomes)


class SyncTransactions(SyncFamily[Transactions]):
    """The blocking methods of `Transactions`."""

    list = blocking(Transactions.list)
    describe = blocking(Transactions.describe)
    describe_producers = blocking(Transactions.describe_producers)
    find_hanging = blocking(Transactions.find_hanging)
    abort = blocking(Transactions.abort)


def _description(node: Node, each: m.DescribedTransaction) -> TransactionDescription:
    started = each.transaction_start_time_ms
    return TransactionDescription(
        each.transactional_id,
        node,
        TransactionState.read(each.transaction_state),
        each.producer_id,
        each.producer_epoch,
        each.transaction_timeout_ms,
        started if started >= 0 else None,
        tuple(
            sorted(
                TopicPartition(topic.topic, at)
                for topic in each.topics
                for at in topic.partitions
            )
        ),
    )


def _producer(each: m.DescribedProducer) -> ProducerState:
    epoch, start = each.coordinator_epoch, each.current_txn_start_offset
    return ProducerState(
        each.producer_id,
        each.producer_epoch,
        each.last_sequence,
        each.last_timestamp,
        epoch if epoch >= 0 else None,
        start if start >= 0 else None,
    )


def _is_hanging(
    transaction: OpenTransaction,
    name: str | None,
    current: Results[str, TransactionDescription],
) -> bool | CoterieError:
    """Return whether the coordinator certainly does not have the transaction."""
    if name is None:
        return True
    error = current.errors.get(name)
    if error is None:
        return transaction.partition not in current.one(name).partitions
    is_unknown = code_of(error) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return True if is_unknown else error


def _marker(transaction: OpenTransaction) -> m.WritableTxnMarker:
    topic, partition = transaction.partition
    return m.WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_result=False,
        topics=[m.WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=transaction.coordinator_epoch,
    )


_MARKER_EXPLANATIONS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INVALID_PRODUCER_EPOCH: (
        "the producer has a newer epoch there; find its open transaction again"
    ),
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: (
        "a newer coordinator has written markers there; find the transaction again"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        "this principal needs CLUSTER_ACTION or ALTER on the cluster"
    ),
}


def _marker_error(code: int, partition: TopicPartition) -> ApiError:
    explanation = _MARKER_EXPLANATIONS.get(ErrorCode.read(code))
    return api_error(code, partition_name(partition), explanation)
