"""A test driver for one share group: its heartbeats and the records written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.broker.coordinator.share.admin import DescribeShareGroup
from coterie.broker.coordinator.share.group import ShareGroup, ShareMember
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.coordinator.consumer.groups import record_word
from tests.broker.coordinator.driver import Sent, Topics
from tests.broker.coordinator.requests import topic_id
from tests.broker.coordinator.shard_driver import ShardDriver

AT_ONCE = Settings(group_share_assignment_interval_ms=0)
"""Settings under which each epoch bump computes its target assignment immediately."""


@dataclass
class ShareDriver(ShardDriver):
    """A shard with one share group, "s". Topics foo and bar have 4 and 2 partitions."""

    settings: Settings = field(default_factory=lambda: AT_ONCE)
    topics: Topics = field(default_factory=lambda: Topics({"foo": 4, "bar": 2}))
    group_id: str = "s"

    @property
    def group(self) -> ShareGroup:
        return self.state.share_groups[self.group_id]

    def member(self, member_id: str = "m") -> ShareMember:
        return self.group.members[member_id]

    def beat(
        self,
        member_id: str = "m",
        epoch: int | None = None,
        topics: Sequence[str] | None = None,
        **fields: Any,
    ) -> Sent:
        """Send a heartbeat, by default with the member's epoch."""
        request = m.ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=member_id,
            member_epoch=self.member(member_id).epoch if epoch is None else epoch,
            subscribed_topic_names=None if topics is None else list(topics),
            **fields,
        )
        return self.send(request)

    def join(self, member_id: str = "m", topics: Sequence[str] = ("foo",)) -> Sent:
        """Send a member's first heartbeat, and initialize its partitions."""
        sent = self.beat(member_id, 0, topics)
        self.advance(0)
        return sent

    def settle_all(self) -> None:
        """Send heartbeats of all members until one round changes nothing."""
        for _ in range(20):
            epochs = {name: each.epoch for name, each in self.group.members.items()}
            for member_id in [*self.group.members]:
                assert not self.beat(member_id).error
                self.advance(0)
            if epochs == {
                name: self.group.epoch for name, each in self.group.members.items()
            }:
                return
        raise AssertionError("the group does not settle")

    def described(self) -> m.DescribedShareGroup:
        response = self.send(DescribeShareGroup(self.group_id)).response
        assert isinstance(response, m.DescribedShareGroup)
        return response

    def delete(self) -> Sent:
        sent = self.send(DeleteGroup(self.group_id))
        self.advance(0)
        return sent

    def change_topics(self, **counts: int) -> None:
        self.topics.counts.update(counts)
        self.topics.version += 1
        self.fire(TopicsChanged([*counts]))

    def delete_topic(self, name: str) -> None:
        del self.topics.counts[name]
        self.fire(TopicsChanged((name,)))
        self.fire(TopicsDeleted((DeletedTopic(name, topic_id(name)),)))

    @property
    def wrote_types(self) -> list[str]:
        """The record types of the last step; a minus marks a tombstone."""
        return [record_word(record) for record in self.results[-1].records]

    def initialized(self) -> dict[str, list[int]]:
        """Return the initialized partitions by topic name."""
        return {
            topic.name: sorted(topic.partitions)
            for topic in self.group.initialized.values()
        }


def assigned(sent: Sent) -> dict[str, list[int]] | None:
    """Return the assignment of a response by topic name; None when it has none."""
    assert not sent.error, sent.response
    if sent.response.assignment is None:
        return None
    return {
        each.topic_id.rstrip(b"\0").decode(): each.partitions
        for each in sent.response.assignment.topic_partitions
    }
