"""ListGroups, sent to every broker: each lists the groups that it coordinates (E28).

Rules of this file: the error of a loading or unavailable broker does not affect the
groups of other brokers. Brokers filter; a broker too old for a filter fails the call,
because a list without that filter would be incomplete in an unknown way (E28-07).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from coterie.client.admin.calls import Deadline, describe_cluster
from coterie.client.admin.groups import (
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
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode

_STATES: Final = m.ListGroupsRequest.FIELDS["states_filter"].versions
_TYPES: Final = m.ListGroupsRequest.FIELDS["types_filter"].versions


async def list_groups(
    cluster: Cluster,
    states: Collection[GroupState],
    types: Collection[GroupType],
) -> GroupListings:
    """List the groups of all brokers that match both filters."""
    deadline = Deadline(cluster)
    request = m.ListGroupsRequest(
        states_filter=[each.value for each in states],
        types_filter=[each.value for each in types],
    )
    wanted = _TYPES if types else _STATES if states else ANY_VERSION
    classic_only: set[int] = set()

    async def list_on(node: Node) -> list[GroupListing] | CoterieError:
        async def once() -> list[GroupListing]:
            connection = await cluster.connection(node.node_id)
            version = connection.version_of(m.ListGroupsRequest, wanted)
            response = await connection.call(
                request, m.ListGroupsResponse, wanted=wanted
            )
            if version not in _TYPES and not connection.serves(
                ApiKey.CONSUMER_GROUP_DESCRIBE
            ):
                classic_only.add(node.node_id)
            if response.error_code:
                code = ErrorCode.read(response.error_code)
                raise ApiError(code, f"{node} cannot list its groups: {code.name}")
            return [
                GroupListing(
                    each.group_id,
                    each.protocol_type,
                    GroupState.read(each.group_state) if version in _STATES else None,
                    GroupType.read(each.group_type) if version in _TYPES else None,
                    node.node_id,
                )
                for each in response.groups
            ]

        try:
            return await deadline.retrying(once)
        except CoterieError as error:
            if isinstance(error, UnsupportedByBroker) and wanted != ANY_VERSION:
                raise
            return error

    nodes = (await describe_cluster(cluster, deadline)).nodes
    outcomes = await asyncio.gather(*map(list_on, nodes))
    groups: dict[GroupId, GroupListing] = {}
    errors: dict[int, CoterieError] = {}
    for node, outcome in zip(nodes, outcomes, strict=True):
        if isinstance(outcome, CoterieError):
            errors[node.node_id] = outcome
        else:
            groups.update((each.group_id, each) for each in outcome)
    listed = tuple(groups[each] for each in sorted(groups))
    return GroupListings(listed, errors, frozenset(classic_only))
