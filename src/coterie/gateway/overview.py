"""All nodes of a gateway: from upstream's group, and from the /status of each node.

The description of the group says which nodes are alive and which shards each has. How
far a node is with its shards only the node itself knows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final, NamedTuple

from coterie.client import AdminClient
from coterie.errors import ApiError, MalformedFrame, OperationRefused, code_of
from coterie.gateway.node_protocol import read_assignment, read_metadata
from coterie.gateway.options import group_of, topic_of
from coterie.gateway.status import SCHEMA
from coterie.gateway.view import FIRST_NODE_ID, NodeInfo
from coterie.http_endpoint import fetch_json
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_STABLE: Final = "Stable"
_POLL_S: Final = 0.2


class NodeOverview(NamedTuple):
    """One live node. `status` is the document of /status; None without an answer."""

    info: NodeInfo
    shards: tuple[int, ...]
    """The shards that the group assigns to it."""
    status: Mapping[str, Any] | None = None
    problem: str = ""
    """Why there is no status."""


class GatewayOverview(NamedTuple):
    """The nodes of a gateway by name, and its number of shards."""

    nodes: Sequence[NodeOverview]
    shard_count: int
    is_stable: bool
    """Whether the group has nodes and is not rebalancing."""
    is_rebalancing: bool = False


async def read_overview(
    admin: AdminClient, name: str, *, wait_s: float = 0
) -> GatewayOverview:
    """Return the nodes of the gateway `name` of a cluster.

    While the group rebalances its members are unknown, so it is asked again for up to
    `wait_s`. Raises OperationRefused when the cluster has no such gateway or is one,
    and the errors of the admin client.
    """
    check_nodes(node.node_id for node in (await admin.brokers.describe()).nodes)
    topics = await admin.topics.describe([topic_of(name)])
    if (topic := topics.values.get(topic_of(name))) is None:
        error = topics.errors[topic_of(name)]
        if code_of(error) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise OperationRefused(
                f"the cluster has no gateway {name}: topic {topic_of(name)} does not "
                "exist; name the gateway with --name, and its upstream cluster with "
                "--upstream"
            )
        raise error
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + wait_s
    group = await _describe(admin, group_of(name))
    while group.members and group.group_state != _STABLE and loop.time() < ends_s:
        await asyncio.sleep(_POLL_S)
        group = await _describe(admin, group_of(name))
    is_stable = group.group_state == _STABLE
    members = _live_nodes(group) if is_stable else []
    nodes = await asyncio.gather(*map(_with_status, members))
    return GatewayOverview(
        sorted(nodes, key=lambda node: node.info.name),
        len(topic.partitions),
        is_stable,
        is_rebalancing=bool(group.members) and not is_stable,
    )


def check_nodes(node_ids: Iterable[int]) -> None:
    """Raise OperationRefused when a cluster has nodes of a gateway: a gateway is no
    upstream. One in front of itself would fence its own shards."""
    found = next((each for each in node_ids if each >= FIRST_NODE_ID), None)
    if found is not None:
        raise OperationRefused(
            f"--upstream is the address of a gateway (node id {found}): name the "
            "brokers behind it"
        )


async def find_node(admin: AdminClient, name: str, node: str) -> NodeOverview | None:
    """Return the live node of a gateway with this name, with its status; None without
    one, and while the group rebalances. Raises the errors of `read_overview`."""
    group = await _describe(admin, group_of(name))
    found = _live_nodes(group) if group.group_state == _STABLE else []
    for each in found:
        if each.info.name == node:
            return await _with_status(each)
    return None


async def _describe(admin: AdminClient, group_id: str) -> m.DescribedGroup:
    request = m.DescribeGroupsRequest(groups=[group_id])

    async def attempt() -> m.DescribedGroup:
        cluster = admin.cluster
        response = await cluster.call_coordinator(
            group_id, request, m.DescribeGroupsResponse
        )
        [group] = response.groups
        code = ErrorCode.read(group.error_code)
        if code not in {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}:
            cluster.forget_coordinator(group_id)
            raise ApiError(code, f"group {group_id}: {code.name}")
        return group

    return await admin.cluster.retrying(attempt)


def _live_nodes(group: m.DescribedGroup) -> list[NodeOverview]:
    """Return the members of a stable group. Raises OperationRefused for another
    application's group."""
    try:
        nodes = []
        for each in group.members:
            info = read_metadata(each.member_metadata).info
            view = read_assignment(each.member_assignment, -1).view
            nodes.append(NodeOverview(info, tuple(view.shards_of(info.name))))
    except MalformedFrame as error:
        raise OperationRefused(
            f"group {group.group_id} is not one of a gateway, or of a newer release: "
            f"{error}"
        ) from error
    return nodes


async def _with_status(node: NodeOverview) -> NodeOverview:
    info = node.info
    if not info.status_port:
        return node._replace(problem="it was started without --metrics-port")
    try:
        # A thread: http.client needs no further code, and nodes are few.
        status = await asyncio.to_thread(_fetch, info.host, info.status_port)
    except (OSError, HTTPException, ValueError) as error:
        where = f"{info.host}:{info.status_port}"
        return node._replace(problem=f"no status from {where}: {_reason(error)}")
    return node._replace(status=status)


def _reason(error: Exception) -> str:
    """Return the reason without the number of the system's error."""
    text = error.strerror if isinstance(error, OSError) else None
    return (text or str(error) or type(error).__name__).lower()


def _fetch(host: str, port: int) -> Mapping[str, Any]:
    status = fetch_json(host, port, "/status")
    if status.get("schema") != SCHEMA:
        raise ValueError("another program answers there")
    return status
