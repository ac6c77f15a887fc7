"""DescribeClientQuotas, key 48: versions 0-1, flexible from 1 (KIP-546)."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    string,
)


class QuotaFilterComponent(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+", default=None)


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    components: list[QuotaFilterComponent] = array(QuotaFilterComponent)
    strict: bool = boolean()


class DescribedQuotaEntity(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class DescribedQuotaValue(Struct):
    key: str = string()
    value: float = float64()


class DescribedQuota(Struct):
    entity: list[DescribedQuotaEntity] = array(DescribedQuotaEntity)
    values: list[DescribedQuotaValue] = array(DescribedQuotaValue)


class DescribeClientQuotasResponse(Message, key=48, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entries: list[DescribedQuota] | None = array(DescribedQuota, nullable="0+")
