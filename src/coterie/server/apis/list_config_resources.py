"""ListConfigResources, key 74: versions 0-1 (KIP-714, KIP-1142).

Groups are listed that have configurations of their own, whether they exist or not;
topics and nodes always have some. Loggers have none here, and no client pushes metrics
to us; so version 0, which knows of nothing else, lists nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coterie.auth.authorizer import Operation
from coterie.server.apis.support import may_cluster
from coterie.server.broker import Broker
from coterie.server.call import Call
from coterie.wire.config_kinds import ResourceKind
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_NAMES: Final[Mapping[int, Callable[[Broker], Iterable[str]]]] = {
    ResourceKind.TOPIC: lambda broker: broker.catalog.topics,
    ResourceKind.BROKER: lambda broker: [str(node.node_id) for node in broker.nodes],
    ResourceKind.BROKER_LOGGER: lambda _: (),
    ResourceKind.CLIENT_METRICS: lambda _: (),
    ResourceKind.GROUP: lambda broker: broker.catalog.group_configs.groups,
}


def handle(call: Call) -> None:
    """List the names of each type that is asked for; of every type, if none is."""
    if not may_cluster(call, Operation.DESCRIBE_CONFIGS):
        _refuse(call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    request: ListConfigResourcesRequest = call.request
    kinds = [ResourceKind.CLIENT_METRICS] if call.api_version == 0 else _NAMES
    wanted = list(dict.fromkeys(request.resource_types or kinds))
    if any(kind not in _NAMES for kind in wanted):
        _refuse(call, ErrorCode.UNSUPPORTED_VERSION)
        return
    found = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in wanted
        for name in _NAMES[kind](call.node.broker)
    ]
    call.answer(ListConfigResourcesResponse(config_resources=found))


def _refuse(call: Call, code: ErrorCode) -> None:
    call.answer(ListConfigResourcesResponse(error_code=code))
