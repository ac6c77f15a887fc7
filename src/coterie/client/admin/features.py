"""Features of the cluster: what brokers support and what is finalized (KIP-584).

A finalized level is in force on every broker, as in `metadata.version` or
`group.version`; a supported range is what one broker could finalize.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import api_error
from coterie.wire import messages as m
from coterie.wire.schema import Versions

_FEATURES: Final = Versions(3, 4)
"""The versions of ApiVersions with features that the client sends."""


@dataclass(frozen=True, slots=True)
class LevelRange:
    """The levels of a feature from `low` to `high`, both included."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ClusterFeatures:
    """The features of a cluster, by name, from one of its brokers."""

    finalized: Mapping[str, int]
    """The level in force; a feature without one is not in it."""
    supported: Mapping[str, LevelRange]
    """The levels that the broker supports."""
    epoch: int | None = None
    """The epoch of the finalized levels; None when the broker does not know it."""


class Features(Family):
    """Calls about features of the cluster."""

    async def describe(self, *, node_id: int | None = None) -> ClusterFeatures:
        """Return the finalized levels of features and the levels that a broker supports
        (KIP-584): the broker `node_id`, or any.

        Raises UnsupportedByBroker for brokers before Kafka 2.4. Brokers before 2.7 and
        clusters with ZooKeeper have none.
        """

        async def once() -> m.ApiVersionsResponse:
            request = m.ApiVersionsRequest(
                client_software_name="coterie", client_software_version="1"
            )
            return await self._cluster.call(
                request, m.ApiVersionsResponse, node_id=node_id, wanted=_FEATURES
            )

        response = await self._cluster.retrying(once)
        if response.error_code:
            raise api_error(response.error_code, "ApiVersions")
        epoch = response.finalized_features_epoch
        return ClusterFeatures(
            {each.name: each.max_version_level for each in response.finalized_features},
            {
                each.name: LevelRange(each.min_version, each.max_version)
                for each in response.supported_features
            },
            epoch if epoch >= 0 else None,
        )


class SyncFeatures(SyncFamily[Features]):
    """The blocking methods of `Features`."""

    describe = blocking(Features.describe)
