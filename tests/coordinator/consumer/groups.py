"""A consumer group under test: heartbeats by keyword, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.catalog.group_configs import GroupConfigs
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.result import Record, sees_all
from coterie.settings import Settings
from coterie.types import TopicId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.coordinator.driver import Sent, Topics
from tests.coordinator.shard_driver import ShardDriver

AT_ONCE = Settings(group_consumer_assignment_interval_ms=0)
"""Every epoch has its target in the same step."""
Owned = Mapping[str, Collection[int]]


def topic_id(name: str) -> TopicId:
    """The id that `Topics` gives a topic."""
    return name.encode().ljust(16, b"\0")


@dataclass
class GroupDriver(ShardDriver):
    """A shard with one consumer group, "g". Topics foo and bar have 6 and 3 partitions.

    The assignor is `uniform`, unless a test scripts it: `assigns({"m": {"foo": [0]}})`.
    """

    settings: Settings = field(default_factory=lambda: AT_ONCE)
    topics: Topics = field(default_factory=lambda: Topics({"foo": 6, "bar": 3}))
    group_id: str = "g"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scripted: Any = None
        self.configs = GroupConfigs(self.settings)
        self.may_describe: Callable[[str], bool] = sees_all

    @property
    def group(self) -> ConsumerGroup:
        return self.state.consumer_groups[self.group_id]

    def member(self, member_id: str = "m") -> Member:
        return self.group.members[member_id]

    def assigns(self, targets: Mapping[str, Owned] | Callable[..., Any]) -> None:
        """The next targets, whatever the members want."""
        self.scripted = targets

    def _context(self, *args: Any) -> Any:
        context = (
            super()
            ._context(*args)
            ._replace(may_describe=self.may_describe, configs=self.configs)
        )
        if self.scripted is None:
            return context
        assign = self.scripted if callable(self.scripted) else self._as_scripted
        return context._replace(assignors={**context.assignors, "uniform": assign})

    def _as_scripted(self, spec: Any) -> Any:
        return {
            member_id: {topic_id(name): list(some) for name, some in owned.items()}
            for member_id, owned in self.scripted.items()
        }

    def heartbeat(
        self,
        member_id: str = "m",
        epoch: int = 0,
        *,
        owned: Owned | None = None,
        version: int = 1,
        **said: Any,
    ) -> Sent:
        """A heartbeat; what is not given is not said."""
        said.setdefault("group_id", self.group_id)
        topics = None
        if owned is not None:
            topics = [
                TopicPartitions(topic_id=topic_id(name), partitions=list(some))
                for name, some in owned.items()
            ]
        said.setdefault("topic_partitions", topics)
        request = ConsumerGroupHeartbeatRequest(
            member_id=member_id, member_epoch=epoch, **said
        )
        return self.send(request, version=version)

    def join(
        self, member_id: str = "m", topics: Sequence[str] = ("foo",), **said: Any
    ) -> Sent:
        """A member's first heartbeat."""
        said.setdefault("rebalance_timeout_ms", 10_000)
        return self.heartbeat(
            member_id, 0, owned={}, subscribed_topic_names=list(topics), **said
        )

    def settled(self, *members: str, rounds: int = 20) -> None:
        """Let the members send heartbeats, owning what they were told to, until all of
        them are where the target wants them."""
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
        """What the last step wrote, in words, with a minus for a tombstone."""
        return [_word(record) for record in self.wrote]


_WORDS = {
    "ConsumerGroupMetadataKey": "epoch",
    "ConsumerGroupMemberMetadataKey": "member",
    "ConsumerGroupTargetAssignmentMetadataKey": "target-epoch",
    "ConsumerGroupTargetAssignmentMemberKey": "target",
    "ConsumerGroupCurrentMemberAssignmentKey": "current",
    "ConsumerGroupRegularExpressionKey": "regex",
    "GroupMetadataKey": "classic",
    "OffsetCommitKey": "offset",
}


def _word(record: Record) -> str:
    word = _WORDS[type(record.key).__name__]
    return word if record.value is not None else f"-{word}"


def told(sent: Sent) -> dict[str, list[int]] | None:
    """What the answer assigns, by topic name; None when it says nothing."""
    assert sent.error == ErrorCode.NONE, (sent.error, sent.response.error_message)
    if sent.response.assignment is None:
        return None
    return {
        each.topic_id.rstrip(b"\0").decode(): each.partitions
        for each in sent.response.assignment.topic_partitions
    }
