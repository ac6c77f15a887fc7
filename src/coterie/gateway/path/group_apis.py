"""The handlers of the APIs that a gateway node serves itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker import HANDLERS, Call, Handler
from coterie.gateway.view import View
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode

GROUP_APIS: Final = (
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.OFFSET_DELETE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT,
    ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT,
)
"""The APIs about groups without those of transactions."""
_MANY_KEYS_SINCE: Final = 4
_MESSAGES: Final = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
}
"""The messages of Kafka's class Errors, which clients log."""


def group_handlers(view: Callable[[], View]) -> Mapping[int, Handler]:
    """Return the handlers of the group APIs, and of FindCoordinator for groups."""

    def find_coordinator(call: Call) -> None:
        """Respond with the coordination port of the node that owns each group."""
        request: m.FindCoordinatorRequest = call.request
        if call.api_version >= _MANY_KEYS_SINCE:
            coordinators = [
                _coordinator(call, key, view()) for key in request.coordinator_keys
            ]
            call.respond(m.FindCoordinatorResponse(coordinators=coordinators))
            return
        one = _coordinator(call, request.key, view())
        call.respond(
            m.FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=_MESSAGES[ErrorCode(one.error_code)],
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        )

    handlers = {int(key): HANDLERS[key] for key in GROUP_APIS}
    return handlers | {int(ApiKey.FIND_COORDINATOR): find_coordinator}


def _coordinator(call: Call, group_id: str, view: View) -> m.Coordinator:
    runtime = call.node.broker.runtime
    if not call.authorize_group(Operation.DESCRIBE, group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    else:
        owner = view.owner(runtime.shard_of(group_id)) if runtime.shards else None
        if owner is not None:
            return m.Coordinator(
                key=group_id,
                node_id=owner.node_id,
                host=owner.host,
                port=owner.port,
                error_message="",
            )
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return m.Coordinator(
        key=group_id, node_id=-1, port=-1, error_code=code, error_message=""
    )
