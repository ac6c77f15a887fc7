"""One membership of a KIP-848 consumer group, without I/O.

    while (due := membership.heartbeat_due_ms) is not None and due <= now_ms:
        request = membership.heartbeat(now_ms, version)
        membership.answered(send(request), now_ms)      # or failed(now_ms)
        while step := membership.begin():
            run(step)                                   # the application's callbacks
            membership.finish()

It implements KIP-848 as Apache Kafka's consumer does (E7-70 to E7-82).

Rules of this file: at most one heartbeat is in flight and one step runs. A partition is
owned from before the application starts it until after the application has stopped, so
no heartbeat reports it as revoked too early (E7-81). Times are arguments, in ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from coterie.client.cluster import COORDINATOR_ELSEWHERE
from coterie.client.member_states import (
    IN_GROUP,
    SILENT,
    Assign,
    Backoff,
    Identity,
    Lose,
    MemberState,
    OwnedPartition,
    Partitions,
    Revoke,
    Step,
    Subscription,
    transition,
)
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.types import TopicId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
_OWN_MEMBER_ID_SINCE: Final = 1
_REGEX_SINCE: Final = 1
_FIRST_INTERVAL_MS: Final = 5_000

_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


_Acknowledgement: TypeAlias = tuple[int, Partitions]


class Membership:
    """One membership of a group.

    `epoch` is the member epoch, 0 outside the group. `owned` are the partitions that
    the application uses. `failure` is the error that led to FATAL. `refusal` is the
    last error that did not end the membership (E7-74), until a heartbeat succeeds.
    """

    def __init__(
        self,
        identity: Identity,
        subscription: Subscription,
        backoff: Backoff | None = None,
    ) -> None:
        self.state = MemberState.UNSUBSCRIBED
        self.identity = identity
        self.member_id = identity.member_id
        self.epoch = JOIN_EPOCH
        self.owned: Partitions = frozenset()
        self.names: dict[TopicId, TopicName] = {}
        self.step: Step | None = None
        self.failure: CoterieError | None = None
        self.refusal: ApiError | None = None
        self.heartbeats_answered = 0
        self.interval_ms = _FIRST_INTERVAL_MS
        self._subscription = subscription
        self._accepted: Subscription | None = None
        self._backoff = backoff or Backoff()
        self._target: Partitions = frozenset()
        self._target_number = 0  # the local epoch of E7-77: counts target assignments
        self._settled_number = 0  # the last reconciled target assignment
        self._in_flight: int | None = None  # the epoch of the heartbeat in flight
        self._asked_subscription: Subscription | None = None
        self._sent_subscription: Subscription | None = None
        self._sent_acknowledgement: _Acknowledgement | None = None
        self._is_full_due = True
        self._is_requested = False
        self._is_computation_due = False
        self._pattern_used = False
        self._is_outside = True  # true when the coordinator no longer has the member
        self._leave_epoch: int | None = LEAVE_EPOCH
        self._sent_at_ms = 0
        self._not_before_ms = 0
        self._failures = 0

    @property
    def subscription(self) -> Subscription:
        """The current subscription."""
        return self._subscription

    @property
    def is_over(self) -> bool:
        """Whether the membership has ended and no partition is owned."""
        is_out = self.state in {MemberState.UNSUBSCRIBED, MemberState.FATAL}
        return is_out and self.step is None and not self.owned

    @property
    def is_silent(self) -> bool:
        """Whether no heartbeats are sent in the current state."""
        return self.state in SILENT

    @property
    def is_accepted(self) -> bool:
        """Whether the coordinator has accepted the current subscription."""
        return self.epoch > 0 and self._accepted == self._subscription

    @property
    def unresolved(self) -> frozenset[TopicId]:
        """Assigned topics whose names are unknown: their partitions are not started and
        not reported as owned yet (E7-82)."""
        if self.state not in IN_GROUP:
            return frozenset()
        return frozenset(each.topic_id for each in self._target) - self.names.keys()

    @property
    def heartbeat_due_ms(self) -> int | None:
        """The time of the next heartbeat; None while none may be sent."""
        if self._in_flight is not None or self.state in SILENT:
            return None
        if self.state is MemberState.PREPARE_LEAVING and self._is_outside:
            return None
        if self._is_urgent():
            return self._not_before_ms
        return max(self._not_before_ms, self._sent_at_ms + self.interval_ms)

    def named(self, partitions: Iterable[OwnedPartition]) -> frozenset[TopicPartition]:
        """Return partitions by topic name; the names must be known."""
        return frozenset(
            TopicPartition(self.names[each.topic_id], each.partition)
            for each in partitions
        )

    def join(self) -> None:
        """Start to join; a heartbeat is due at once (E7-78)."""
        self._move(MemberState.JOINING)

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription; a heartbeat is due at once."""
        self._subscription = subscription
        if self.refusal is not None:
            self.refusal = None
            self._not_before_ms = 0

    def take_computation(self) -> bool:
        """Return whether the coordinator requests an assignment of this member, and
        clear the request (E13-02)."""
        requested, self._is_computation_due = self._is_computation_due, False
        return requested and self.epoch > 0

    def request_heartbeat(self) -> None:
        """Make a heartbeat due at once, to receive the member epoch. It is a full
        heartbeat: the coordinator fences a member that sends its previous epoch without
        its owned partitions (E7-31)."""
        self._is_requested = self._is_full_due = True

    def leave(self, epoch: int | None) -> None:
        """Revoke every partition, then leave the group: LEAVE_EPOCH for good,
        LEAVE_FOR_A_WHILE_EPOCH for a static member that will rejoin (E9-13), or None to
        let the session time out (KIP-1092)."""
        assert epoch in {LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH, None}
        self._leave_epoch = epoch
        if self.state is MemberState.FENCED or self.state in IN_GROUP:
            self._move(MemberState.PREPARE_LEAVING)
            self._settle()

    def fail(self, error: CoterieError) -> None:
        """End the membership after an error that is not retriable; owned partitions are
        lost."""
        self._is_outside = True
        if self.state is MemberState.LEAVING:
            self._move(MemberState.UNSUBSCRIBED)
        elif self.state is not MemberState.PREPARE_LEAVING:
            self.failure = error
            self._move(MemberState.FATAL)
        self._settle()

    # Heartbeats.

    def heartbeat(self, now_ms: int, version: int) -> m.ConsumerGroupHeartbeatRequest:
        """Return the due heartbeat: full on joining and after a failure, else with the
        changes since the last one (E7-75, E7-76).

        Raises UnsupportedByBroker for a regular expression in version 0.
        """
        assert self.heartbeat_due_ms is not None, self.state
        leave_epoch = self._leave_epoch if self.state is MemberState.LEAVING else None
        epoch = self.epoch if leave_epoch is None else leave_epoch
        # In version 0 the coordinator creates the member id (E10-02).
        has_no_id = version < _OWN_MEMBER_ID_SINCE and self._accepted is None
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=self.identity.group_id,
            member_id="" if has_no_id else self.member_id,
            member_epoch=epoch,
            instance_id=self.identity.instance_id,
        )
        if leave_epoch is None:
            self._add_changes(request, version)
        self._in_flight = epoch
        self._is_outside = False
        self._is_requested = False
        self._sent_at_ms = now_ms
        self._settle()
        return request

    def answered(self, response: m.ConsumerGroupHeartbeatResponse, now_ms: int) -> bool:
        """Process the response to the heartbeat in flight; return whether the
        coordinator has to be found again (E7-70)."""
        epoch, self._in_flight = self._in_flight, None
        assert epoch is not None, "a response to no heartbeat"
        self.heartbeats_answered += 1
        if not response.error_code:
            self._accept(response, epoch)
            return False
        code = ErrorCode.read(response.error_code)
        error = ApiError(code, response.error_message or code.name)
        self._refused(error, epoch, now_ms)
        self._settle()
        return code in COORDINATOR_ELSEWHERE

    def failed(self, now_ms: int) -> None:
        """Process a heartbeat that could not be sent or got no response."""
        self._in_flight = None
        self._back_off(now_ms)
        self._settle()

    def learn_names(self, names: Mapping[TopicId, TopicName]) -> None:
        """Store the names of topics by their ids."""
        self.names.update(names)
        self._settle()

    # Steps.

    def begin(self) -> Step | None:
        """Start the next step of the application and return it; None while a step runs
        or without a next step. `finish` ends it.
        """
        if self.step is not None:
            return None
        self.step = self._next_step()
        if isinstance(self.step, Assign):
            self.owned |= self.step.partitions
        self._settle()
        return self.step

    def finish(self) -> None:
        """End the running step; revoked and lost partitions are no longer owned."""
        step, self.step = self.step, None
        assert step is not None, "no step is running"
        if not isinstance(step, Assign):
            self.owned -= step.partitions
        self._settle()

    def _next_step(self) -> Step | None:
        if self.state in {MemberState.FENCED, MemberState.FATAL}:
            return Lose(self.owned) if self.owned else None
        if self.state is MemberState.PREPARE_LEAVING:
            kind = Lose if self._is_outside else Revoke
            return kind(self.owned) if self.owned else None
        if self.state not in IN_GROUP:
            return None
        if revoked := self.owned - self._target:
            return Revoke(revoked)
        resolved = frozenset(x for x in self._target if x.topic_id in self.names)
        if added := resolved - self.owned:
            return Assign(added)
        return None

    # Responses to heartbeats.

    def _accept(self, response: m.ConsumerGroupHeartbeatResponse, epoch: int) -> None:
        self._failures = 0
        self._not_before_ms = 0
        self.refusal = None
        if epoch < 0:
            self._move(MemberState.UNSUBSCRIBED)
            self.epoch = JOIN_EPOCH
            self._is_outside = True
            return
        if response.heartbeat_interval_ms > 0:
            self.interval_ms = response.heartbeat_interval_ms  # E7-53
        self.epoch = response.member_epoch
        self.member_id = response.member_id or self.member_id
        self._is_computation_due |= response.should_compute_assignment
        if self._asked_subscription is not None:
            self._accepted = self._asked_subscription
        if response.assignment is not None:
            target = frozenset(
                OwnedPartition(topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
            if epoch == JOIN_EPOCH or target != self._target:
                self._target = target
                self._target_number += 1
                used = {each.topic_id for each in target | self.owned}
                self.names = {key: self.names[key] for key in used & self.names.keys()}
        self._settle()

    def _refused(self, error: ApiError, epoch: int, now_ms: int) -> None:
        code = error.code
        if epoch < 0:
            # Retry a leave heartbeat only after a retriable error; after other errors
            # the group no longer has the member.
            if code.retriable:
                self._back_off(now_ms)
            else:
                self._move(MemberState.UNSUBSCRIBED)
                self.epoch = JOIN_EPOCH
        elif code in _FENCED or (code is ErrorCode.GROUP_ID_NOT_FOUND and epoch > 0):
            # A deleted group is joined again, as a new one.
            self._fence()
            if epoch == JOIN_EPOCH:  # the old session must expire first (E7-33)
                self._back_off(now_ms)
        elif code in COORDINATOR_ELSEWHERE and not self._failures:
            self._back_off(now_ms)
            self._not_before_ms = now_ms  # at once after FindCoordinator (E7-70)
        elif code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._surface(error)
            self._not_before_ms = now_ms + self.interval_ms
        elif code is ErrorCode.INVALID_REGULAR_EXPRESSION and self._fall_back():
            self._surface(error)
            self._back_off(now_ms)
        elif code.retriable:
            self._back_off(now_ms)
        else:
            self.fail(error)

    def _fence(self) -> None:
        self.epoch = JOIN_EPOCH
        self._target = frozenset()
        self._is_full_due = True
        self._is_outside = True
        if self.state in IN_GROUP:
            self._move(MemberState.FENCED)

    def _surface(self, error: ApiError) -> None:
        self.refusal = error
        self._is_full_due = True

    def _fall_back(self) -> bool:
        """Restore the last accepted subscription; return False without one (E7-74)."""
        if self._accepted is None or self._accepted == self._subscription:
            return False
        self._subscription = self._accepted
        return True

    def _back_off(self, now_ms: int) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.wait_ms(self._failures)
        self._is_full_due = True

    def _add_changes(
        self, request: m.ConsumerGroupHeartbeatRequest, version: int
    ) -> None:
        """Add the fields that changed since the last heartbeat, or all of them."""
        wanted = self._subscription
        if wanted.pattern is not None and version < _REGEX_SINCE:
            raise UnsupportedByBroker(
                "the coordinator serves ConsumerGroupHeartbeat 0 only, which has no "
                "regular expressions; subscribe by topic names"
            )
        acknowledgement = self._acknowledgement()
        is_full = self._is_full_due
        self._asked_subscription = None
        if is_full:
            request.rebalance_timeout_ms = self.identity.rebalance_timeout_ms
            request.rack_id = self.identity.rack_id
            request.server_assignor = self.identity.server_assignor
            request.client_assignors = self.identity.client_assignors
        if is_full or wanted != self._sent_subscription:
            request.subscribed_topic_names = sorted(wanted.topics)
            self._pattern_used |= wanted.pattern is not None
            if self._pattern_used:
                request.subscribed_topic_regex = wanted.pattern or ""
            self._asked_subscription = self._sent_subscription = wanted
        if is_full or acknowledgement != self._sent_acknowledgement:
            request.topic_partitions = _by_topic(self.owned)
            self._sent_acknowledgement = acknowledgement
        self._is_full_due = False

    def _acknowledgement(self) -> _Acknowledgement:
        return self._settled_number, self.owned

    def _is_urgent(self) -> bool:
        if self._is_requested or self.state in _AT_ONCE:
            return True
        if self.state not in IN_GROUP:
            return False
        if self._is_full_due or self._subscription != self._sent_subscription:
            return True
        if self.step is None and self._acknowledgement() != self._sent_acknowledgement:
            return True
        _, reported = self._sent_acknowledgement or (0, frozenset())
        # Revoked partitions are reported at once, new ones once the application has
        # started them (E7-78).
        return bool(reported - self.owned)

    # States.

    def _settle(self) -> None:
        """Move to the state that follows from owned partitions, step and epoch."""
        if self.state is MemberState.FENCED:
            if self.step is None and not self.owned:
                self._move(MemberState.JOINING)
        elif self.state is MemberState.PREPARE_LEAVING:
            if self.step is None and not self.owned:
                is_over = self._is_outside or self._leave_epoch is None
                ending = MemberState.UNSUBSCRIBED if is_over else MemberState.LEAVING
                self._move(ending)
                self._not_before_ms = 0
        elif self.state in IN_GROUP and self.epoch > 0:
            self._settle_in_group()

    def _settle_in_group(self) -> None:
        is_reconciled = self.step is None and self._next_step() is None
        if not is_reconciled or self.owned != self._target:
            self._move(MemberState.RECONCILING)
            return
        self._settled_number = self._target_number
        if self._acknowledgement() != self._sent_acknowledgement:
            self._move(MemberState.ACKNOWLEDGING)
        else:
            self._move(MemberState.STABLE)

    def _move(self, to: MemberState) -> None:
        self.state = transition(self.state, to)


_AT_ONCE: Final = frozenset(
    {MemberState.JOINING, MemberState.ACKNOWLEDGING, MemberState.LEAVING}
)


def _by_topic(partitions: Partitions) -> list[m.TopicPartitions]:
    """Return partitions as in a request, sorted: equal sets have equal bytes."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [
        m.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
