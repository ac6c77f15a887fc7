"""The groups' own configurations, which a world changes as it goes."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.catalog.group_configs import GroupConfigs
from coterie.settings import Settings
from coterie.types import GroupId


@dataclass(frozen=True)
class GroupConfig:
    """What a group has of its own; None: as the server has it."""

    session_timeout_ms: int | None = None
    heartbeat_interval_ms: int | None = None


_NONE = GroupConfig()


class Configs(GroupConfigs):
    """A `GroupConfigView` that changes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._of_group: dict[GroupId, GroupConfig] = {}

    def change(self, group_id: GroupId, config: GroupConfig) -> None:
        """Give a group other configurations."""
        self._of_group[group_id] = config
        self.version += 1

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """How long a member of the consumer protocol may be silent."""
        own = self._of_group.get(group_id, _NONE).session_timeout_ms
        return super().session_timeout_ms(group_id) if own is None else own

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """How often such a member shall be heard of."""
        own = self._of_group.get(group_id, _NONE).heartbeat_interval_ms
        return super().heartbeat_interval_ms(group_id) if own is None else own
