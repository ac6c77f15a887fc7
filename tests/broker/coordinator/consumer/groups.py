"""A test driver for one consumer group: its heartbeats and the records written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member
from coterie.broker.coordinator.result import Record
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.driver import Sent, Topics
from tests.broker.coordinator.requests import Owned, topic_id
from tests.broker.coordinator.shard_driver import ShardDriver

AT_ONCE = Settings(
    group_consumer_assignment_interval_ms=0, group_share_assignment_interval_ms=0
)
"""Settings under which each epoch bump computes its target assignment immediately."""


class Unread(dict[str, Any]):
    """A dict by member id that must not be iterated."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("all members are read")

    keys = values = items = __iter__  # type: ignore[assignment]


@dataclass
class GroupDriver(ShardDriver):
    """A shard with one consumer group, "g". Topics foo and bar have 6 and 3 partitions.

    The assignor is `uniform`, unless a test fixes the target assignment:
    `assigns({"m": {"foo": [0]}})`.
    """

    settings: Settings = field(default_factory=lambda: AT_ONCE)
    topics: Topics = field(default_factory=lambda: Topics({"foo": 6, "bar": 3}))
    group_id: str = "g"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scripted: Any = None
        self.configs = GroupConfigs(self.settings)

    @property
    def group(self) -> ConsumerGroup:
        return self.state.consumer_groups[self.group_id]

    def member(self, member_id: str = "m") -> Member:
        return self.group.members[member_id]

    def assigns(self, targets: Mapping[str, Owned] | Callable[..., Any]) -> None:
        """Set the next target assignments, regardless of the subscriptions."""
        self.scripted = targets

    def _context(self, *args: Any) -> Any:
        context = super()._context(*args)
        environment = context.environment._replace(configs=self.configs)
        if self.scripted is not None:
            assign = self.scripted if callable(self.scripted) else self._as_scripted
            environment = environment._replace(
                assignors={**environment.assignors, "uniform": assign}
            )
        return context._replace(environment=environment)

    def _as_scripted(self, spec: Any) -> Any:
        return {
            member_id: {topic_id(name): list(some) for name, some in owned.items()}
            for member_id, owned in self.scripted.items()
        }

    def join(
        self, member_id: str = "m", topics: Sequence[str] = ("foo",), **fields: Any
    ) -> Sent:
        """Send a member's first heartbeat."""
        fields.setdefault("rebalance_timeout_ms", 10_000)
        return self.heartbeat(
            member_id, 0, owned={}, subscribed_topic_names=list(topics), **fields
        )

    def settled(self, *members: str, rounds: int = 20) -> None:
        """Send heartbeats of the members, with their assignments, until all
        reconcile.
        """
        for _ in range(rounds):
            for member_id in members:
                member = self.member(member_id)
                owned = {
                    topic.rstrip(b"\0").decode(): list(held)
                    for topic, held in member.assigned.items()
                }
                assert not self.heartbeat(member_id, member.epoch, owned=owned).error
            if self.group.state.value == "Stable":
                return
        raise AssertionError("the group does not settle")

    @property
    def wrote(self) -> list[Record]:
        """The records of the last step."""
        return list(self.results[-1].records)

    @property
    def wrote_types(self) -> list[str]:
        """The record types of the last step; a minus marks a tombstone."""
        return [record_word(record) for record in self.wrote]


_WORDS = {
    "ConsumerGroupMetadataKey": "epoch",
    "ConsumerGroupMemberMetadataKey": "member",
    "ConsumerGroupTargetAssignmentMetadataKey": "target-epoch",
    "ConsumerGroupTargetAssignmentMemberKey": "target",
    "ConsumerGroupCurrentMemberAssignmentKey": "current",
    "ConsumerGroupRegularExpressionKey": "regex",
    "ShareGroupMetadataKey": "epoch",
    "ShareGroupMemberMetadataKey": "member",
    "ShareGroupTargetAssignmentMetadataKey": "target-epoch",
    "ShareGroupTargetAssignmentMemberKey": "target",
    "ShareGroupCurrentMemberAssignmentKey": "current",
    "ShareGroupStatePartitionMetadataKey": "partitions",
    "GroupMetadataKey": "classic",
    "OffsetCommitKey": "offset",
}


def record_word(record: Record) -> str:
    """Return the name of a record's type; a minus marks a tombstone."""
    word = _WORDS[type(record.key).__name__]
    return word if record.value is not None else f"-{word}"


def received_assignment(sent: Sent) -> dict[str, list[int]] | None:
    """Return the assignment of a response by topic name; None when it has none."""
    assert sent.error == ErrorCode.NONE, (sent.error, sent.response.error_message)
    if sent.response.assignment is None:
        return None
    return {
        each.topic_id.rstrip(b"\0").decode(): each.partitions
        for each in sent.response.assignment.topic_partitions
    }
