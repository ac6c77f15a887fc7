"""How long a cluster keeps committed offsets that nobody needs any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from coterie.client.admin.cluster_values import ClusterDescription
from coterie.client.admin.config_values import ConfigEntry, ConfigResource
from coterie.client.admin.results import Results
from coterie.errors import CoterieError
from coterie.wire.config_kinds import ResourceKind

SETTING: Final = "offsets.retention.minutes"


class ConfigReader(Protocol):
    """What reading a broker's settings takes."""

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's brokers."""
        ...

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Collection[str] | None
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        """Settings of resources."""
        ...


async def offsets_retention_ms(admin: ConfigReader) -> int | None:
    """`offsets.retention.minutes` of one broker, which all should have alike; None
    when it does not tell, or not to us. `expiry` says what it counts from."""
    try:
        cluster = await admin.describe_cluster()
        brokers = [
            ConfigResource(ResourceKind.BROKER, str(each.node_id))
            for each in cluster.nodes[:1]
        ]
        described = await admin.describe_configs(brokers, names=[SETTING])
    except CoterieError:
        return None
    values = [
        entry.value
        for entries in described.values.values()
        for entry in entries
        if entry.name == SETTING
    ]
    return int(values[0]) * 60_000 if values and values[0] else None
