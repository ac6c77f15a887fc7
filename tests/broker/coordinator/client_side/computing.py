"""A test driver for consumer groups with client-side assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from coterie.wire import messages as m
from tests.broker.coordinator.consumer.groups import AT_ONCE, GroupDriver
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import topic_id

ON = replace(AT_ONCE, group_consumer_client_assignors_enable=True)
COMPUTATION = ("computation", "g")
Plan = Mapping[str, Mapping[str, Sequence[int]]]


def offer(name: str = "mine", **fields: Any) -> m.ClientAssignor:
    versions = {"minimum_version": 0, "maximum_version": 5, "metadata_version": 1}
    return m.ClientAssignor(name=name, **{**versions, **fields})


class Computing(GroupDriver):
    """A group whose members support a client-side assignor; foo has 6 partitions, bar
    3.
    """

    def enter(
        self, who: str, *topics: str, offers: Any = None, **request_fields: Any
    ) -> Sent:
        offers = [offer()] if offers is None else offers
        request_fields = {"client_assignors": offers, **request_fields}
        return self.join(who, topics or ("foo",), **request_fields)

    def beat(self, who: str, **request_fields: Any) -> Sent:
        return self.heartbeat(who, self.member(who).epoch, **request_fields)

    def prepare(self, who: str, epoch: int | None = None, group: str = "g") -> Sent:
        epoch = self.member(who).epoch if epoch is None else epoch
        return self.send(
            m.ConsumerGroupPrepareAssignmentRequest(
                group_id=group, member_id=who, member_epoch=epoch
            )
        )

    def install(
        self, who: str, plan: Plan, *, epoch: int | None = None, **fields: Any
    ) -> Sent:
        members = [
            m.InstalledMember(
                member_id=member_id,
                partitions=[
                    m.TopicPartitions(topic_id=topic_id(topic), partitions=[*some])
                    for topic, some in given.items()
                ],
                metadata_version=1,
                metadata_bytes=b"hello " + member_id.encode(),
            )
            for member_id, given in plan.items()
        ]
        known = self.group.members.get(who)
        values = {
            "member_epoch": 0 if known is None else known.epoch,
            "group_epoch": self.group.epoch if epoch is None else epoch,
            "members": members,
            **fields,
        }
        return self.send(
            m.ConsumerGroupInstallAssignmentRequest(
                group_id="g", member_id=who, **values
            )
        )
