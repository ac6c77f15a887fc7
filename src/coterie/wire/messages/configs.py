"""Configurations of resources, and quotas of clients."""

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


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


class DescribeConfigsRequest(Message, key=32, versions="0-4", flexible="4+"):
    """DescribeConfigs, key 32: versions 0-4, flexible from 4.

    v0: configurations and whether they are defaults (KIP-133); for Kafka 0.11 clients.
    v1: the oldest version of Kafka 4: the source of a value, and its synonyms (KIP-226).
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: types and documentation of configurations (KIP-569).
    v4: flexible (KIP-482).
    """

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean("0")
    config_source: int = int8("1+", default=-1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+")
    config_type: int = int8("3+")
    documentation: str | None = string("3+", nullable="0+")


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, key=32, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    """AlterConfigs, key 33: versions 0-2, flexible from 2.

    v0: replaces all configurations of a resource (KIP-133).
    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: flexible (KIP-482).
    """

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


class IncrementalAlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterableConfig] = array(IncrementalAlterableConfig)


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    """IncrementalAlterConfigs, key 44: versions 0-1, flexible from 1.

    v0: sets, deletes, appends and subtracts single configurations (KIP-339).
    v1: flexible (KIP-482).
    """

    resources: list[IncrementalAlterConfigsResource] = array(
        IncrementalAlterConfigsResource
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponse(Message, key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    """ListConfigResources, key 74: versions 0-1, flexible from 0.

    v0: client metrics resources, as ListClientMetricsResources (KIP-714).
    v1: resources of any type; an empty list of types means all (KIP-1142).
    """

    resource_types: list[int] = array("int8", "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)


class QuotaFilterComponent(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+", default=None)


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    """DescribeClientQuotas, key 48: versions 0-1, flexible from 1 (KIP-546)."""

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
    """AlterClientQuotas, key 49: versions 0-1, flexible from 1 (KIP-546)."""

    entries: list[QuotaAlteration] = array(QuotaAlteration)
    validate_only: bool = boolean()


class AlterClientQuotasResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entity: list[AlteredQuotaEntity] = array(AlteredQuotaEntity)


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResult] = array(AlterClientQuotasResult)
