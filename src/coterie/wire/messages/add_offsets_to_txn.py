"""AddOffsetsToTxn, key 25: versions 0-4, flexible from 3.

v1: throttled responses are sent at once; the client delays (KIP-219).
v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
v3: flexible (KIP-482).
v4: may return TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from coterie.wire.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
