"""AlterClientQuotas, key 49: versions 0-1, flexible from 1 (KIP-546)."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int16,
    int32,
    string,
)


class AlteredQuotaEntity(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class QuotaOperation(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class QuotaAlteration(Struct):
    entity: list[AlteredQuotaEntity] = array(AlteredQuotaEntity)
    ops: list[QuotaOperation] = array(QuotaOperation)


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    entries: list[QuotaAlteration] = array(QuotaAlteration)
    validate_only: bool = boolean()


class AlterClientQuotasResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entity: list[AlteredQuotaEntity] = array(AlteredQuotaEntity)


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResult] = array(AlterClientQuotasResult)
