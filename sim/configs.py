"""Dynamic group configurations, which a world alters over time."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.settings import Settings
from coterie.types import GroupId


@dataclass(frozen=True)
class GroupConfig:
    """The dynamic configuration of a group; None means the default of the broker."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None


_NONE = GroupConfig()


class Configs(GroupConfigs):
    """A `GroupConfigView` that can change."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._of_group: dict[GroupId, GroupConfig] = {}

    def change(self, group_id: GroupId, config: GroupConfig) -> None:
        """Set a group's configuration."""
        self._of_group[group_id] = config
        self.version += 1

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """Return the session timeout of a group."""
        own = self._of_group.get(group_id, _NONE).session_timeout_ms
        return super().session_timeout_ms(group_id) if own is None else own

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """Return the heartbeat interval of a group."""
        own = self._of_group.get(group_id, _NONE).heartbeat_interval_ms
        return super().heartbeat_interval_ms(group_id) if own is None else own
