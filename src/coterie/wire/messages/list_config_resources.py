"""ListConfigResources, key 74: versions 0-1, flexible from 0.

v0: client metrics resources, as ListClientMetricsResources (KIP-714).
v1: resources of any type; an empty list of types means all (KIP-1142).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    resource_types: list[int] = array("int8", "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16)


class ListConfigResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
