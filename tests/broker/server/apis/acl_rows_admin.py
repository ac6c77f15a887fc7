"""Rows of replicas, log directories, the quorum, and descriptions of transactions."""

from __future__ import annotations

from typing import Any, Final

from coterie.auth.acl import Operation
from coterie.wire import messages as m
from tests.broker.server.apis.acl_rows import (
    NO_CLUSTER,
    NO_TOPIC,
    NO_TRANSACTION,
    Row,
    by_name,
    by_topic,
    cluster,
    refusal,
    top,
    topic,
    transaction,
)

ALTER, DESCRIBE = Operation.ALTER, Operation.DESCRIBE
READ = Operation.READ


def elected(response: Any) -> tuple[int, dict[str, int]]:
    topics = response.replica_election_results
    return top(response), by_topic(topics, "partition_result", name="topic")


def reassigned(response: Any) -> tuple[int, dict[str, int]]:
    return top(response), by_topic(response.responses)


ROWS: Final = [
    Row(
        "DescribeLogDirs",
        lambda _: m.DescribeLogDirsRequest(topics=None),
        lambda response: (top(response), len(response.results)),
        (0, 1),
        {cluster(DESCRIBE): (NO_CLUSTER, 0)},
        5,
    ),
    Row(
        "AlterReplicaLogDirs",
        lambda _: m.AlterReplicaLogDirsRequest(
            dirs=[
                m.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[m.AlterReplicaLogDirTopic(name="t", partitions=[0])],
                )
            ]
        ),
        lambda response: by_topic(response.results, name="topic_name"),
        {"t": 0},
        {cluster(ALTER): {"t": NO_CLUSTER}},
        2,
    ),
    Row(
        "ElectLeaders",
        lambda _: m.ElectLeadersRequest(
            topic_partitions=[m.ElectedTopic(topic="t", partitions=[0])]
        ),
        elected,
        (0, {"t": 0}),
        {cluster(ALTER): (NO_CLUSTER, {"t": NO_CLUSTER})},
        2,
    ),
    Row(
        "AlterPartitionReassignments",
        lambda _: m.AlterPartitionReassignmentsRequest(
            topics=[
                m.ReassignableTopic(
                    name="t",
                    partitions=[m.ReassignablePartition(partition_index=0)],
                )
            ]
        ),
        reassigned,
        (0, {"t": 0}),
        {cluster(ALTER): (NO_CLUSTER, {"t": NO_CLUSTER})},
        1,
    ),
    Row(
        "ListPartitionReassignments",
        lambda _: m.ListPartitionReassignmentsRequest(),
        top,
        0,
        {cluster(DESCRIBE): NO_CLUSTER},
        0,
    ),
    Row(
        "DescribeQuorum",
        lambda _: m.DescribeQuorumRequest(),
        top,
        0,
        {cluster(DESCRIBE): NO_CLUSTER},
        2,
    ),
    Row(
        "DescribeProducers",
        lambda _: m.DescribeProducersRequest(
            topics=[
                m.ProducersTopicRequest(name=name, partition_indexes=[0])
                for name in ("t", "u")
            ]
        ),
        lambda response: by_topic(response.topics),
        {"t": 0, "u": 0},
        {topic(READ, name): {"t": 0, "u": 0} | {name: NO_TOPIC} for name in ("t", "u")},
        0,
    ),
    Row(
        "DescribeTransactions",
        lambda _: m.DescribeTransactionsRequest(transactional_ids=["x", "y"]),
        lambda response: by_name(response.transaction_states, "transactional_id"),
        {"x": 0, "y": NO_TRANSACTION},
        {transaction(DESCRIBE): {"x": NO_TRANSACTION, "y": NO_TRANSACTION}},
        0,
    ),
    Row(
        "ListTransactions",
        lambda _: m.ListTransactionsRequest(),
        lambda response: refusal(response.error_code),
        0,
        {},
        2,
    ),
]
