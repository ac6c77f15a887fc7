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

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final

from coterie.client.admin.calls import Deadline, backoff_s, describe_cluster, in_chunks
from coterie.client.admin.groups import Node
from coterie.client.admin.leaders import Outcomes, ask_leaders
from coterie.client.admin.results import (
    Partial,
    Progress,
    Results,
    api_error,
    results_of,
)
from coterie.client.cluster import (
    TRANSACTION,
    Cluster,
    find_coordinator_request,
    is_retriable,
    read_find_coordinator,
)
from coterie.client.connection import ANY_VERSION
from coterie.errors import ApiError, CoterieError, MalformedFrame, UnsupportedByBroker
from coterie.types import LogOffset, ProducerId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

DEFAULT_MAX_TIMEOUT_MS: Final = 900_000
"""The default of the broker setting `transaction.max.timeout.ms` (ms)."""
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


async def list_transactions(
    cluster: Cluster,
    states: Collection[TransactionState],
    producer_ids: Collection[ProducerId],
    running_ms: int | None,
    id_pattern: str | None,
) -> TransactionListings:
    """List the transactions of all brokers that match every filter."""
    deadline = Deadline(cluster)
    wanted = _PATTERN if id_pattern else _DURATION if running_ms else ANY_VERSION
    request = m.ListTransactionsRequest(
        state_filters=[each.value for each in states],
        producer_id_filters=list(producer_ids),
        duration_filter=running_ms or -1,
        transactional_id_pattern=id_pattern,
    )

    async def list_on(node: Node) -> list[TransactionListing] | CoterieError:
        async def once() -> list[TransactionListing]:
            response = await cluster.call(
                request, m.ListTransactionsResponse, node_id=node.node_id, wanted=wanted
            )
            if response.error_code:
                code = ErrorCode.read(response.error_code)
                raise ApiError(code, f"{node} cannot list transactions: {code.name}")
            return [
                TransactionListing(
                    each.transactional_id,
                    each.producer_id,
                    TransactionState.read(each.transaction_state),
                    node.node_id,
                )
                for each in response.transaction_states
            ]

        try:
            return await deadline.retrying(once)
        except UnsupportedByBroker:
            raise  # a list without that filter would be incomplete in an unknown way
        except CoterieError as error:
            return error

    nodes = (await describe_cluster(cluster, deadline)).nodes
    outcomes = await asyncio.gather(*map(list_on, nodes))
    listed: list[TransactionListing] = []
    errors: dict[int, CoterieError] = {}
    for node, outcome in zip(nodes, outcomes, strict=True):
        if isinstance(outcome, CoterieError):
            errors[node.node_id] = outcome
        else:
            listed += outcome
    listed.sort(key=lambda each: each.transactional_id)
    return TransactionListings(tuple(listed), errors)


async def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> Results[str, TransactionDescription]:
    """Describe transactions by their coordinators; retry retriable errors."""
    wanted = list(dict.fromkeys(transactional_ids))
    deadline = Deadline(cluster)
    outcomes: dict[str, TransactionDescription | CoterieError] = {}
    pending, attempt = wanted, 1
    while pending:
        outcomes |= await _describe_once(cluster, deadline, pending)
        delay_s = backoff_s(cluster.options, attempt)
        if not deadline.leaves(delay_s):
            break
        pending = [
            each
            for each in pending
            if isinstance(error := outcomes.get(each), CoterieError)
            and is_retriable(error)
        ]
        if pending:
            await asyncio.sleep(delay_s)
        attempt += 1
    return results_of(wanted, outcomes)


async def _describe_once(
    cluster: Cluster, deadline: Deadline, ids: Sequence[str]
) -> dict[str, TransactionDescription | CoterieError]:
    """Send each coordinator one request per 500 ids."""
    outcomes: dict[str, TransactionDescription | CoterieError] = {}
    by_node: dict[Node, list[str]] = defaultdict(list)
    for chunk in in_chunks(ids, _IDS_PER_REQUEST):
        try:
            places = await deadline.limit(partial(_coordinators, cluster, chunk))
        except CoterieError as error:
            outcomes.update(dict.fromkeys(chunk, error))
            continue
        for each, place in places.items():
            if isinstance(place, Node):
                by_node[place].append(each)
            else:
                outcomes[each] = place

    async def describe_on(node: Node, ids: Sequence[str]) -> None:
        try:
            response = await deadline.limit(
                lambda: cluster.call(
                    m.DescribeTransactionsRequest(transactional_ids=list(ids)),
                    m.DescribeTransactionsResponse,
                    node_id=node.node_id,
                )
            )
        except CoterieError as error:
            outcomes.update(dict.fromkeys(ids, error))
            return
        for each in response.transaction_states:
            name = f"transactional id {each.transactional_id}"
            outcomes[each.transactional_id] = (
                api_error(each.error_code, name)
                if each.error_code
                else _description(node, each)
            )

    await asyncio.gather(
        *(
            describe_on(node, chunk)
            for node, own in by_node.items()
            for chunk in in_chunks(own, _IDS_PER_REQUEST)
        )
    )
    return outcomes


async def _coordinators(
    cluster: Cluster, ids: Sequence[str]
) -> dict[str, Node | CoterieError]:
    connection = await cluster.connection()
    version = connection.version_of(m.FindCoordinatorRequest)
    request = find_coordinator_request(ids, version, TRANSACTION)
    response = await connection.call(request, m.FindCoordinatorResponse)
    found = read_find_coordinator(response, ids, version)
    places: dict[str, Node | CoterieError] = {}
    for each in ids:
        if (place := found.get(each)) is None:
            places[each] = MalformedFrame(
                f"the FindCoordinator response omits transactional id {each}"
            )
        elif place.code is ErrorCode.NONE:
            places[each] = Node(place.node_id, place.host, place.port)
        else:
            name = f"transactional id {each}"
            places[each] = api_error(place.code, name, place.message)
    return places


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


async def describe_producers(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    progress: Progress | None = None,
) -> Results[TopicPartition, tuple[ProducerState, ...]]:
    """Describe the producers of partitions, by the leaders."""

    async def ask(
        node_id: int, wanted: Mapping[TopicPartition, None]
    ) -> Outcomes[tuple[ProducerState, ...]]:
        topics: dict[TopicName, list[int]] = defaultdict(list)
        for each in wanted:
            topics[each.topic].append(each.partition)
        request = m.DescribeProducersRequest(
            topics=[
                m.ProducersTopicRequest(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ]
        )
        response = await cluster.call(
            request, m.DescribeProducersResponse, node_id=node_id
        )
        outcomes: dict[TopicPartition, tuple[ProducerState, ...] | CoterieError] = {}
        for topic in response.topics:
            for described in topic.partitions:
                at = TopicPartition(topic.name, described.partition_index)
                name = f"partition {at.topic}-{at.partition}"
                outcomes[at] = (
                    api_error(described.error_code, name, described.error_message)
                    if described.error_code
                    else tuple(map(_producer, described.active_producers))
                )
        return outcomes

    return await ask_leaders(cluster, dict.fromkeys(partitions), ask, progress)


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


async def find_hanging_transactions(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    older_than_ms: int,
    clock_ms: Callable[[], int],
    progress: Progress | None = None,
) -> Results[TopicPartition, tuple[HangingTransaction, ...]]:
    """Find the hanging transactions of partitions.

    `clock_ms` returns the time (ms since 1970, UTC). Raises the first error of a broker
    that cannot list its transactions.
    """
    wanted = list(dict.fromkeys(partitions))
    described = await describe_producers(cluster, wanted, progress)
    limit_ms = clock_ms() - older_than_ms
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
        listed = await list_transactions(cluster, (), producers, None, None)
        names = {each.producer_id: each.transactional_id for each in listed.all()}
        current = await describe_transactions(cluster, names.values())
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
    is_unknown = (
        isinstance(error, ApiError)
        and error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    return True if is_unknown else error


async def abort_transactions(
    cluster: Cluster, transactions: Iterable[OpenTransaction]
) -> Results[OpenTransaction, None]:
    """Write abort markers by the leaders; several of one partition in turn."""
    wanted = list(dict.fromkeys(transactions))
    outcomes: dict[OpenTransaction, CoterieError | None] = {}

    async def ask(
        node_id: int, own: Mapping[TopicPartition, OpenTransaction]
    ) -> Outcomes[None]:
        request = m.WriteTxnMarkersRequest(markers=list(map(_marker, own.values())))
        response = await cluster.call(
            request, m.WriteTxnMarkersResponse, node_id=node_id
        )
        codes = {
            (marker.producer_id, topic.name, each.partition_index): each.error_code
            for marker in response.markers
            for topic in marker.topics
            for each in topic.partitions
        }
        return {
            at: _marker_error(code, at) if code else None
            for at, each in own.items()
            if (code := codes.get((each.producer_id, *at))) is not None
        }

    pending = wanted
    while pending:
        turn = {each.partition: each for each in reversed(pending)}
        results = await ask_leaders(cluster, turn, ask)
        for at, each in turn.items():
            outcomes[each] = results.errors.get(at)
        pending = [each for each in pending if each not in outcomes]
    return results_of(wanted, outcomes)


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


def _marker_error(code: int, at: TopicPartition) -> ApiError:
    name = f"partition {at.topic}-{at.partition}"
    return api_error(code, name, _MARKER_EXPLANATIONS.get(ErrorCode.read(code)))
