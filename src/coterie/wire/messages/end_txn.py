"""EndTxn, key 26: versions 0-5, flexible from 3.

v1: throttled responses are sent at once; the client delays (KIP-219).
v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
v3: flexible (KIP-482).
v4: may return TRANSACTION_ABORTABLE (KIP-890).
v5: each transaction bumps the producer epoch, which is returned (KIP-890, part 2).
"""

from __future__ import annotations

from coterie.wire.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
