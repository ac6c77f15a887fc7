"""The APIs about the cluster: versions, nodes and coordinators.

===============  ===  =======================================================
API              key  versions
===============  ===  =======================================================
FindCoordinator  10   0-6 (4: many keys, KIP-699; 6: share groups)
ApiVersions      18   0-4 (KIP-35, KIP-511, KIP-584)
DescribeQuorum   55   0-2 (KIP-595; 1: KIP-836; 2: KIP-853)
DescribeCluster  60   0-2 (1: endpoint type, KIP-919; 2: fenced brokers)
===============  ===  =======================================================

A request for ApiVersions in a later version is not handled here: the connection
responds to it with UNSUPPORTED_VERSION in version 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from coterie.auth.acl import CLUSTER_NAME, Operation, ResourceType
from coterie.broker.server.apis.routing import LEADER_EPOCH, unknown_partition
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, PRIVATE, ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.releases import Release

_SHARE_FEATURE: Final = "share.version"
FEATURES: Final = (
    ("group.version", 0, 1),
    (_SHARE_FEATURE, 0, 1),
    ("transaction.version", 0, 2),
)
"""Name, lowest and highest level of each feature. Group version 1 is KIP-848, share
version 1 is KIP-932 (2 adds dead letters), transaction version 2 is KIP-890."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE: Final = 3
_NO_NODE: Final = -1
_LEVEL_ZERO_SINCE: Final = 4

_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_SHARE_KEY: Final = 2
_SHARE_SINCE: Final = 6
_MANY_KEYS_SINCE: Final = 4

_BROKER_ENDPOINTS: Final = 1
_CONTROLLER_ENDPOINTS: Final = 2


# ApiVersions.


def api_versions(call: Call, release: Release | None = None) -> None:
    """List the APIs with their versions, and the features with their levels.

    With `release` they are those of that Kafka release.
    """
    request: m.ApiVersionsRequest = call.request
    sasl = call.peer.sasl
    if sasl is not None and sasl.expects_token:
        call.respond(m.ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        call.close()
        return
    code = _check_client(call, request)
    if code is not ErrorCode.NONE:
        call.respond(m.ApiVersionsResponse(error_code=code))
        return
    settings = call.node.broker.settings
    response = _versions(
        has_level_zero=call.api_version >= _LEVEL_ZERO_SINCE,
        consumer="consumer" in settings.group_coordinator_rebalance_protocols,
        private=settings.group_consumer_client_assignors_enable,
    )
    call.respond(response if release is None else _of_release(response, release))


def _check_client(call: Call, request: m.ApiVersionsRequest) -> ErrorCode:
    """Return INVALID_REQUEST for a name or version that is not well-formed (KIP-511);
    REBOOTSTRAP_REQUIRED for a client that means another node (KIP-1242)."""
    if call.api_version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ErrorCode.INVALID_REQUEST
    cluster_id, node_id = request.cluster_id, request.node_id
    if (cluster_id is None) != (node_id == _NO_NODE):
        return ErrorCode.INVALID_REQUEST
    is_known = cluster_id is not None
    node = call.node
    if is_known and (cluster_id, node_id) != (node.broker.cluster_id, node.node_id):
        return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def _of_release(
    response: m.ApiVersionsResponse, release: Release
) -> m.ApiVersionsResponse:
    versions = [
        m.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in release.versions.items()
    ]
    if not release.has_features:
        return m.ApiVersionsResponse(api_keys=versions)
    has_share_groups = ApiKey.SHARE_FETCH in release.versions
    return m.ApiVersionsResponse(
        api_keys=versions,
        supported_features=[
            each
            for each in response.supported_features
            if has_share_groups or each.name != _SHARE_FEATURE
        ],
        finalized_features=[
            each
            for each in response.finalized_features
            if has_share_groups or each.name != _SHARE_FEATURE
        ],
        finalized_features_epoch=response.finalized_features_epoch,
    )


@cache
def _versions(
    *, has_level_zero: bool, consumer: bool, private: bool
) -> m.ApiVersionsResponse:
    apis = {**ADVERTISED, **PRIVATE} if private else ADVERTISED
    levels = {
        "group.version": int(consumer),
        _SHARE_FEATURE: 1,
        "transaction.version": 2,
    }
    return m.ApiVersionsResponse(
        api_keys=[
            m.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in apis.items()
        ],
        # Clients before v4 fail on a feature whose lowest level is 0 (KAFKA-17011).
        supported_features=[
            m.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, low, high in FEATURES
            if low or has_level_zero
        ],
        finalized_features_epoch=0,
        finalized_features=[
            m.FinalizedFeatureKey(
                name=name, min_version_level=level, max_version_level=level
            )
            for name, level in levels.items()
            if level
        ],
    )


# FindCoordinator.


_COORDINATOR_MESSAGES: Final[Mapping[int, str]] = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being "
    "malformed by the client library or the message was sent to an incompatible "
    "broker. See the broker logs for more details.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization "
    "failed.",
}
"""The messages of Kafka's class Errors, which clients log."""


@in_slices
def find_coordinator(call: Call) -> Iterator[None]:
    """Find the coordinator of each key, in the order of the request.

    Groups are mapped to nodes as Kafka's clients expect. Requires DESCRIBE on
    the group, which need not exist.
    """
    request: m.FindCoordinatorRequest = call.request
    if call.api_version >= _MANY_KEYS_SINCE:
        coordinators = []
        for key in request.coordinator_keys:
            coordinators.append(_find_coordinator(call, key))
            yield
        call.respond(m.FindCoordinatorResponse(coordinators=coordinators))
        return
    one = _find_coordinator(call, request.key)
    call.respond(
        m.FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=_COORDINATOR_MESSAGES[one.error_code],
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _find_coordinator(call: Call, key: str) -> m.Coordinator:
    key_type = call.request.key_type
    broker = call.node.broker
    try:
        if key_type == _GROUP_KEY:
            if not call.authorize_group(Operation.DESCRIBE, key):
                raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if not broker.runtime.shards:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            coordinator = broker.shard_node(broker.shard_of(key))
            if coordinator is None:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            node = coordinator
        elif key_type == _TRANSACTION_KEY:
            resource_type = ResourceType.TRANSACTIONAL_ID
            if not call.authorize(Operation.DESCRIBE, resource_type, key):
                raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            node = broker.transaction_coordinator(key)
        else:
            # Share groups are not served, but Kafka authorizes before it refuses them.
            is_share = key_type == _SHARE_KEY and call.api_version >= _SHARE_SINCE
            if is_share and not call.authorize_cluster(Operation.CLUSTER_ACTION):
                raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            raise ApiError(ErrorCode.INVALID_REQUEST)
    except ApiError as error:
        # KafkaApis sets messages of keys only where it refuses the whole request.
        refused = key_type not in {_GROUP_KEY, _TRANSACTION_KEY} and (
            key_type != _SHARE_KEY or error.code != ErrorCode.INVALID_REQUEST
        )
        return m.Coordinator(
            key=key,
            node_id=-1,
            port=-1,
            error_code=error.code,
            error_message=_COORDINATOR_MESSAGES[error.code] if refused else "",
        )
    return m.Coordinator(
        key=key,
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        error_message="",
    )


# DescribeCluster.


def describe_cluster(call: Call) -> None:
    """List the nodes with their addresses and racks."""
    request: m.DescribeClusterRequest = call.request
    broker = call.node.broker
    if request.endpoint_type != _BROKER_ENDPOINTS:
        is_controller = request.endpoint_type == _CONTROLLER_ENDPOINTS
        call.respond(
            m.DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if is_controller
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="This endpoint lists brokers only: endpoint type 1.",
                endpoint_type=_BROKER_ENDPOINTS,
            )
        )
        return
    response = m.DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.nodes[0].node_id,
        brokers=[
            m.DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in broker.nodes
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(call)
    call.respond(response)


# DescribeQuorum.

METADATA_TOPIC: Final = "__cluster_metadata"


def describe_quorum(call: Call) -> None:
    """Describe the quorum of the metadata: one voter, the controller.

    Requires DESCRIBE on the cluster. The other nodes share its process and its store,
    so they observe nothing. The catalog is no log, so that all its offsets are 0. As in
    Kafka, only a request for exactly the one partition of the metadata is known.
    """
    request: m.DescribeQuorumRequest = call.request
    response = m.DescribeQuorumResponse(error_message="")
    if not call.authorize_cluster(Operation.DESCRIBE):
        response.error_code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        response.error_message = "Cluster authorization failed."
        call.respond(response)
        return
    requested = [
        (topic.topic_name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    ]
    if requested == [(METADATA_TOPIC, 0)]:
        quorum = _quorum(call)
        response.topics = [
            m.QuorumTopic(topic_name=METADATA_TOPIC, partitions=[quorum])
        ]
        controller = call.node.broker.nodes[0]
        listener = m.QuorumListener(
            name=controller.protocol.name, host=controller.host, port=controller.port
        )
        response.nodes = [
            m.QuorumNode(node_id=controller.node_id, listeners=[listener])
        ]
    else:
        error = unknown_partition()
        response.topics = [
            m.QuorumTopic(
                topic_name=topic.topic_name,
                partitions=[
                    m.QuorumPartition(
                        partition_index=part.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    call.respond(response)


def _quorum(call: Call) -> m.QuorumPartition:
    broker = call.node.broker
    now_ms = broker.data.clock()
    controller_id = broker.nodes[0].node_id
    voter = m.QuorumReplica(
        replica_id=controller_id,
        last_fetch_timestamp=now_ms,
        last_caught_up_timestamp=now_ms,
    )
    return m.QuorumPartition(
        partition_index=0,
        error_message="",
        leader_id=controller_id,
        leader_epoch=LEADER_EPOCH,
        current_voters=[voter],
    )


def cluster_operations(call: Call) -> int:
    """Return the authorized operations on the cluster; 0 without DESCRIBE on it."""
    if not call.authorize_cluster(Operation.DESCRIBE):
        return 0
    return call.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)
