"""DescribeCluster, key 60: versions 0-2 (1: endpoint type, KIP-919; 2: fenced)."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation
from coterie.server.apis.support import cluster_operations, may_cluster
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(call: Call) -> None:
    """List the nodes."""
    request: DescribeClusterRequest = call.request
    broker = call.node.broker
    if request.endpoint_type != _BROKERS:
        is_known = request.endpoint_type == _CONTROLLERS
        call.answer(
            DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if is_known
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="This is a broker: ask it about brokers.",
                endpoint_type=_BROKERS,
            )
        )
        return
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.nodes[0].node_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack
            )
            for node in broker.nodes
        ],
    )
    if request.include_cluster_authorized_operations:
        allowed = may_cluster(call, Operation.DESCRIBE)
        operations = cluster_operations(call) if allowed else 0
        response.cluster_authorized_operations = operations
    call.answer(response)
