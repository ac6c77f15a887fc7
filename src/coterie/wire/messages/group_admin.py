"""Find, list, describe and delete groups of any protocol."""

from __future__ import annotations

from coterie.wire.schema import (
    PRIVATE_TAG,
    Message,
    Struct,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
)


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    """FindCoordinator, key 10: versions 0-6, flexible from 3.

    v1: key types group and transaction (KIP-98); throttle time, error message.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: flexible (KIP-482).
    v4: several keys of one type (KIP-699).
    v5: may return TRANSACTION_ABORTABLE (KIP-890).
    v6: key type share (KIP-932).
    """

    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+")


class FindCoordinatorResponse(Message, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3")
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    """ListGroups, key 16: versions 0-5, flexible from 3.

    v1: throttle time.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: flexible (KIP-482).
    v4: states, and a filter by them (KIP-518).
    v5: types, and a filter by them (KIP-848).
    """

    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    """DescribeGroups, key 15: versions 0-6, flexible from 5.

    v1: throttle time.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: authorized operations, if requested (KIP-430).
    v4: instance ids of members (KIP-345).
    v5: flexible (KIP-482).
    v6: GROUP_ID_NOT_FOUND and a message instead of a group in state Dead (KIP-1043).

    The draft of KIP-181 had four more fields in a version 2, which Kafka later used for
    something else. From v5 on they are private tagged fields: the generation and its
    leader, and each member's subscribed topics and offered assignors. A response has them
    only if the request asks for them, by the private tagged field `include_private_fields`,
    which other brokers skip. Some clients cannot skip tagged fields.
    """

    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean("3+")
    include_private_fields: bool = boolean("5+", tag=PRIVATE_TAG, tagged="5+")


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()
    member_subscription: list[str] | None = array(
        "string", "5+", nullable="5+", default=None, tag=PRIVATE_TAG, tagged="5+"
    )
    member_protocols: list[str] | None = array(
        "string", "5+", nullable="5+", default=None, tag=PRIVATE_TAG + 1, tagged="5+"
    )


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)
    generation_id: int = int32("5+", default=-1, tag=PRIVATE_TAG, tagged="5+")
    leader_id: str | None = string(
        "5+", nullable="5+", default=None, tag=PRIVATE_TAG + 1, tagged="5+"
    )


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)


class DeleteGroupsRequest(Message, key=42, versions="0-3", flexible="2+"):
    """DeleteGroups, key 42: versions 0-3, flexible from 2.

    v0: several groups, an error code for each (KIP-229).
    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: flexible (KIP-482).
    v3: error messages (KIP-1331).
    """

    groups_names: list[str] = array("string")


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None)


class DeleteGroupsResponse(Message, key=42, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)


class StreamsGroupDescribeRequest(Message, key=89, versions="0", flexible="0+"):
    """StreamsGroupDescribe, key 89: version 0, flexible.

    v0: streams groups, with their topology and each member's tasks (KIP-1071).
    """

    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[KeyValue] = array(KeyValue)


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array("string")
    repartition_sink_topics: list[str] = array("string")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)


class Topology(Struct):
    epoch: int = int32()
    subtopologies: list[Subtopology] | None = array(
        Subtopology, nullable="0+", default=None
    )


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class TaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class TaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


class TaskAssignment(Struct):
    active_tasks: list[TaskIds] = array(TaskIds)
    standby_tasks: list[TaskIds] = array(TaskIds)
    warmup_tasks: list[TaskIds] = array(TaskIds)


class StreamsMember(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)
    task_offsets: list[TaskOffset] = array(TaskOffset)
    task_end_offsets: list[TaskOffset] = array(TaskOffset)
    assignment: TaskAssignment = struct(TaskAssignment)
    target_assignment: TaskAssignment = struct(TaskAssignment)
    is_classic: bool = boolean()


class DescribedStreamsGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: Topology | None = struct(Topology, nullable="0+", default=None)
    members: list[StreamsMember] = array(StreamsMember)
    authorized_operations: int = int32(default=-2147483648)


class StreamsGroupDescribeResponse(Message, key=89, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    groups: list[DescribedStreamsGroup] = array(DescribedStreamsGroup)
