"""ConsumerGroupHeartbeat, key 68: versions 0-1 (KIP-848).

It is advertised when the protocol is off, too: a client sees UNSUPPORTED_VERSION and
goes on with the classic protocol (E30-03).
"""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation
from coterie.server.apis.groups import ask, may_group, refuse
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode

PROTOCOL: Final = "consumer"


def handle(call: Call) -> None:
    """Have the group's coordinator answer (E7-01 to E7-03)."""
    request = call.request
    code = _refusal(call)
    if code is None:
        ask(call, request.group_id, request, call.answer)
    else:
        refuse(call, code)


def _refusal(call: Call) -> ErrorCode | None:
    """Why the request is not even looked at, in Kafka's order."""
    request = call.request
    if PROTOCOL not in call.node.broker.settings.group_coordinator_rebalance_protocols:
        return ErrorCode.UNSUPPORTED_VERSION
    if not may_group(call, Operation.READ, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not all(map(call.may_describe, request.subscribed_topic_names or ())):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None
