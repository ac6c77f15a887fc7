"""Heartbeat, key 12: versions 0-4, flexible from 4.

v1: throttle time.
v2: throttled responses are sent at once; the client delays (KIP-219).
v3: instance id (KIP-345).
v4: flexible (KIP-482).
"""

from __future__ import annotations

from coterie.wire.schema import Message, int16, int32, string


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
