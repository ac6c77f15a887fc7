"""InitProducerId, key 22: versions 0-6, flexible from 2.

v0: a producer id, for idempotence or for a transactional id (KIP-98).
v1: throttled responses are sent at once; the client delays (KIP-219).
v2: flexible (KIP-482).
v3: a producer may send its current id and epoch to keep the id (KIP-360).
v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
v5: may return TRANSACTION_ABORTABLE (KIP-890).
v6: two-phase commit (KIP-939); not served.
"""

from __future__ import annotations

from coterie.wire.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
