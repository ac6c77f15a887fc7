"""Features of the cluster: what brokers support and what is finalized (KIP-584).

A finalized level is in force on every broker, as in `metadata.version` or
`group.version`; a supported range is what one broker could finalize.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from coterie.client.admin.calls import broker_timeout_ms, call_controller
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Results, api_error, results_of
from coterie.errors import CoterieError
from coterie.wire import messages as m
from coterie.wire.schema import VERSION_MAX, Versions

_FEATURES: Final = Versions(3, 4)
"""The versions of ApiVersions with features that the client sends."""
_KINDS_SINCE: Final = 1


class FeatureChange(IntEnum):
    """The kind of a change of a feature's level, with the protocol's numbers."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Refused when it would lose metadata (KIP-778)."""
    UNSAFE_DOWNGRADE = 3
    """Metadata may be lost."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that a feature gets."""

    level: int
    """0 removes the finalized level."""
    change: FeatureChange = FeatureChange.UPGRADE


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

    async def update(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> Results[str, None]:
        """Change the finalized levels of features, all or none since Kafka 4.0, or with
        `validate_only` check the changes.

        Raises as `Topics.create` does, and UnsupportedByBroker for brokers before Kafka
        2.7, or before 3.3 with `validate_only` or an unsafe downgrade.
        """
        needs_kinds = validate_only or any(
            each.change is FeatureChange.UNSAFE_DOWNGRADE for each in updates.values()
        )
        request = m.UpdateFeaturesRequest(
            timeout_ms=broker_timeout_ms(self._cluster.options),
            feature_updates=[
                m.FeatureUpdateKey(
                    feature=name,
                    max_version_level=each.level,
                    allow_downgrade=each.change is not FeatureChange.UPGRADE,
                    upgrade_type=each.change,
                )
                for name, each in updates.items()
            ],
            validate_only=validate_only,
        )
        response = await call_controller(
            self._cluster,
            request,
            m.UpdateFeaturesResponse,
            lambda response: (response.error_code,),
            wanted=Versions(_KINDS_SINCE if needs_kinds else 0, VERSION_MAX),
        )
        outcomes: dict[str, CoterieError | None] = dict.fromkeys(updates)
        for each in response.results:
            if each.error_code:
                name = f"feature {each.feature}"
                outcomes[each.feature] = api_error(
                    each.error_code, name, each.error_message
                )
        if response.error_code:  # of all updates: since version 2 all or none succeed
            for name in updates:
                outcomes[name] = outcomes[name] or api_error(
                    response.error_code, f"feature {name}", response.error_message
                )
        return results_of(updates, outcomes)


class SyncFeatures(SyncFamily[Features]):
    """The blocking methods of `Features`."""

    describe = blocking(Features.describe)
    update = blocking(Features.update)
