"""ListGroups, asked of every broker: each tells the groups that it coordinates (E28).

Rules of this file: a broker that is loading or dead is an error of that node, and hides
no other's groups; a filter is the broker's work, or nobody's: one that is too old for
it would be a list that leaves out at random, so that ends the call (E28-07).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final, TypeAlias

from coterie.client.admin.deadline import Deadline
from coterie.client.admin.describe_cluster import describe_cluster
from coterie.client.admin.group_values import (
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
    Node,
)
from coterie.client.cluster import Cluster
from coterie.client.connection import ANY_VERSION
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from coterie.wire.schema import Versions

_STATES: Final = ListGroupsRequest.FIELDS["states_filter"].versions
_TYPES: Final = ListGroupsRequest.FIELDS["types_filter"].versions
_Listed: TypeAlias = list[GroupListing]


async def list_groups(
    cluster: Cluster,
    states: Collection[GroupState] = (),
    types: Collection[GroupType] = (),
) -> GroupListings:
    """The groups of all brokers that pass both filters; an empty one passes all.

    Raises UnsupportedByBroker when a broker cannot filter so, and ClientError when no
    broker can be reached.
    """
    deadline = Deadline(cluster)
    request = ListGroupsRequest(
        states_filter=[each.value for each in states],
        types_filter=[each.value for each in types],
    )
    nodes = (await describe_cluster(cluster, deadline)).nodes
    asked = (_of_node(cluster, node, request, deadline) for node in nodes)
    answers = dict(zip(nodes, await asyncio.gather(*asked), strict=True))
    groups: dict[GroupId, GroupListing] = {}
    errors: dict[int, CoterieError] = {}
    for node, answer in answers.items():
        if isinstance(answer, CoterieError):
            errors[node.node_id] = answer
        else:
            groups.update((each.group_id, each) for each in answer)
    return GroupListings(tuple(groups[each] for each in sorted(groups)), errors)


async def _of_node(
    cluster: Cluster, node: Node, request: ListGroupsRequest, deadline: Deadline
) -> _Listed | CoterieError:
    wanted = _needed(request)

    async def once() -> _Listed:
        connection = await cluster.connection(node.node_id)
        version = connection.version_of(ListGroupsRequest, wanted)
        answer = await connection.call(request, ListGroupsResponse, wanted=wanted)
        if answer.error_code:
            code = ErrorCode.read(answer.error_code)
            raise ApiError(code, f"{node} lists no groups: {code.name}")
        return [_listing(each, node, version) for each in answer.groups]

    try:
        return await deadline.retrying(once)
    except UnsupportedByBroker as error:
        if wanted != ANY_VERSION:
            raise
        return error
    except CoterieError as error:
        return error


def _needed(request: ListGroupsRequest) -> Versions:
    """The versions that can filter as the request does."""
    if request.types_filter:
        return _TYPES
    return _STATES if request.states_filter else ANY_VERSION


def _listing(group: ListedGroup, node: Node, version: int) -> GroupListing:
    return GroupListing(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        state=GroupState.read(group.group_state) if version in _STATES else None,
        type=GroupType.read(group.group_type) if version in _TYPES else None,
        coordinator_id=node.node_id,
    )
