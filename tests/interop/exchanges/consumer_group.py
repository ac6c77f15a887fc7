"""The members of one consumer group, whose heartbeats a test sends one by one.

Epochs are relative to the group's first epoch, which is 2 on Kafka 4.3 and 1 on
Coterie: `Members.epoch(n)` is the n-th epoch of the group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import topic_id

Owned = Mapping[str, Collection[int]]
Response = m.ConsumerGroupHeartbeatResponse

INVALID_REQUEST: Final = 42
UNKNOWN_MEMBER_ID: Final = 25
GROUP_ID_NOT_FOUND: Final = 69
FENCED_INSTANCE_ID: Final = 82
FENCED_MEMBER_EPOCH: Final = 110
UNRELEASED_INSTANCE_ID: Final = 111
_GROUP: Final = 32
_SET: Final = 0


class Members:
    """A consumer group whose targets are computed at each bump of its epoch.

    `assignments` has the newest assignment that a member was sent.
    """

    def __init__(self, wire: WireClient, group: str, *topics: str) -> None:
        self.wire, self.group = wire, group
        self.topic_ids = {topic: topic_id(wire, topic) for topic in topics}
        self.first_epoch = 0
        self.assignments: dict[str, dict[str, list[int]]] = {}
        set_group_config(wire, group, "consumer.assignment.interval.ms", "0")

    def add_topic(self, topic: str) -> str:
        """Add a topic that was created a moment ago, and wait for its coordinator.

        The coordinator of Kafka gets topics after the metadata of its broker has them,
        but in order with configs.
        """
        self.topic_ids[topic] = topic_id(self.wire, topic)
        timeout_ms = f"{45_000 + len(self.topic_ids)}"
        set_group_config(
            self.wire, self.group, "consumer.session.timeout.ms", timeout_ms
        )
        return topic

    def epoch(self, nth: int) -> int:
        """Return the n-th epoch of the group, counted from 1."""
        assert self.first_epoch, "nobody has joined"
        return self.first_epoch + nth - 1

    def join(self, member: str, *topics: str, **fields: Any) -> Response:
        """Send a heartbeat with epoch 0, without another topic to all topics."""
        fields.setdefault("rebalance_timeout_ms", 30_000)
        fields.setdefault("subscribed_topic_names", list(topics or self.topic_ids))
        sent = self.beat(member, 0, owned={}, **fields)
        if not self.first_epoch and not sent.error_code:
            self.first_epoch = sent.member_epoch
        return sent

    def beat(
        self,
        member: str,
        epoch: int,
        *,
        owned: Owned | None = None,
        version: int = 1,
        **fields: Any,
    ) -> Response:
        """Send a heartbeat; omitted fields are null."""
        if owned is not None:
            fields["topic_partitions"] = [
                m.TopicPartitions(
                    topic_id=self.topic_ids[topic], partitions=list(partitions)
                )
                for topic, partitions in owned.items()
            ]
        request = m.ConsumerGroupHeartbeatRequest(
            **{"group_id": self.group, **fields}, member_id=member, member_epoch=epoch
        )
        response: Response = self.wire.call(request, version)
        if response.assignment is not None:
            self.assignments[member] = self._named(response.assignment.topic_partitions)
        return response

    def assigned(self, response: Response) -> dict[str, list[int]] | None:
        """Return the assignment of a response; None if it has none."""
        assert response.error_code == 0, response
        if response.assignment is None:
            return None
        return self._named(response.assignment.topic_partitions)

    def settle(self, *members: str) -> None:
        """Let members revoke and acknowledge until the group is stable."""

        def stable() -> bool:
            for member in members:
                epoch = self.described(member).member_epoch
                sent = self.beat(member, epoch, owned=self.assignments[member])
                assert sent.error_code == 0, sent
            return self.describe().group_state == "Stable"

        eventually(stable, expected=f"{self.group} is stable")

    def describe(self) -> m.DescribedConsumerGroup:
        request = m.ConsumerGroupDescribeRequest(group_ids=[self.group])
        [found] = self.wire.call(request, 1).groups
        assert isinstance(found, m.DescribedConsumerGroup)
        return found

    def described(self, member: str) -> m.DescribedMember:
        """Return the description of a member, which must be in the group."""
        [found] = [each for each in self.describe().members if each.member_id == member]
        return found

    def names(self) -> set[str]:
        """Return the ids of the members."""
        return {each.member_id for each in self.describe().members}

    def owns(self, member: str) -> dict[str, list[int]]:
        """Return the partitions of a member by a description.

        Those that it must revoke are among them.
        """
        return self._named(self.described(member).assignment.topic_partitions)

    def targets(self, member: str) -> dict[str, list[int]]:
        """Return the target assignment of a member by a description."""
        return self._named(self.described(member).target_assignment.topic_partitions)

    def _named(self, partitions: Collection[Any]) -> dict[str, list[int]]:
        names = {known: topic for topic, known in self.topic_ids.items()}
        return {names[each.topic_id]: sorted(each.partitions) for each in partitions}


def set_group_config(wire: WireClient, group: str, name: str, value: str) -> None:
    """Set a config of a group and wait until the broker has it."""
    entry = m.IncrementalAlterableConfig(name=name, config_operation=_SET, value=value)
    changed = m.IncrementalAlterConfigsResource(
        resource_type=_GROUP, resource_name=group, configs=[entry]
    )
    [answer] = wire.call(
        m.IncrementalAlterConfigsRequest(resources=[changed])
    ).responses
    assert answer.error_code == 0, answer
    described = m.DescribeConfigsResource(
        resource_type=_GROUP, resource_name=group, configuration_keys=[name]
    )

    def is_set() -> bool:
        request = m.DescribeConfigsRequest(resources=[described])
        [result] = wire.call(request, 4).results
        return [each.value for each in result.configs] == [value]

    eventually(is_set, expected=f"{name}={value} of {group}")
