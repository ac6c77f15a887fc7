"""Configurations of single groups (KIP-848, E21), apart from the groups themselves."""

from __future__ import annotations

from coterie.settings import Settings
from coterie.types import GroupId


class GroupConfigs:
    """What holds for each group; the coordinator's `GroupConfigView`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.version = 0

    def session_timeout_ms(self, group_id: GroupId) -> int:
        """How long a member of the consumer protocol may be silent."""
        return self._settings.group_consumer_session_timeout_ms

    def heartbeat_interval_ms(self, group_id: GroupId) -> int:
        """How often such a member shall be heard of."""
        return self._settings.group_consumer_heartbeat_interval_ms

    def assignment_interval_ms(self, group_id: GroupId) -> int:
        """How long after a target was made the next one may be made."""
        return self._settings.group_consumer_assignment_interval_ms
