"""What plays a scenario: its requests, and the state that it expects.

The lines of a scenario call a `Player`. `shard.ShardPlayer` plays them on a shard with
a simulated clock, `wire.WirePlayer` on a broker over TCP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.broker.coordinator.requests import GroupRequests

KIT = "shard and kit"
SHARD = "shard"


class Need(NamedTuple):
    """What only some players have."""

    players: str
    why: str


class MemberView(NamedTuple):
    """The state of a member of a consumer group."""

    state: str
    epoch: int
    pending: dict[str, list[int]]
    """The partitions to revoke, by topic."""


class Player(GroupRequests):
    """Requests to a group, and the state of the coordinator.

    Names and epochs are those of the text: a player translates what its broker calls
    otherwise.
    """

    exact_order = True
    """Whether the order of the records of one request is that of the text."""

    awaits_joins = True
    """Whether a JoinGroup is handled before the next request is sent. Without it the
    members of a new group join within the rebalance delay, however slow the machine."""

    # Actions.

    def set_topics(self, counts: Mapping[str, int], *, silent: bool = False) -> None:
        """Create topics, or add partitions to them."""
        raise NotImplementedError

    def delete_topic(self, name: str) -> None:
        raise NotImplementedError

    def advance(self, ms: int) -> None:
        """Let time pass."""
        raise NotImplementedError

    def resolve_regexes(self) -> None:
        """Let the coordinator match the regular expressions of subscriptions."""
        raise NotImplementedError

    def restarted(self) -> Player:
        """Return the player after a restart of the coordinator."""
        raise NotImplementedError

    def await_share_state(self) -> None:
        """Let the state of the group's share partitions be initialized."""
        raise NotImplementedError

    def configure_server(self, setting: str, value: str) -> None:
        raise NotImplementedError

    def configure_group(self, config: str, value: str) -> None:
        raise NotImplementedError

    def end_transaction(self, producer_id: int = 7, *, commit: bool) -> None:
        raise NotImplementedError

    # State.

    @property
    def wrote_types(self) -> list[str]:
        """The types of the records of the last request; a minus marks a tombstone."""
        raise NotImplementedError

    def exists(self) -> bool:
        raise NotImplementedError

    def consumer_group(self) -> tuple[str, int, int]:
        """Return the state, the epoch, and the epoch of the target."""
        raise NotImplementedError

    def classic_group(self) -> tuple[str, int | None]:
        """Return the state, and the generation if it can be seen."""
        raise NotImplementedError

    def member_view(self, member_id: str) -> MemberView:
        raise NotImplementedError

    def member_ids(self) -> list[str]:
        raise NotImplementedError

    def committed(self, topic: str, partition: int) -> int | None:
        """Return the committed offset."""
        raise NotImplementedError
