"""ConsumerGroupHeartbeat, key 68: versions 0-1 (KIP-848). The protocol is off.

It is advertised all the same: a client sees UNSUPPORTED_VERSION and goes on with the
classic protocol (E30-03).
"""

from __future__ import annotations

from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)


def handle(call: Call) -> None:
    """Say that the protocol is off (H-11)."""
    call.answer(
        ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    )
