"""Requests of the crash tests; an error code that is not retried raises Refused."""

from __future__ import annotations

from typing import Any

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    NO_PRODUCER,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    decode_records,
    encode_batch,
    split_batches,
)
from tests.broker.server.harness import WireClient

PLAIN, TXN = "plain", "transactions"
GROUP, TXN_GROUP = "committer", "transactional committer"
TRANSACTIONAL_ID = "crash"
COPIES = 3
"""The number of records in a transaction."""
MAX_WAIT_MS = 10_000
FETCH_BYTES = 64 * 1024 * 1024
READ_COMMITTED = 1
RETRY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Refused(Exception):
    """A response with an error code."""


def checked(code: int) -> None:
    """Raise Refused unless the code is 0."""
    if code:
        raise Refused(ErrorCode(code).name)


def create_topics(client: WireClient) -> None:
    """Create the topics of the load."""
    topics = [
        m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in (PLAIN, TXN)
    ]
    answer = client.call(m.CreateTopicsRequest(topics=topics, timeout_ms=MAX_WAIT_MS))
    for topic in answer.topics:
        checked(topic.error_code)


def produce_request(
    topic: str, values: list[int], producer: Producer = NO_PRODUCER
) -> m.ProduceRequest:
    """Encode a batch with a record for each value."""
    records = [
        LogRecord(at, 1, b"key", b"%d" % value) for at, value in enumerate(values)
    ]
    transactional = producer.producer_id >= 0
    data = m.PartitionProduceData(
        index=0,
        records=encode_batch(
            records,
            producer=producer,
            attributes=TRANSACTIONAL if transactional else 0,
        ),
    )
    return m.ProduceRequest(
        transactional_id=TRANSACTIONAL_ID if transactional else None,
        acks=-1,
        timeout_ms=MAX_WAIT_MS,
        topic_data=[m.TopicProduceData(name=topic, partition_data=[data])],
    )


def produced(answer: Any) -> None:
    """Check the error code of a Produce response."""
    checked(answer.responses[0].partition_responses[0].error_code)


def commit_request(offset: int) -> m.OffsetCommitRequest:
    """Commit an offset of PLAIN-0 for GROUP."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    topic = m.OffsetCommitRequestTopic(name=PLAIN, partitions=[partition])
    return m.OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=-1, topics=[topic]
    )


def committed(client: WireClient, group_id: str) -> int:
    """Return the committed offset of PLAIN-0; -1 for none."""
    group = m.OffsetFetchRequestGroup(group_id=group_id, topics=None)
    while True:
        answer = client.call(m.OffsetFetchRequest(groups=[group]), 8)
        [found] = answer.groups
        if found.error_code not in RETRY:
            break
    checked(found.error_code)
    return int(found.topics[0].partitions[0].committed_offset) if found.topics else -1


def begin(client: WireClient) -> Producer:
    """Initialize TRANSACTIONAL_ID, which aborts its ongoing transaction."""
    request = m.InitProducerIdRequest(
        transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000
    )
    while True:
        answer = client.call(request, 4)
        if answer.error_code not in RETRY:
            break
    checked(answer.error_code)
    return Producer(answer.producer_id, answer.producer_epoch, 0)


def transaction(client: WireClient, producer: Producer, number: int) -> None:
    """Send all requests of a transaction except EndTxn."""
    identity: dict[str, Any] = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
    }
    added = client.call(
        m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTIONAL_ID,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[m.AddPartitionsToTxnTopic(name=TXN, partitions=[0])],
        ),
        3,
    )
    [topic] = added.results_by_topic_v3_and_below
    checked(topic.results_by_partition[0].partition_error_code)
    produced(client.call(produce_request(TXN, [number] * COPIES, producer), 11))
    named = {"transactional_id": TRANSACTIONAL_ID, "group_id": TXN_GROUP, **identity}
    checked(client.call(m.AddOffsetsToTxnRequest(**named), 3).error_code)
    partition = m.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=number, committed_metadata=""
    )
    answer = client.call(
        m.TxnOffsetCommitRequest(
            **named,
            topics=[m.TxnOffsetCommitRequestTopic(name=PLAIN, partitions=[partition])],
        ),
        3,
    )
    checked(answer.topics[0].partitions[0].error_code)


def end(client: WireClient, producer: Producer, *, commit: bool) -> None:
    """End the ongoing transaction."""
    request = m.EndTxnRequest(
        transactional_id=TRANSACTIONAL_ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    checked(client.call(request, 3).error_code)


def read(client: WireClient, topic: str) -> list[int]:
    """Return the values of a topic that a read_committed consumer reads, in order."""
    values: list[int] = []
    offset = 0
    while True:
        partition = m.FetchPartition(
            partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES
        )
        answer = client.call(
            m.FetchRequest(
                max_wait_ms=0,
                isolation_level=READ_COMMITTED,
                topics=[m.FetchTopic(topic=topic, partitions=[partition])],
            ),
            12,
        )
        [data] = answer.responses[0].partitions
        checked(data.error_code)
        batches = list(split_batches(data.records or b""))
        if not batches:
            assert offset == data.last_stable_offset
            return values
        aborted = {
            (each.producer_id, each.first_offset)
            for each in data.aborted_transactions or []
        }
        for header, batch in batches:
            offset = header.last_offset + 1
            if header.is_control:
                continue
            if (header.producer_id, header.base_offset) in aborted:
                continue  # each transaction is one batch
            values += [int(r.value or b"") for r in decode_records(batch, header)]
