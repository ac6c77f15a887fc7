"""Rows of topics, their data and their configurations."""

from __future__ import annotations

from typing import Any, Final

from coterie.auth.acl import Operation
from coterie.wire import messages as m
from coterie.wire.record_batch import (
    NO_PRODUCER,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
)
from tests.broker.server.apis.acl_rows import (
    NO_TOPIC,
    NO_TRANSACTION,
    Place,
    Right,
    Row,
    by_name,
    by_topic,
    cluster,
    refusal,
    topic,
    transaction,
)

ALTER, CREATE = Operation.ALTER, Operation.CREATE
DELETE, DESCRIBE = Operation.DELETE, Operation.DESCRIBE
READ, WRITE = Operation.READ, Operation.WRITE
DESCRIBE_CONFIGS = Operation.DESCRIBE_CONFIGS
ALTER_CONFIGS = Operation.ALTER_CONFIGS
BOTH: Final = {"t": 0, "u": 0}
NOT_TOLD: Final = -(2**31)


def each_topic(operation: Operation) -> dict[Right, object]:
    """Return the expected errors: a topic without the operation fails alone."""
    return {
        topic(operation): {"t": NO_TOPIC, "u": 0},
        topic(operation, "u"): {"t": 0, "u": NO_TOPIC},
    }


def produce(
    place: Place, transactional_id: str | None = None, *, by_id: bool = False
) -> m.ProduceRequest:
    is_transactional = transactional_id is not None
    batch = encode_batch(
        [LogRecord(0, 1, b"k", b"v")],
        attributes=TRANSACTIONAL if is_transactional else 0,
        producer=Producer(77, 0, 0) if is_transactional else NO_PRODUCER,
    )
    topics = [
        m.TopicProduceData(
            name="" if by_id else name,
            topic_id=place.topic_id(name) if by_id else bytes(16),
            partition_data=[m.PartitionProduceData(index=0, records=batch)],
        )
        for name in ("t", "u")
    ]
    return m.ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=topics
    )


def produced(response: Any) -> object:
    return by_topic(response.responses, "partition_responses")


def fetch(place: Place, version: int) -> m.FetchRequest:
    topics = [
        m.FetchTopic(
            topic=name if version < 13 else "",
            topic_id=place.topic_id(name) if version >= 13 else bytes(16),
            partitions=[m.FetchPartition(partition=3, partition_max_bytes=1_000)],
        )
        for name in ("t", "u")
    ]
    return m.FetchRequest(max_bytes=1_000, topics=topics)


def list_offsets(*names: str) -> m.ListOffsetsRequest:
    topics = [
        m.ListOffsetsTopic(name=name, partitions=[m.ListOffsetsPartition(timestamp=-1)])
        for name in names
    ]
    return m.ListOffsetsRequest(replica_id=-1, topics=topics)


def metadata(*names: str, create: bool = False, **options: Any) -> m.MetadataRequest:
    topics = [m.MetadataRequestTopic(name=name) for name in names]
    return m.MetadataRequest(
        topics=topics or None, allow_auto_topic_creation=create, **options
    )


def described(response: Any) -> object:
    return by_name(
        [found for found in response.topics if not found.is_internal], "name"
    )


def delete_topics(*topics: m.DeleteTopicState) -> m.DeleteTopicsRequest:
    return m.DeleteTopicsRequest(topics=[*topics], timeout_ms=5_000)


OF_DATA = [
    Row("Produce", produce, produced, BOTH, each_topic(WRITE), 12),
    Row(
        "Produce by id",
        lambda place: produce(place, by_id=True),
        lambda response: sorted(
            by_topic(
                response.responses, "partition_responses", name="topic_id"
            ).values()
        ),
        [0, 0],
        {topic(WRITE): [0, NO_TOPIC], topic(WRITE, "u"): [0, NO_TOPIC]},
        13,
    ),
    Row(
        "Produce in a transaction",
        lambda place: produce(place, "x"),
        produced,
        BOTH,
        {
            transaction(WRITE): {"t": NO_TRANSACTION, "u": NO_TRANSACTION},
            **each_topic(WRITE),
        },
        11,
    ),
    Row(
        "Fetch",
        lambda place: fetch(place, 12),
        lambda response: by_topic(response.responses, name="topic"),
        BOTH,
        each_topic(READ),
        12,
    ),
    Row(
        "Fetch by id",
        lambda place: fetch(place, 17),
        lambda response: sorted(by_topic(response.responses, name="topic_id").values()),
        [0, 0],
        {topic(READ): [0, NO_TOPIC], topic(READ, "u"): [0, NO_TOPIC]},
        17,
    ),
    Row(
        "ListOffsets",
        lambda _: list_offsets("t", "u"),
        lambda response: by_topic(response.topics),
        BOTH,
        each_topic(DESCRIBE),
        8,
    ),
    Row(
        "OffsetForLeaderEpoch",
        lambda _: m.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                m.OffsetForLeaderTopic(
                    topic=name, partitions=[m.OffsetForLeaderPartition()]
                )
                for name in ("t", "u")
            ],
        ),
        lambda response: by_topic(response.topics, name="topic"),
        BOTH,
        each_topic(DESCRIBE),
        4,
        alternatives=((cluster(Operation.CLUSTER_ACTION),),),
    ),
    Row(
        "DeleteRecords",
        lambda _: m.DeleteRecordsRequest(
            topics=[
                m.DeleteRecordsTopic(name=name, partitions=[m.DeleteRecordsPartition()])
                for name in ("t", "u")
            ],
            timeout_ms=5_000,
        ),
        lambda response: by_topic(response.topics),
        BOTH,
        each_topic(DELETE),
        2,
    ),
]

OF_TOPICS = [
    Row(
        "Metadata",
        lambda _: metadata("t", "u"),
        described,
        BOTH,
        each_topic(DESCRIBE),
        12,
    ),
    Row(
        "Metadata of all",
        lambda _: metadata(),
        described,
        {"t": 0, "u": 0},
        {topic(DESCRIBE): {"u": 0}, topic(DESCRIBE, "u"): {"t": 0}},
        12,
    ),
    Row(
        "Metadata by id",
        lambda place: m.MetadataRequest(
            topics=[m.MetadataRequestTopic(name=None, topic_id=place.topic_id("t"))]
        ),
        lambda response: [
            (found.name, refusal(found.error_code), found.topic_id != bytes(16))
            for found in response.topics
        ],
        [("t", 0, True)],
        {topic(DESCRIBE): [(None, NO_TOPIC, True)]},
        12,
    ),
    Row(
        "Metadata that makes a topic",
        lambda _: metadata("new", create=True),
        described,
        {"new": 0},
        {
            topic(DESCRIBE, "new"): {"new": NO_TOPIC},
            topic(CREATE, "new"): {"new": NO_TOPIC},
        },
        12,
        alternatives=((topic(DESCRIBE, "new"), cluster(CREATE)),),
        leaves_topics=True,
    ),
    Row(
        "Metadata with what may be done to topics",
        lambda _: metadata("t", "gone", include_topic_authorized_operations=True),
        lambda response: {
            found.name: (
                refusal(found.error_code),
                found.topic_authorized_operations != NOT_TOLD,
            )
            for found in response.topics
        },
        {"t": (0, True), "gone": (0, True)},
        {
            topic(DESCRIBE): {"t": (NO_TOPIC, False), "gone": (0, True)},
            topic(DESCRIBE, "gone"): {
                "t": (0, True),
                "gone": (NO_TOPIC, False),
            },
        },
        12,
    ),
    Row(
        "DescribeTopicPartitions",
        lambda _: m.DescribeTopicPartitionsRequest(
            topics=[m.TopicRequest(name="t"), m.TopicRequest(name="u")]
        ),
        described,
        BOTH,
        each_topic(DESCRIBE),
        0,
    ),
    Row(
        "DescribeTopicPartitions of all",
        lambda _: m.DescribeTopicPartitionsRequest(),
        described,
        BOTH,
        {topic(DESCRIBE): {"u": 0}, topic(DESCRIBE, "u"): {"t": 0}},
        0,
    ),
    Row(
        "CreateTopics",
        lambda _: m.CreateTopicsRequest(
            topics=[m.CreatableTopic(name="n", num_partitions=1, replication_factor=1)],
            timeout_ms=5_000,
            validate_only=True,
        ),
        lambda response: [
            (refusal(found.error_code), refusal(found.topic_config_error_code))
            for found in response.topics
        ],
        [(0, 0)],
        {
            topic(CREATE, "n"): [(NO_TOPIC, 0)],
            topic(DESCRIBE_CONFIGS, "n"): [(0, NO_TOPIC)],
        },
        7,
        alternatives=((cluster(CREATE), topic(DESCRIBE_CONFIGS, "n")),),
    ),
    Row(
        "CreatePartitions",
        lambda _: m.CreatePartitionsRequest(
            topics=[
                m.CreatePartitionsTopic(name=name, count=9, assignments=None)
                for name in ("t", "u")
            ],
            timeout_ms=5_000,
            validate_only=True,
        ),
        lambda response: by_name(response.results, "name"),
        BOTH,
        each_topic(ALTER),
        3,
    ),
    Row(
        "DeleteTopics",
        lambda _: delete_topics(m.DeleteTopicState(name="gone")),
        lambda response: [int(found.error_code) for found in response.responses],
        [3],
        {topic(DELETE, "gone"): [NO_TOPIC]},
        6,
    ),
    Row(
        "DeleteTopics by id",
        lambda place: delete_topics(
            m.DeleteTopicState(name=None, topic_id=place.topic_id("d"))
        ),
        lambda response: [
            (found.name, refusal(found.error_code)) for found in response.responses
        ],
        [("d", 0)],
        {topic(DELETE, "d"): [(None, NO_TOPIC)]},
        6,
        leaves_topics=True,
    ),
    Row(
        "DeleteTopics by id, of one that may be seen",
        lambda place: delete_topics(
            m.DeleteTopicState(name=None, topic_id=place.topic_id("d"))
        ),
        lambda response: [
            (found.name, refusal(found.error_code)) for found in response.responses
        ],
        [("d", 0)],
        {topic(DELETE, "d"): [("d", NO_TOPIC)]},
        6,
        given=(topic(DESCRIBE, "d"),),
        leaves_topics=True,
    ),
]

ROWS: Final = [*OF_DATA, *OF_TOPICS]
