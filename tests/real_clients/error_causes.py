"""What makes a broker send an error: other clients, operators and coordinators.

Each function does it on a server whose only client has joined the group `GROUP`, or
has begun a transaction of `TRANSACTIONAL_ID`.
"""

from __future__ import annotations

import threading
from typing import Final

from coterie.testing import Kafka
from coterie.testing.in_process import check
from coterie.testing.recorder import RecordedRequest
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, Producer, encode_batch
from tests.real_clients.client_operations import GROUP
from tests.real_clients.client_sessions import TRANSACTIONAL_ID
from tests.support.waiting import eventually

SESSION_MS: Final = 60_000
WITHOUT_MEMBER_ID: Final = 3
"""The last version of JoinGroup in which a member joins without an id."""
SUBSCRIPTION: Final = (
    b"\x00\x00" + b"\x00\x00\x00\x01" + b"\x00\x06orders" + b"\xff\xff\xff\xff"
)
NO_SUBSCRIPTION: Final = b"\x00\x00" + b"\x00\x00\x00\x00" + b"\xff\xff\xff\xff"


def _last(kafka: Kafka, api: str) -> RecordedRequest:
    return kafka.requests.of(api)[-1]


# Groups of the classic protocol.


def another_joins(kafka: Kafka, kind: str = "consumer") -> None:
    """Let a member that reads the topic orders join an empty group."""
    joined = kafka.request(
        m.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type=kind,
            protocols=[m.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        ),
        m.JoinGroupResponse,
        version=WITHOUT_MEMBER_ID,
        group=GROUP,
    )
    check(joined.error_code, "join")
    _sync(kafka, joined)


def another_of_another_kind_joins(kafka: Kafka) -> None:
    another_joins(kafka, "connect")


def _sync(kafka: Kafka, joined: m.JoinGroupResponse) -> None:
    synced = kafka.request(
        m.SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
        ),
        m.SyncGroupResponse,
        version=WITHOUT_MEMBER_ID,
        group=GROUP,
    )
    check(synced.error_code, "sync")


def rebalance_begins(kafka: Kafka) -> None:
    """Let another member join beside the client. It gets its response when the client
    has joined again."""
    rebalances = len(kafka.rebalances.of(GROUP))
    join = m.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer",
        protocols=[
            m.JoinGroupRequestProtocol(name=each.name, metadata=NO_SUBSCRIPTION)
            for each in _last(kafka, "JoinGroup").request.protocols
        ],
    )
    threading.Thread(
        target=kafka.request,
        args=(join, m.JoinGroupResponse),
        kwargs={"version": WITHOUT_MEMBER_ID, "group": GROUP},
        daemon=True,
    ).start()
    eventually(
        lambda: len(kafka.rebalances.of(GROUP)) > rebalances, expected="a rebalance"
    )


def member_is_removed(kafka: Kafka) -> None:
    member = _last(kafka, "SyncGroup").request.member_id
    left = kafka.request(
        m.LeaveGroupRequest(
            group_id=GROUP, members=[m.MemberIdentity(member_id=member, reason="test")]
        ),
        m.LeaveGroupResponse,
        group=GROUP,
    )
    check(left.error_code or left.members[0].error_code, "leave")


def generation_ends(kafka: Kafka) -> None:
    """Join and sync in the member's name, as its own request does that was delayed."""
    joined = kafka.request(
        _last(kafka, "JoinGroup").request,
        m.JoinGroupResponse,
        version=WITHOUT_MEMBER_ID,
        group=GROUP,
    )
    check(joined.error_code, "join")
    _sync(kafka, joined)


def second_process_starts(kafka: Kafka) -> None:
    """Join with the same `group.instance.id`."""
    first = _last(kafka, "JoinGroup").request
    joined = kafka.request(
        m.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            group_instance_id=first.group_instance_id,
            protocol_type=first.protocol_type,
            protocols=first.protocols,
        ),
        m.JoinGroupResponse,
        group=GROUP,
    )
    check(joined.error_code, "join")


def coordinator_moves(kafka: Kafka) -> None:
    kafka.faults.coordinator_moves(GROUP)


def disk_is_full_once(kafka: Kafka) -> None:
    kafka.faults.disk_full(times=1)


# Groups of the consumer protocol.


def _heartbeat(
    kafka: Kafka,
    member: str,
    epoch: int,
    instance: str | None = None,
    topic: str = "other",
) -> None:
    response = kafka.request(
        m.ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[m.TopicPartitions()] if epoch > 0 else [],
        ),
        m.ConsumerGroupHeartbeatResponse,
        group=GROUP,
    )
    check(response.error_code, "heartbeat")


def static_member_exists(kafka: Kafka) -> None:
    """Join with the instance id of the client first."""
    _heartbeat(kafka, "first", 0, "instance-1")


def member_exists(kafka: Kafka) -> None:
    _heartbeat(kafka, "first", 0)


def session_of_the_member_ends(kafka: Kafka) -> None:
    """Remove the member of the consumer protocol."""
    member = _last(kafka, "ConsumerGroupHeartbeat").request.member_id
    _heartbeat(kafka, member, -1)


def epoch_passes(kafka: Kafka) -> None:
    """Join again in the member's name, as its own requests do that were delayed, with
    topics that change the epoch of the group."""
    member = _last(kafka, "ConsumerGroupHeartbeat").request.member_id
    _heartbeat(kafka, member, 0, topic="other")
    _heartbeat(kafka, member, 0, topic="orders")


# Producers.


def second_producer_starts(kafka: Kafka) -> None:
    """Initialize the transactional id again, which fences the client."""
    started = kafka.request(
        m.InitProducerIdRequest(
            transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=SESSION_MS
        ),
        m.InitProducerIdResponse,
        version=4,
    )
    check(started.error_code, "initialize")


def transaction_is_aborted(kafka: Kafka) -> None:
    """Abort the client's transaction in its name, as `kafka-transactions` does."""
    producer = _last(kafka, "InitProducerId").response
    ended = kafka.request(
        m.EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=False,
        ),
        m.EndTxnResponse,
        version=4,
    )
    check(ended.error_code, "abort")


def batch_is_ahead(kafka: Kafka) -> None:
    """Append three records in the client's name, so that its next is not the next."""
    producer = _last(kafka, "InitProducerId").response
    row = m.PartitionProduceData(
        index=0,
        records=encode_batch(
            [LogRecord(at, 1_700_000_000_000, None, b"x") for at in range(3)],
            producer=Producer(producer.producer_id, producer.producer_epoch, 1),
        ),
    )
    topic = _last(kafka, "Produce").topics[0]
    appended = kafka.request(
        m.ProduceRequest(
            acks=-1,
            timeout_ms=SESSION_MS,
            topic_data=[m.TopicProduceData(name=topic, partition_data=[row])],
        ),
        m.ProduceResponse,
        version=9,
    )
    check(appended.responses[0].partition_responses[0].error_code, "produce")


def offset_is_pending(kafka: Kafka, topic: str = "orders") -> None:
    """Commit an offset in a transaction that stays open."""
    producer = kafka.request(
        m.InitProducerIdRequest(
            transactional_id="other", transaction_timeout_ms=SESSION_MS
        ),
        m.InitProducerIdResponse,
        version=4,
    )
    check(producer.error_code, "initialize")
    added = kafka.request(
        m.AddOffsetsToTxnRequest(
            transactional_id="other",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=GROUP,
        ),
        m.AddOffsetsToTxnResponse,
    )
    check(added.error_code, "add offsets")
    row = m.TxnOffsetCommitRequestTopic(
        name=topic,
        partitions=[
            m.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        ],
    )
    committed = kafka.request(
        m.TxnOffsetCommitRequest(
            transactional_id="other",
            group_id=GROUP,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[row],
        ),
        m.TxnOffsetCommitResponse,
        version=3,
        group=GROUP,
    )
    check(committed.topics[0].partitions[0].error_code, "commit")


# Fetch sessions.


def session_ends(kafka: Kafka) -> None:
    """End the client's fetch session in its name, as a broker does that needs room."""
    session_id = kafka.requests.of("Fetch")[0].response.session_id
    kafka.request(
        m.FetchRequest(session_id=session_id, session_epoch=-1, max_wait_ms=0),
        m.FetchResponse,
        version=12,
    )
