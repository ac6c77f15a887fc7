"""ApiVersions (key 18): the requests that each broker serves (KIP-35)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeAlias

from coterie.client.admin.calls import Deadline, describe_cluster
from coterie.client.admin.results import Results, api_error, results_of
from coterie.client.cluster import Cluster
from coterie.errors import CoterieError
from coterie.wire import messages as m
from coterie.wire.schema import Versions

BrokerVersions: TypeAlias = Mapping[int, Versions]
"""The versions of each API that a broker serves, by API key."""


async def describe_api_versions(
    cluster: Cluster, node_ids: Iterable[int] | None = None
) -> Results[int, BrokerVersions]:
    """Return the versions that brokers serve; None means every broker. A broker that
    cannot be reached has an error, after one attempt."""
    deadline = Deadline(cluster)
    if node_ids is None:
        described = await describe_cluster(cluster, deadline)
        node_ids = (node.node_id for node in described.nodes)
    wanted = list(dict.fromkeys(node_ids))

    async def ask(node_id: int) -> BrokerVersions | CoterieError:
        call = partial(
            cluster.call,
            # Before version 3 the client's name is not sent.
            m.ApiVersionsRequest(),
            m.ApiVersionsResponse,
            node_id=node_id,
            wanted=Versions(0, 2),
        )
        try:
            response = await deadline.limit(call)
        except CoterieError as error:
            return error
        if response.error_code:
            return api_error(response.error_code, f"the API versions of node {node_id}")
        return {
            each.api_key: Versions(each.min_version, each.max_version)
            for each in response.api_keys
        }

    outcomes = await asyncio.gather(*map(ask, wanted))
    return results_of(wanted, dict(zip(wanted, outcomes, strict=True)))
