"""IncrementalAlterConfigs, key 44: versions 0-1, flexible from 1.

v0: sets, deletes, appends and subtracts single configurations (KIP-339).
v1: flexible (KIP-482).
"""

from __future__ import annotations

from coterie.wire.messages.alter_configs import AlterConfigsResourceResponse
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int32,
    string,
)


class IncrementalAlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterableConfig] = array(IncrementalAlterableConfig)


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    resources: list[IncrementalAlterConfigsResource] = array(
        IncrementalAlterConfigsResource
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponse(Message, key=44, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
