"""Transactional producers, by raw requests.

Apache Kafka ends transactions in the background, and answers CONCURRENT_TRANSACTIONS
meanwhile: each function repeats its request until the coordinator is ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from coterie.wire import messages as m
from coterie.wire.schema import Message
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

LOADING, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
CONCURRENT_TRANSACTIONS = 51
NOT_READY: Final = {
    LOADING,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    CONCURRENT_TRANSACTIONS,
}


class Producer(NamedTuple):
    """A transactional id with a producer id and epoch."""

    transactional_id: str
    id: int
    epoch: int


def init_producer_id(
    wire: WireClient,
    transactional_id: str | None,
    producer_id: int = -1,
    epoch: int = -1,
    *,
    version: int = 5,
    timeout_ms: int = 60_000,
) -> m.InitProducerIdResponse:
    """Return the response of InitProducerId."""
    request = m.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    response: m.InitProducerIdResponse = _call(wire, request, version)
    return response


def new_producer(
    wire: WireClient, transactional_id: str, *, version: int = 5
) -> Producer:
    """Return the producer of a transactional id, with a new epoch."""
    response = init_producer_id(wire, transactional_id, version=version)
    assert response.error_code == 0
    return Producer(transactional_id, response.producer_id, response.producer_epoch)


def add_offsets(
    wire: WireClient, producer: Producer, group: str, *, version: int = 4
) -> int:
    """Add a group to the producer's transaction; return the error code."""
    request = m.AddOffsetsToTxnRequest(**_claim(producer), group_id=group)
    code: int = _call(wire, request, version).error_code
    return code


def txn_commit(
    wire: WireClient,
    producer: Producer,
    group: str,
    topics: Iterable[tuple[str, Mapping[int, int]]],
    *,
    version: int = 5,
    **fields: Any,
) -> list[tuple[str, list[tuple[int, int]]]]:
    """Commit offsets of topics in the producer's transaction; return each topic of the
    response, with partitions and error codes."""
    request = m.TxnOffsetCommitRequest(
        **_claim(producer),
        group_id=group,
        topics=[
            m.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    m.TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata="",
                    )
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in topics
        ],
        **fields,
    )
    return [
        (
            topic.name,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in _call(wire, request, version).topics
    ]


def end_txn(
    wire: WireClient, producer: Producer, *, commit: bool, version: int = 5
) -> m.EndTxnResponse:
    """End the producer's transaction; return the response."""
    request = m.EndTxnRequest(**_claim(producer), committed=commit)
    response: m.EndTxnResponse = _call(wire, request, version)
    return response


def _claim(producer: Producer) -> dict[str, Any]:
    return {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
    }


def _call(wire: WireClient, request: Message, version: int) -> Any:
    response: Any = None

    def is_ready() -> bool:
        nonlocal response
        response = wire.call(request, version)
        return not NOT_READY.intersection(_codes(response))

    eventually(is_ready, expected="a transaction coordinator that is ready")
    return response


def _codes(response: Any) -> list[int]:
    topics = getattr(response, "topics", None)
    if topics is None:
        return [response.error_code]
    return [each.error_code for topic in topics for each in topic.partitions]
