"""A member that speaks the consumer protocol, as Kafka's own client does (E7-70 to
E7-82), in as few words as it takes.

One heartbeat is in flight at a time. Fields are sent when they changed, and all of them
after anything went wrong. What the member is told to give up it gives up by a callback,
with a commit, and only then says so; what it is given it reads before it says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from coterie.types import TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from sim.clock import Event
from sim.members.computing import Computing, Flaw
from sim.members.member import BACKOFF_MS, RETRIED, Habitat, Habits, Member
from sim.topics import Part

_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_FIRST_INTERVAL_MS: Final = 3_000
_REGEX_SINCE: Final = 1


class Phase(Enum):
    """Where the client stands (E7-80)."""

    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    FENCED = "fenced"
    LEAVING = "leaving"
    OUT = "out"


class ConsumerMember(Member):
    """One member. See the module's docstring."""

    def __init__(self, habitat: Habitat, habits: Habits, incarnation: int) -> None:
        super().__init__(habitat, habits, incarnation)
        self.phase = Phase.OUT
        self.epoch = 0
        self.target: frozenset[Part] = frozenset()
        """What the member shall own, as it was told last."""
        self.assignor = habits.assignor
        self.regex = habits.regex if habits.version >= _REGEX_SINCE else None
        self._interval_ms = _FIRST_INTERVAL_MS
        self._is_full_due = True
        self._is_report_due = False
        self._is_subscription_due = False
        self._is_in_flight = False
        self._next: Event | None = None
        self._callback: object = None
        self.computing = Computing(self) if habits.computes else None

    @property
    def epoch_or_generation(self) -> int:
        """The member epoch."""
        return self.epoch

    @property
    def is_settled(self) -> bool:
        """Whether it owns what it shall and has said so."""
        return (
            self.phase is Phase.STABLE
            and self.owned == self.target
            and not self._is_report_due
        )

    def start(self) -> None:
        """Join the group, with an id of its own from version 1 on (E10-02)."""
        if self.habits.version >= 1:
            self.member_id = f"{self.name}-{self.habitat.rng.getrandbits(16):04x}"
        self.phase = Phase.JOINING
        self.beat()
        self.commit_regularly()

    def leave(self) -> None:
        """Give everything up, say so, and end (E9-13)."""
        if self.is_leaving:
            return
        self.is_leaving = True
        self.phase = Phase.LEAVING
        self.after(self.callback_ms(), self._leave_now)

    def wanted(self, names: Iterable[TopicName]) -> set[TopicName]:
        """Of these topics those that it names, and those its expression matches."""
        regex = self.regex
        return {
            name
            for name in names
            if name in self.topics or (regex and re.fullmatch(regex, name))
        }

    def subscribe(self, topics: Sequence[TopicName], regex: str | None) -> None:
        """Want other topics."""
        self.regex = regex if self.habits.version >= _REGEX_SINCE else None
        self.note("subscribes to", *topics, self.regex or "")
        self.topics = tuple(topics)
        self._is_subscription_due = True
        self._hurry()

    def repeat(self) -> None:
        """Say everything once more, and have the assignment computed anew."""
        if self.computing:
            if self.computing.flaw is not Flaw.DEAD:
                self.computing.flaw = None
            self.computing.asks_anew = True
        self._is_full_due = True
        self._hurry()

    # Heartbeats.

    def beat(self) -> None:
        """Send a heartbeat, unless one is in flight."""
        if self._is_in_flight or self.phase not in _BEATING:
            return
        if self._next is not None:
            self._next.cancel()
            self._next = None
        request = self._heartbeat()
        self._is_full_due = self._is_report_due = self._is_subscription_due = False
        self._is_in_flight = True
        self.call(request, self.habits.version, self._answered, self._failed)

    def _heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """E7-75, E7-76."""
        full = self._is_full_due or self.epoch == 0
        reports = full or self._is_report_due
        subscribes = full or self._is_subscription_due
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.habits.rebalance_timeout_ms if full else -1,
            subscribed_topic_names=sorted(self.topics) if subscribes else None,
            subscribed_topic_regex=self._said_regex() if subscribes else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=_listed(self.owned) if reports else None,
            client_assignors=(
                self.computing.offers() if full and self.computing else None
            ),
        )

    def _said_regex(self) -> str | None:
        """An empty one takes an older one back (E14-12)."""
        return self.regex or "" if self.habits.version >= _REGEX_SINCE else None

    def _failed(self) -> None:
        """E7-75."""
        self._is_in_flight = False
        self._is_full_due = True
        self._beat_after(self.habitat.rng.randint(BACKOFF_MS // 5, BACKOFF_MS))

    def _answered(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self._is_in_flight = False
        code = ErrorCode(answer.error_code)
        if self.phase in (Phase.LEAVING, Phase.OUT):
            return
        if code in RETRIED:
            self._failed()
        elif code in _FENCED:
            self._fenced()
        elif code is not ErrorCode.NONE:
            self.refused(code)  # E7-73
        else:
            self._accepted(answer)

    def _accepted(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.member_id
        self.member_id = answer.member_id
        self.epoch = answer.member_epoch
        self._interval_ms = answer.heartbeat_interval_ms
        if self.phase is Phase.JOINING:
            self.phase = Phase.STABLE
        if answer.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
            self._is_report_due = True  # E7-77
        if answer.should_compute_assignment and self.computing:
            self.computing.asked()
        self._reconcile()
        if self._is_subscription_due:
            self.beat()
        self._beat_after(self._interval_ms)

    def _beat_after(self, delay_ms: int) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self.after(delay_ms, self.beat)

    def _hurry(self) -> None:
        """Something is to be said at once (E7-78)."""
        if self.phase in (Phase.STABLE, Phase.RECONCILING):
            self.beat()

    def _fenced(self) -> None:
        """E7-72: lose everything, and rejoin under the same id."""
        self.phase = Phase.FENCED
        self.epoch = 0
        self.target = frozenset()
        self.let_go(self.owned, "loses")
        self.after(self.callback_ms(), self._rejoin)

    def _rejoin(self) -> None:
        if self.phase is Phase.FENCED:
            self.phase = Phase.JOINING
            self._is_full_due = True
            self.beat()

    # Towards the target.

    def _reconcile(self) -> None:
        """Give up, then take. Reports wait until that is done (E7-81)."""
        if self.phase is Phase.RECONCILING:
            self._is_report_due = False
            return
        surplus = frozenset(self.owned - self.target)
        if surplus:
            self.phase = Phase.RECONCILING
            self._is_report_due = False
            self._callback = callback = object()
            self.after(self.callback_ms(), lambda: self._revoke(surplus, callback))
            return
        self.adopt(self.target)
        if self._is_report_due:
            self._hurry()

    def _revoke(self, surplus: frozenset[Part], callback: object) -> None:
        """The callback is over: commit, let go, and say so. Nobody waits for it when
        the member was fenced meanwhile."""
        if self.phase is Phase.RECONCILING and callback is self._callback:
            self.commit(surplus, lambda: self._revoked(surplus, callback))

    def _revoked(self, surplus: frozenset[Part], callback: object) -> None:
        if self.phase is not Phase.RECONCILING or callback is not self._callback:
            return
        self.let_go(surplus, "lets go of")
        self.phase = Phase.STABLE
        self._is_report_due = True
        self._reconcile()

    # The end.

    def _leave_now(self) -> None:
        self.commit(self.owned, self._say_goodbye)

    def _say_goodbye(self) -> None:
        self.let_go(self.owned, "lets go of")
        is_static = self.instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=-2 if is_static else -1,
            instance_id=self.instance_id,
        )
        if not self.member_id:
            self.die("leaves before it was in")
            return
        self.call(
            request,
            self.habits.version,
            lambda _: self.die("has left"),
            lambda: self.die("has left, it hopes"),
        )


_BEATING: Final = (Phase.JOINING, Phase.STABLE, Phase.RECONCILING)


def _listed(parts: set[Part]) -> list[TopicPartitions]:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(parts):
        by_topic.setdefault(topic_id, []).append(partition)
    listed: Mapping[TopicId, list[int]] = by_topic
    return [
        TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in listed.items()
    ]
