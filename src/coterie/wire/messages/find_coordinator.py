"""FindCoordinator, key 10: versions 0-6, flexible from 3.

v1: key types group and transaction (KIP-98); throttle time, error message.
v2: throttled responses are sent at once; the client delays (KIP-219).
v3: flexible (KIP-482).
v4: several keys of one type (KIP-699).
v5: may return TRANSACTION_ABORTABLE (KIP-890).
v6: key type share (KIP-932).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
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
