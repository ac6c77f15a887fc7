"""A membership and the scripted responses of its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client.member_states import Identity, OwnedPartition, Step, Subscription
from coterie.client.membership import Membership
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

INTERVAL_MS = 3_000
OTHER = b"o" * 16
TOPIC = b"t" * 16
NAMES = {TOPIC: "orders", OTHER: "others"}
OWN_ID = "own-id"


def owned(*numbers: int, topic: bytes = TOPIC) -> frozenset[OwnedPartition]:
    return frozenset(OwnedPartition(topic, number) for number in numbers)


def listed(partitions: Iterable[OwnedPartition]) -> list[m.TopicPartitions]:
    """Return partitions as in a message."""
    topics: dict[bytes, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return [
        m.TopicPartitions(topic_id=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]


class MembershipScript:
    """A member that subscribes to "orders", and its coordinator."""

    def __init__(
        self,
        subscription: Subscription | None = None,
        *,
        version: int = 1,
        names: Mapping[bytes, str] = NAMES,
        **identity: Any,
    ) -> None:
        self.now_ms = 1_000_000
        self.version = version
        self.member = Membership(
            Identity(group_id="g", member_id=OWN_ID, **identity),
            subscription or Subscription(frozenset({"orders"})),
        )
        self.member.learn_names(names)
        self.names = names

    @property
    def is_due(self) -> bool:
        """Whether a heartbeat is due now."""
        due_ms = self.member.heartbeat_due_ms
        return due_ms is not None and due_ms <= self.now_ms

    @property
    def wait_ms(self) -> int | None:
        """The time until the next heartbeat; None when none is scheduled."""
        due_ms = self.member.heartbeat_due_ms
        return None if due_ms is None else due_ms - self.now_ms

    def sent(self) -> m.ConsumerGroupHeartbeatRequest:
        """Return the heartbeat that is due now."""
        assert self.is_due, f"no heartbeat is due for {self.wait_ms} ms"
        return self.member.heartbeat(self.now_ms, self.version)

    def sent_later(self) -> m.ConsumerGroupHeartbeatRequest:
        """Advance to the next heartbeat and return it."""
        assert self.wait_ms is not None
        self.now_ms += max(self.wait_ms, 0)
        return self.sent()

    def yes(
        self,
        epoch: int,
        assigned: Iterable[OwnedPartition] | None = None,
        *,
        member_id: str = OWN_ID,
    ) -> None:
        """Accept the heartbeat, with an assignment if one is given."""
        is_leave = epoch < 0
        answer = m.ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=0 if is_leave else INTERVAL_MS,
        )
        if assigned is not None:
            answer.assignment = m.Assignment(topic_partitions=listed(assigned))
        self.member.answered(answer, self.now_ms)
        self.member.learn_names(self.names)

    def no(self, code: ErrorCode) -> bool:
        """Reject the heartbeat; return whether the coordinator has to be found
        again."""
        answer = m.ConsumerGroupHeartbeatResponse(error_code=code, error_message="no")
        return self.member.answered(answer, self.now_ms)

    def steps(self) -> list[Step]:
        """Run all pending steps and return them."""
        done = []
        while (step := self.member.begin()) is not None:
            self.member.finish()
            done.append(step)
        return done

    def joined(self, epoch: int, assigned: frozenset[OwnedPartition]) -> None:
        """Join the group and reach STABLE with these partitions."""
        self.member.join()
        self.sent()
        self.yes(epoch, assigned)
        self.steps()
        self.sent()
        self.yes(epoch)
