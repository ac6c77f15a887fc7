"""Rows of replicas, log directories, the quorum, and descriptions of transactions."""

from __future__ import annotations

from typing import Any, Final

from coterie.auth.acl import Operation
from coterie.wire.messages import alter_partition_reassignments as reassign
from coterie.wire.messages import alter_replica_log_dirs as move
from coterie.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from coterie.wire.messages.describe_producers import (
    DescribeProducersRequest,
    ProducersTopicRequest,
)
from coterie.wire.messages.describe_quorum import DescribeQuorumRequest
from coterie.wire.messages.describe_transactions import DescribeTransactionsRequest
from coterie.wire.messages.elect_leaders import ElectedTopic, ElectLeadersRequest
from coterie.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from coterie.wire.messages.list_transactions import ListTransactionsRequest
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
        lambda _: DescribeLogDirsRequest(topics=None),
        lambda response: (top(response), len(response.results)),
        (0, 1),
        {cluster(DESCRIBE): (NO_CLUSTER, 0)},
        5,
    ),
    Row(
        "AlterReplicaLogDirs",
        lambda _: move.AlterReplicaLogDirsRequest(
            dirs=[
                move.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[move.AlterReplicaLogDirTopic(name="t", partitions=[0])],
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
        lambda _: ElectLeadersRequest(
            topic_partitions=[ElectedTopic(topic="t", partitions=[0])]
        ),
        elected,
        (0, {"t": 0}),
        {cluster(ALTER): (NO_CLUSTER, {"t": NO_CLUSTER})},
        2,
    ),
    Row(
        "AlterPartitionReassignments",
        lambda _: reassign.AlterPartitionReassignmentsRequest(
            topics=[
                reassign.ReassignableTopic(
                    name="t",
                    partitions=[reassign.ReassignablePartition(partition_index=0)],
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
        lambda _: ListPartitionReassignmentsRequest(),
        top,
        0,
        {cluster(DESCRIBE): NO_CLUSTER},
        0,
    ),
    Row(
        "DescribeQuorum",
        lambda _: DescribeQuorumRequest(),
        top,
        0,
        {cluster(DESCRIBE): NO_CLUSTER},
        2,
    ),
    Row(
        "DescribeProducers",
        lambda _: DescribeProducersRequest(
            topics=[
                ProducersTopicRequest(name=name, partition_indexes=[0])
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
        lambda _: DescribeTransactionsRequest(transactional_ids=["x", "y"]),
        lambda response: by_name(response.transaction_states, "transactional_id"),
        {"x": 0, "y": NO_TRANSACTION},
        {transaction(DESCRIBE): {"x": NO_TRANSACTION, "y": NO_TRANSACTION}},
        0,
    ),
    Row(
        "ListTransactions",
        lambda _: ListTransactionsRequest(),
        lambda response: refusal(response.error_code),
        0,
        {},
        2,
    ),
]
