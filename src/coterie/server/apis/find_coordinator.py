"""FindCoordinator, key 10: versions 0-6 (4: many keys, KIP-699; 6: share groups).

Groups are mapped to nodes as Kafka's clients expect (B-16); anybody who may describe a
group may look it up, whether it exists or not (B-17).
"""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.errors import ApiError
from coterie.server.apis.groups import may_group
from coterie.server.apis.support import may, may_cluster
from coterie.server.call import Call
from coterie.server.node import Node
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_SHARE_SINCE: Final = 6
_BATCH_SINCE: Final = 4


def handle(call: Call) -> None:
    """Answer each key on its own, in the order they were asked for (B-10, B-18)."""
    request: FindCoordinatorRequest = call.request
    if call.api_version >= _BATCH_SINCE:
        found = [_look_up(call, key) for key in request.coordinator_keys]
        call.answer(FindCoordinatorResponse(coordinators=found))
        return
    one = _look_up(call, request.key)
    call.answer(
        FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=ErrorCode(one.error_code).name,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )
    )


def _look_up(call: Call, key: str) -> Coordinator:
    try:
        node = _find(call, key)
    except ApiError as error:
        return Coordinator(
            key=key,
            node_id=-1,
            port=-1,
            error_code=error.code,
            error_message=None,
        )
    return Coordinator(
        key=key,
        node_id=node.node_id,
        host=node.host,
        port=node.port,
        error_message=None,
    )


def _find(call: Call, key: str) -> Node:
    """The node that coordinates what the key names.

    Raises ApiError GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST or COORDINATOR_NOT_AVAILABLE.
    """
    key_type = call.request.key_type
    broker = call.node.broker
    if key_type == _GROUP:
        if not may_group(call, Operation.DESCRIBE, key):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not broker.runtime.shards:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return broker.shard_node(broker.shard_of(key))
    if key_type == _TRANSACTION:
        if not may(call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return broker.transaction_coordinator(key)
    is_share = key_type == _SHARE and call.api_version >= _SHARE_SINCE
    if is_share and not may_cluster(call, Operation.CLUSTER_ACTION):
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    raise ApiError(ErrorCode.INVALID_REQUEST)
