"""A member of the consumer protocol, like Kafka's own client (E7-70 to E7-82). One
heartbeat is in flight at a time. A heartbeat has the fields that changed since the last
one; after a failure it has all fields. To revoke partitions the member runs a callback
with a commit, and reports the revocation afterwards. It consumes assigned partitions
before it reports them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final

from coterie.types import TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from sim.clock import Event
from sim.members.computing import Computing, Flaw
from sim.members.member import (
    BACKOFF_MS,
    RETRIED,
    Member,
    MemberConfig,
    MemberEnvironment,
)
from sim.topics import TopicIdPartition

_FENCED: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
_FIRST_INTERVAL_MS: Final = 3_000
_REGEX_SINCE: Final = 1


class Phase(Enum):
    """The phase of the client (E7-80)."""

    JOINING = "joining"
    STABLE = "stable"
    RECONCILING = "reconciling"
    FENCED = "fenced"
    LEAVING = "leaving"
    OUT = "out"


class ConsumerMember(Member):
    """A process with one member of the consumer protocol."""

    def __init__(
        self, environment: MemberEnvironment, config: MemberConfig, incarnation: int
    ) -> None:
        super().__init__(environment, config, incarnation)
        self.phase = Phase.OUT
        self.epoch = 0
        self.target: frozenset[TopicIdPartition] = frozenset()
        """The last received assignment."""
        self.assignor = config.assignor
        self.regex = config.regex if config.version >= _REGEX_SINCE else None
        self._interval_ms = _FIRST_INTERVAL_MS
        self._is_full_due = True
        self._is_report_due = False
        self._is_subscription_due = False
        self._is_in_flight = False
        self._next: Event | None = None
        self._callback: object = None
        self.keeps_partitions = False
        """Whether it ignores that it must revoke partitions, until it is fenced."""
        self.computing = Computing(self) if config.computes else None

    @property
    def epoch_or_generation(self) -> int:
        """The member epoch."""
        return self.epoch

    @property
    def is_settled(self) -> bool:
        """Whether the member owns its assignment and has reported it."""
        return (
            self.phase is Phase.STABLE
            and self.owned == self.target
            and not self._is_report_due
        )

    def start(self) -> None:
        """Join the group; from version 1 on the member generates its id (E10-02)."""
        if self.config.version >= 1:
            self.member_id = f"{self.name}-{self.environment.rng.getrandbits(16):04x}"
        self.phase = Phase.JOINING
        self.beat()
        self.commit_regularly()

    def leave(self) -> None:
        """Revoke all partitions, leave the group, and end (E9-13)."""
        if self.is_leaving:
            return
        self.is_leaving = True
        self.phase = Phase.LEAVING
        self.after(self.callback_ms(), self._leave_now)

    def wanted(self, names: Iterable[TopicName]) -> set[TopicName]:
        """Return the topics that the member subscribes to, by name or expression."""
        regex = self.regex
        return {
            name
            for name in names
            if name in self.topics or (regex and re.fullmatch(regex, name))
        }

    def subscribe(self, topics: Sequence[TopicName], regex: str | None) -> None:
        """Change the subscription."""
        self.regex = regex if self.config.version >= _REGEX_SINCE else None
        self.note("subscribes to", *topics, self.regex or "")
        self.topics = tuple(topics)
        self._is_subscription_due = True
        self._heartbeat_now()

    def repeat(self) -> None:
        """Send all fields in the next heartbeat, and request an assignment."""
        if self.computing:
            if self.computing.flaw is not Flaw.DEAD:
                self.computing.flaw = None
            self.computing.requests_assignment = True
        self._is_full_due = True
        self._heartbeat_now()

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
        self.call(request, self.config.version, self._answered, self._failed)

    def _heartbeat(self) -> m.ConsumerGroupHeartbeatRequest:
        """Build a heartbeat (E7-75, E7-76)."""
        full = self._is_full_due or self.epoch == 0
        reports = full or self._is_report_due
        subscribes = full or self._is_subscription_due
        return m.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.config.rebalance_timeout_ms if full else -1,
            subscribed_topic_names=sorted(self.topics) if subscribes else None,
            subscribed_topic_regex=self._regex_field() if subscribes else None,
            server_assignor=self.assignor if full else None,
            topic_partitions=_listed(self.owned) if reports else None,
            client_assignors=(
                self.computing.offers() if full and self.computing else None
            ),
        )

    def _regex_field(self) -> str | None:
        """Return the request field of the regular expression; an empty one ends a
        subscription (E14-12).
        """
        return self.regex or "" if self.config.version >= _REGEX_SINCE else None

    def _failed(self) -> None:
        """Handle a failed heartbeat (E7-75)."""
        self._is_in_flight = False
        self._is_full_due = True
        self._beat_after(self.environment.rng.randint(BACKOFF_MS // 5, BACKOFF_MS))

    def _answered(self, answer: m.ConsumerGroupHeartbeatResponse) -> None:
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

    def _accepted(self, answer: m.ConsumerGroupHeartbeatResponse) -> None:
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

    def _heartbeat_now(self) -> None:
        """Send a heartbeat without waiting for the interval (E7-78)."""
        if self.phase in (Phase.STABLE, Phase.RECONCILING):
            self.beat()

    def _fenced(self) -> None:
        """Drop all partitions and rejoin with the same member id (E7-72)."""
        self.phase = Phase.FENCED
        self.keeps_partitions = False
        self.epoch = 0
        self.target = frozenset()
        self.revoke_partitions(self.owned, "loses")
        self.after(self.callback_ms(), self._rejoin)

    def _rejoin(self) -> None:
        if self.phase is Phase.FENCED:
            self.phase = Phase.JOINING
            self._is_full_due = True
            self.beat()

    # Reconciliation.

    def _reconcile(self) -> None:
        """Revoke, then assign partitions; report nothing until both are done
        (E7-81).
        """
        if self.phase is Phase.RECONCILING:
            self._is_report_due = False
            return
        surplus = frozenset(self.owned - self.target)
        if surplus and self.keeps_partitions:
            self._is_report_due = False
            return
        if surplus:
            self.phase = Phase.RECONCILING
            self._is_report_due = False
            self._callback = callback = object()
            self.after(self.callback_ms(), lambda: self._revoke(surplus, callback))
            return
        self.adopt(self.target)
        if self._is_report_due:
            self._heartbeat_now()

    def _revoke(self, surplus: frozenset[TopicIdPartition], callback: object) -> None:
        """Commit, revoke and report after the callback, unless the member was fenced
        meanwhile.
        """
        if self.phase is Phase.RECONCILING and callback is self._callback:
            self.commit(surplus, lambda: self._revoked(surplus, callback))

    def _revoked(self, surplus: frozenset[TopicIdPartition], callback: object) -> None:
        if self.phase is not Phase.RECONCILING or callback is not self._callback:
            return
        self.revoke_partitions(surplus, "revokes")
        self.phase = Phase.STABLE
        self._is_report_due = True
        self._reconcile()

    # Leaving.

    def _leave_now(self) -> None:
        self.commit(self.owned, self._send_leave)

    def _send_leave(self) -> None:
        self.revoke_partitions(self.owned, "revokes")
        is_static = self.instance_id is not None
        request = m.ConsumerGroupHeartbeatRequest(
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
            self.config.version,
            lambda _: self.die("has left"),
            lambda: self.die("sent its leave and ends"),
        )


_BEATING: Final = (Phase.JOINING, Phase.STABLE, Phase.RECONCILING)


def _listed(parts: set[TopicIdPartition]) -> list[m.TopicPartitions]:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(parts):
        by_topic.setdefault(topic_id, []).append(partition)
    listed: Mapping[TopicId, list[int]] = by_topic
    return [
        m.TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in listed.items()
    ]
