"""Copy the configurations of groups from the upstream cluster (KIP-848, KIP-1142).

Clients alter them upstream, which stores them; the gateway's groups use the copy.
Upstream lists the groups that have configurations from Kafka 4.1 on. What cannot be
read has no effect, and does not keep a node from starting.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from coterie.broker import DataPlane
from coterie.client import Cluster, Configs
from coterie.errors import CoterieError, UnsupportedByBroker
from coterie.gateway.upstream.poller import POLL_MS, Poller
from coterie.types import GroupId
from coterie.wire.configs import ConfigResourceType, ConfigSource

_LOGGER = logging.getLogger(__name__)


class GroupConfigFeed(Poller):
    """The copy in the catalog of `data`. `start` reads once, then regularly."""

    def __init__(
        self, cluster: Cluster, data: DataPlane, *, poll_ms: int = POLL_MS
    ) -> None:
        super().__init__(poll_ms, "the configurations of groups")
        self._cluster = cluster
        self._data = data
        self._configs = data.catalog.group_configs

    async def start(self) -> None:
        """Copy all configurations if upstream lists them, and go on with it in the
        background."""
        try:
            await self.poll()
        except UnsupportedByBroker:
            _LOGGER.info("upstream does not list configurations of groups")
            return
        except CoterieError as error:
            _LOGGER.warning("the configurations of groups are not read yet: %s", error)
        self.repeat()

    async def poll(self) -> None:
        """Copy the configurations that have changed."""
        # Groups whose configurations cannot be read keep those of the last success.
        kind = ConfigResourceType.GROUP
        listed = await Configs(self._cluster).list_resources([kind])
        described = await Configs(self._cluster).describe(listed)
        found: dict[GroupId, Mapping[str, str]] = {
            resource.name: {
                entry.name: entry.value
                for entry in entries
                if entry.source is ConfigSource.GROUP and entry.value is not None
            }
            for resource, entries in described.values.items()
        }
        names = {resource.name for resource in listed}
        gone = [each for each in self._configs.groups if each not in names]
        found |= {group_id: {} for group_id in gone}
        for group_id, values in found.items():
            entry = self._configs.copied(group_id, values)
            if (entry.value or {}) != self._configs.own(group_id):
                self._data.stage([entry])
                _LOGGER.info("group %s has the configurations %s", group_id, values)
        self._data.when_durable(lambda _: None)
        for error in described.errors.values():
            raise error
