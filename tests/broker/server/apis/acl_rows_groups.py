"""Rows of groups and transactions (E27)."""

from __future__ import annotations

from typing import Any, Final

from coterie.auth.acl import Operation
from coterie.wire import messages as m
from tests.broker.server.apis.acl_rows import (
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    Row,
    by_name,
    by_topic,
    cluster,
    group,
    refusal,
    top,
    topic,
    transaction,
)

DELETE, DESCRIBE = Operation.DELETE, Operation.DESCRIBE
READ, WRITE = Operation.READ, Operation.WRITE
NOT_ATTEMPTED: Final = 55


def add_partitions(version: int) -> m.AddPartitionsToTxnRequest:
    topics = [
        m.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("t", "u")
    ]
    if version > 3:
        transaction = m.AddPartitionsToTxnTransaction(
            transactional_id="x", topics=topics
        )
        return m.AddPartitionsToTxnRequest(transactions=[transaction])
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=topics
    )


def partitions_added(response: Any) -> object:
    return by_topic(
        response.results_by_topic_v3_and_below,
        "results_by_partition",
        "partition_error_code",
    )


def txn_commit() -> m.TxnOffsetCommitRequest:
    part = m.TxnOffsetCommitRequestPartition(committed_metadata="")
    topics = [
        m.TxnOffsetCommitRequestTopic(name=name, partitions=[part])
        for name in ("t", "u")
    ]
    return m.TxnOffsetCommitRequest(transactional_id="x", group_id="g", topics=topics)


OF_MEMBERS = [
    Row(
        "JoinGroup",
        lambda _: m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        lambda response: int(response.error_code),
        79,
        {group(READ): NO_GROUP},
        9,
        facts=("E27-05",),
    ),
    Row(
        "SyncGroup",
        lambda _: m.SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
        lambda response: int(response.error_code),
        25,
        {group(READ): NO_GROUP},
        4,
        facts=("E27-05",),
    ),
    Row(
        "Heartbeat",
        lambda _: m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        lambda response: int(response.error_code),
        25,
        {group(READ): NO_GROUP},
        4,
        facts=("E27-05",),
    ),
    Row(
        "LeaveGroup",
        lambda _: m.LeaveGroupRequest(
            group_id="g", members=[m.MemberIdentity(member_id="m")]
        ),
        lambda response: (response.error_code, len(response.members)),
        (0, 1),
        {group(READ): (NO_GROUP, 0)},
        5,
        facts=("E27-05",),
    ),
    Row(
        "ConsumerGroupHeartbeat",
        lambda _: m.ConsumerGroupHeartbeatRequest(
            group_id="c", member_id="m", member_epoch=5, subscribed_topic_names=["t"]
        ),
        lambda response: int(response.error_code),
        25,
        {group(READ, "c"): NO_GROUP, topic(DESCRIBE): NO_TOPIC},
        1,
        facts=("E7-03", "E27-01"),
    ),
    Row(
        "ShareGroupHeartbeat",
        lambda _: m.ShareGroupHeartbeatRequest(
            group_id="s", member_id="m", member_epoch=5, subscribed_topic_names=["t"]
        ),
        lambda response: int(response.error_code),
        25,
        {group(READ, "s"): NO_GROUP, topic(DESCRIBE): NO_TOPIC},
        1,
        facts=("SG-012",),
    ),
    Row(
        "PrepareAssignment",
        lambda _: m.ConsumerGroupPrepareAssignmentRequest(group_id="c", member_id="m"),
        top,
        0,
        {group(READ, "c"): NO_GROUP},
        0,
        settings={"group_consumer_client_assignors_enable": True},
        facts=("E27-02",),
    ),
    Row(
        "InstallAssignment",
        lambda _: m.ConsumerGroupInstallAssignmentRequest(group_id="c", member_id="m"),
        top,
        0,
        {group(READ, "c"): NO_GROUP},
        0,
        settings={"group_consumer_client_assignors_enable": True},
        facts=("E27-02",),
    ),
]

OF_GROUPS = [
    Row(
        "FindCoordinator",
        lambda _: m.FindCoordinatorRequest(coordinator_keys=["g", "none"]),
        lambda response: by_name(response.coordinators, "key"),
        {"g": 0, "none": 0},
        {
            group(DESCRIBE): {"g": NO_GROUP, "none": 0},
            group(DESCRIBE, "none"): {"g": 0, "none": NO_GROUP},
        },
        4,
        facts=("B-13a", "E27-11"),
    ),
    Row(
        "FindCoordinator of one",
        lambda _: m.FindCoordinatorRequest(key="g"),
        top,
        0,
        {group(DESCRIBE): NO_GROUP},
        3,
        facts=("B-13a", "E27-11"),
    ),
    Row(
        "FindCoordinator of a transaction",
        lambda _: m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
        lambda response: by_name(response.coordinators, "key"),
        {"x": 0},
        {transaction(DESCRIBE): {"x": NO_TRANSACTION}},
        4,
        facts=("B-13b", "E27-11"),
    ),
    Row(
        "FindCoordinator of a share",
        lambda _: m.FindCoordinatorRequest(key_type=2, coordinator_keys=["s"]),
        lambda response: by_name(response.coordinators, "key"),
        {"s": 0},
        {cluster(Operation.CLUSTER_ACTION): {"s": NO_CLUSTER}},
        6,
        facts=("B-13c",),
    ),
    Row(
        "DescribeGroups",
        lambda _: m.DescribeGroupsRequest(groups=["g", "none"]),
        lambda response: by_name(response.groups, "group_id"),
        {"g": 0, "none": 0},
        {
            group(DESCRIBE): {"g": NO_GROUP, "none": 0},
            group(DESCRIBE, "none"): {"g": 0, "none": NO_GROUP},
        },
        6,
        facts=("C-25a", "E27-03"),
    ),
    Row(
        "ConsumerGroupDescribe",
        lambda _: m.ConsumerGroupDescribeRequest(group_ids=["c"]),
        lambda response: [
            (refusal(found.error_code), len(found.members)) for found in response.groups
        ],
        [(0, 1)],
        {group(DESCRIBE, "c"): [(NO_GROUP, 0)], topic(DESCRIBE): [(NO_TOPIC, 0)]},
        1,
        facts=("E16-06", "E16-06a", "E27-03"),
    ),
    Row(
        "ShareGroupDescribe",
        lambda _: m.ShareGroupDescribeRequest(group_ids=["none", "s"]),
        lambda response: [
            (each.group_id, refusal(each.error_code), len(each.members))
            for each in response.groups
        ],
        [("none", 0, 0), ("s", 0, 1)],
        {
            group(DESCRIBE, "s"): [("s", NO_GROUP, 0), ("none", 0, 0)],
            group(DESCRIBE, "none"): [("none", NO_GROUP, 0), ("s", 0, 1)],
        },
        1,
        facts=("SG-027",),
    ),
    Row(
        "ShareFetch",
        lambda place: m.ShareFetchRequest(
            group_id="s",
            member_id="m",
            max_records=1,
            topics=[
                m.ShareFetchTopic(
                    topic_id=place.topic_id("t"),
                    partitions=[m.ShareFetchPartition(partition_index=0)],
                )
            ],
        ),
        lambda response: (
            int(response.error_code),
            [
                code
                for topic in response.responses
                for part in topic.partitions
                if (code := refusal(part.error_code))
            ],
        ),
        (0, []),
        {group(READ, "s"): (NO_GROUP, []), topic(READ): (0, [NO_TOPIC])},
        2,
        facts=("SG-039", "SG-040"),
    ),
    Row(
        "ShareAcknowledge",
        lambda _: m.ShareAcknowledgeRequest(
            group_id="s", member_id="n", share_session_epoch=5
        ),
        lambda response: int(response.error_code),
        122,
        {group(READ, "s"): NO_GROUP},
        2,
        facts=("SG-066",),
    ),
    Row(
        "DescribeShareGroupOffsets",
        lambda _: m.DescribeShareGroupOffsetsRequest(
            groups=[
                m.DescribeShareGroupOffsetsRequestGroup(
                    group_id="s",
                    topics=[
                        m.DescribeShareGroupOffsetsRequestTopic(
                            topic_name="t", partitions=[0]
                        )
                    ],
                )
            ]
        ),
        lambda response: [
            (
                int(each.error_code),
                [
                    int(part.error_code)
                    for topic in each.topics
                    for part in topic.partitions
                ],
            )
            for each in response.groups
        ],
        [(0, [0])],
        {
            group(DESCRIBE, "s"): [(NO_GROUP, [])],
            topic(DESCRIBE): [(0, [NO_TOPIC])],
        },
        1,
        facts=("SG-076",),
    ),
    Row(
        "AlterShareGroupOffsets",
        lambda _: m.AlterShareGroupOffsetsRequest(
            group_id="altered",
            topics=[
                m.AlterShareGroupOffsetsRequestTopic(
                    topic_name="t",
                    partitions=[
                        m.AlterShareGroupOffsetsRequestPartition(partition_index=0)
                    ],
                )
            ],
        ),
        lambda response: (
            top(response),
            [each.partitions[0].error_code for each in response.responses],
        ),
        (0, [0]),
        {group(READ, "altered"): (NO_GROUP, []), topic(READ): (0, [NO_TOPIC])},
        0,
        facts=("SG-081",),
    ),
    Row(
        "DeleteShareGroupOffsets",
        lambda _: m.DeleteShareGroupOffsetsRequest(
            group_id="s", topics=[m.DeleteShareGroupOffsetsRequestTopic(topic_name="t")]
        ),
        lambda response: int(response.error_code),
        68,
        {group(DELETE, "s"): NO_GROUP},
        0,
        facts=("SG-086",),
    ),
    Row(
        "ListGroups",
        lambda _: m.ListGroupsRequest(),
        lambda response: (
            top(response),
            {"c", "g"} & {found.group_id for found in response.groups},
        ),
        (0, {"c", "g"}),
        {group(DESCRIBE): (0, {"c"}), group(DESCRIBE, "c"): (0, {"g"})},
        5,
        alternatives=((cluster(DESCRIBE),),),
        facts=("E27-04", "E27-04a"),
    ),
    Row(
        "DeleteGroups",
        lambda _: m.DeleteGroupsRequest(groups_names=["none", "gone"]),
        lambda response: {
            found.group_id: int(found.error_code) for found in response.results
        },
        {"none": 69, "gone": 69},
        {
            group(DELETE, "none"): {"none": NO_GROUP, "gone": 69},
            group(DELETE, "gone"): {"none": 69, "gone": NO_GROUP},
        },
        2,
        facts=("D-34", "E27-09"),
    ),
]

OF_TRANSACTIONS = [
    Row(
        "InitProducerId",
        lambda _: m.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000
        ),
        top,
        0,
        {cluster(Operation.IDEMPOTENT_WRITE): NO_CLUSTER},
        4,
        alternatives=((topic(WRITE, "nowhere"),),),
    ),
    Row(
        "InitProducerId of a transaction",
        lambda _: m.InitProducerIdRequest(
            transactional_id="x", transaction_timeout_ms=60_000
        ),
        top,
        0,
        {transaction(WRITE): NO_TRANSACTION},
        4,
    ),
    Row(
        "AddPartitionsToTxn",
        lambda _: add_partitions(3),
        partitions_added,
        {"t": 0, "u": 0},
        {
            transaction(WRITE): {"t": NO_TRANSACTION, "u": NO_TRANSACTION},
            topic(WRITE): {"t": NO_TOPIC, "u": NOT_ATTEMPTED},
            topic(WRITE, "u"): {"t": NOT_ATTEMPTED, "u": NO_TOPIC},
        },
        3,
    ),
    Row(
        "AddPartitionsToTxn of brokers",
        lambda _: add_partitions(4),
        top,
        0,
        {cluster(Operation.CLUSTER_ACTION): NO_CLUSTER},
        4,
    ),
    Row(
        "AddOffsetsToTxn",
        lambda _: m.AddOffsetsToTxnRequest(transactional_id="x", group_id="g"),
        top,
        0,
        {transaction(WRITE): NO_TRANSACTION, group(READ): NO_GROUP},
        3,
        facts=("E27-10",),
    ),
    Row(
        "TxnOffsetCommit",
        lambda _: txn_commit(),
        lambda response: by_topic(response.topics),
        {"t": 0, "u": 0},
        {
            transaction(WRITE): {"t": NO_TRANSACTION, "u": NO_TRANSACTION},
            group(READ): {"t": NO_GROUP, "u": NO_GROUP},
            topic(READ): {"t": NO_TOPIC, "u": 0},
            topic(READ, "u"): {"t": 0, "u": NO_TOPIC},
        },
        3,
        facts=("E27-06", "E27-06a"),
    ),
    Row(
        "EndTxn",
        lambda _: m.EndTxnRequest(transactional_id="x"),
        top,
        0,
        {transaction(WRITE): NO_TRANSACTION},
        3,
    ),
]

ROWS: Final = [*OF_MEMBERS, *OF_GROUPS, *OF_TRANSACTIONS]
