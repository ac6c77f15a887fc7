"""One membership of a KIP-848 consumer group, without I/O: what to send, what to do.

    while (due := membership.heartbeat_due_ms) is not None and due <= now_ms:
        request = membership.heartbeat(now_ms, version)
        membership.answered(ask(request), now_ms)       # or failed(now_ms)
        while step := membership.begin():
            carry_out(step)                             # the application's callbacks
            membership.finish()

What it follows is KIP-848 as Apache Kafka's own consumer has it (E7-70 to E7-82).

Rules of this file: one heartbeat is in flight at a time and one step is carried out at
a time. A partition counts as owned from before it is announced to the application until
after the application gave it up, so that no heartbeat ever tells the group too early
that it is free (E7-81). It looks at no clock: times come in, in ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from coterie.client.assignor import declared
from coterie.client.member_states import IN_GROUP, SILENT, MemberState, move
from coterie.client.member_values import (
    Assign,
    Backoff,
    Identity,
    Lose,
    OwnedPartition,
    Partitions,
    Revoke,
    Step,
    Subscription,
)
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.types import MemberId, TopicId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
_OWN_MEMBER_ID_SINCE: Final = 1
_REGEX_SINCE: Final = 1
_FIRST_INTERVAL_MS: Final = 5_000

_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_ELSEWHERE: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


_Acknowledgement: TypeAlias = tuple[int, Partitions]


class Membership:
    """One membership. See the module's docstring.

    `epoch` is the member epoch, 0 outside the group. `owned` are the partitions that
    the application has. `failure` is what ended the membership in FATAL. `refusal` is
    the coordinator's last no that did not end it (E7-74), until the next yes.
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
        self._target_number = 0  # the local epoch of E7-77: counts targets
        self._settled_number = 0  # the last target that was carried out
        self._in_flight: int | None = None  # the epoch of a heartbeat without answer
        self._asked_subscription: Subscription | None = None
        self._sent_subscription: Subscription | None = None
        self._sent_acknowledgement: _Acknowledgement | None = None
        self._is_full_due = True
        self._is_hurried = False
        self._is_asked_to_compute = False
        self._pattern_used = False
        self._is_outside = True  # whether the coordinator knows no such member
        self._leave_epoch: int | None = LEAVE_EPOCH
        self._sent_at_ms = 0
        self._not_before_ms = 0
        self._failures = 0

    # What is to be known.

    @property
    def subscription(self) -> Subscription:
        """What the member asks for."""
        return self._subscription

    @property
    def is_over(self) -> bool:
        """Whether there is no membership, and nothing left to lose."""
        is_out = self.state in {MemberState.UNSUBSCRIBED, MemberState.FATAL}
        return is_out and self.step is None and not self.owned

    @property
    def is_silent(self) -> bool:
        """Whether no heartbeat is sent in this state."""
        return self.state in SILENT

    @property
    def is_accepted(self) -> bool:
        """Whether the coordinator has accepted the subscription, in this epoch."""
        return self.epoch > 0 and self._accepted == self._subscription

    @property
    def unresolved(self) -> frozenset[TopicId]:
        """Topics that were assigned and whose names are not known: what is theirs
        waits, and is not reported as owned (E7-82)."""
        if self.state not in IN_GROUP:
            return frozenset()
        return frozenset(each.topic_id for each in self._target) - self.names.keys()

    @property
    def heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while none may be sent."""
        if self._in_flight is not None or self.state in SILENT:
            return None
        if self.state is MemberState.PREPARE_LEAVING and self._is_outside:
            return None
        if self._is_urgent():
            return self._not_before_ms
        return max(self._not_before_ms, self._sent_at_ms + self.interval_ms)

    def named(self, partitions: Iterable[OwnedPartition]) -> frozenset[TopicPartition]:
        """Partitions by the names of their topics, which are known."""
        return frozenset(
            TopicPartition(self.names[each.topic_id], each.partition)
            for each in partitions
        )

    # What the application wants.

    def join(self) -> None:
        """Become a member: a heartbeat is due at once (E7-78)."""
        self._move(MemberState.JOINING)

    def subscribe(self, subscription: Subscription) -> None:
        """Ask for other topics from the next heartbeat on, which is due at once."""
        self._subscription = subscription
        if self.refusal is not None:
            self.refusal = None
            self._not_before_ms = 0

    def take_computation(self) -> bool:
        """Whether the coordinator wants the group's assignment from this member; that
        is told once for each time it says so (E13-02)."""
        asked, self._is_asked_to_compute = self._is_asked_to_compute, False
        return asked and self.epoch > 0

    def hurry(self) -> None:
        """Send a heartbeat at once, to learn the member epoch. It is full: at an epoch
        that is not the last, only who says what it owns is not fenced (E7-31)."""
        self._is_hurried = self._is_full_due = True

    def leave(self, epoch: int | None) -> None:
        """Give everything up, then tell the group: LEAVE_EPOCH for good,
        LEAVE_FOR_A_WHILE_EPOCH for a static member that comes back (E9-13); or, with
        None, let the session time out (KIP-1092)."""
        assert epoch in {LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH, None}
        self._leave_epoch = epoch
        if self.state is MemberState.FENCED or self.state in IN_GROUP:
            self._move(MemberState.PREPARE_LEAVING)
            self._settle()

    def fail(self, error: CoterieError) -> None:
        """End the membership for what cannot pass; what is owned is lost."""
        self._is_outside = True
        if self.state is MemberState.LEAVING:
            self._move(MemberState.UNSUBSCRIBED)
        elif self.state is not MemberState.PREPARE_LEAVING:
            self.failure = error
            self._move(MemberState.FATAL)
        self._settle()

    # Heartbeats.

    def heartbeat(self, now_ms: int, version: int) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that is due. Full after a failure and on joining, otherwise
        with what changed since the last (E7-75, E7-76).

        Raises UnsupportedByBroker when the version has no regular expressions.
        """
        assert self.heartbeat_due_ms is not None, self.state
        leave_epoch = self._leave_epoch if self.state is MemberState.LEAVING else None
        epoch = self.epoch if leave_epoch is None else leave_epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.identity.group_id,
            member_id=self._id_to_send(version),
            member_epoch=epoch,
            instance_id=self.identity.instance_id,
        )
        if leave_epoch is None:
            self._add_changes(request, version)
        self._in_flight = epoch
        self._is_outside = False
        self._is_hurried = False
        self._sent_at_ms = now_ms
        self._settle()
        return request

    def answered(self, answer: ConsumerGroupHeartbeatResponse, now_ms: int) -> bool:
        """Take the answer to the heartbeat in flight.

        True when the coordinator is to be looked up anew (E7-70).
        """
        epoch, self._in_flight = self._in_flight, None
        assert epoch is not None, "an answer to no heartbeat"
        self.heartbeats_answered += 1
        if not answer.error_code:
            self._accept(answer, epoch)
            return False
        code = ErrorCode.read(answer.error_code)
        error = ApiError(code, answer.error_message or code.name)
        self._refused(error, epoch, now_ms)
        self._settle()
        return code in _ELSEWHERE

    def failed(self, now_ms: int) -> None:
        """The heartbeat got no answer, or could not be sent."""
        self._in_flight = None
        self._back_off(now_ms)
        self._settle()

    def learn_names(self, names: Mapping[TopicId, TopicName]) -> None:
        """Take the names of topics, some of which may have been missing."""
        self.names.update(names)
        self._settle()

    # Steps.

    def begin(self) -> Step | None:
        """The next thing for the application to do, if there is one and the last is
        done. It counts as begun: say `finish` when it is done."""
        if self.step is not None:
            return None
        self.step = self._next_step()
        if isinstance(self.step, Assign):
            self.owned |= self.step.partitions
        self._settle()
        return self.step

    def finish(self) -> None:
        """The step that was begun is done: what was given up is not owned any more."""
        step, self.step = self.step, None
        assert step is not None, "no step was begun"
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
        if added := self._resolved_target() - self.owned:
            return Assign(added)
        return None

    def _resolved_target(self) -> Partitions:
        names = self.names
        return frozenset(each for each in self._target if each.topic_id in names)

    # What an answer does.

    def _accept(self, answer: ConsumerGroupHeartbeatResponse, epoch: int) -> None:
        self._failures = 0
        self._not_before_ms = 0
        self.refusal = None
        if epoch < 0:
            self._move(MemberState.UNSUBSCRIBED)
            self.epoch = JOIN_EPOCH
            self._is_outside = True
            return
        if answer.heartbeat_interval_ms > 0:
            self.interval_ms = answer.heartbeat_interval_ms  # E7-53
        self.epoch = answer.member_epoch
        self.member_id = answer.member_id or self.member_id
        self._is_asked_to_compute |= answer.should_compute_assignment
        if self._asked_subscription is not None:
            self._accepted = self._asked_subscription
        if answer.assignment is not None:
            self._aim(answer.assignment, is_first=epoch == JOIN_EPOCH)
        self._settle()

    def _aim(self, assignment: Assignment, *, is_first: bool) -> None:
        target = frozenset(
            OwnedPartition(topic.topic_id, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
        if is_first or target != self._target:
            self._target = target
            self._target_number += 1
            used = {each.topic_id for each in target | self.owned}
            self.names = {key: self.names[key] for key in used & self.names.keys()}

    def _refused(self, error: ApiError, epoch: int, now_ms: int) -> None:
        code = error.code
        if epoch < 0:
            self._leave_refused(code, now_ms)
        elif code in _FENCED or (code is ErrorCode.GROUP_ID_NOT_FOUND and epoch > 0):
            # A group that was deleted meanwhile is joined anew, as if it were empty.
            self._fence()
            if epoch == JOIN_EPOCH:  # known still, until its session is over (E7-33)
                self._back_off(now_ms)
        elif code in _ELSEWHERE and not self._failures:
            self._back_off(now_ms)
            self._not_before_ms = now_ms  # E7-70: at once, when it is found
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

    def _leave_refused(self, code: ErrorCode, now_ms: int) -> None:
        """A leave is tried again only where another coordinator, or the same a moment
        later, would accept it; else the member is out already."""
        if code.retriable:
            self._back_off(now_ms)
        else:
            self._move(MemberState.UNSUBSCRIBED)
            self.epoch = JOIN_EPOCH

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
        """Whether there is an older subscription to go on with (E7-74)."""
        if self._accepted is None or self._accepted == self._subscription:
            return False
        self._subscription = self._accepted
        return True

    def _back_off(self, now_ms: int) -> None:
        self._failures += 1
        self._not_before_ms = now_ms + self._backoff.wait_ms(self._failures)
        self._is_full_due = True

    # What a request says.

    def _id_to_send(self, version: int) -> MemberId:
        """Version 0 has the coordinator make the id (E10-02)."""
        is_unknown = version < _OWN_MEMBER_ID_SINCE and self._accepted is None
        return "" if is_unknown else self.member_id

    def _add_changes(
        self, request: ConsumerGroupHeartbeatRequest, version: int
    ) -> None:
        """Fill in what the coordinator does not know yet; everything, when full."""
        wanted = self._subscription
        if wanted.pattern is not None and version < _REGEX_SINCE:
            raise UnsupportedByBroker(
                "the coordinator speaks ConsumerGroupHeartbeat 0 only, which has no "
                "regular expressions; subscribe by names"
            )
        acknowledgement = self._acknowledgement()
        is_full = self._is_full_due
        self._asked_subscription = None
        if is_full:
            request.rebalance_timeout_ms = self.identity.rebalance_timeout_ms
            request.rack_id = self.identity.rack_id
            request.server_assignor = self.identity.server_assignor
            if self.identity.assignors:
                request.client_assignors = declared(self.identity.assignors)
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
        if self._is_hurried or self.state in _AT_ONCE:
            return True
        if self.state not in IN_GROUP:
            return False
        if self._is_full_due or self._subscription != self._sent_subscription:
            return True
        if self.step is None and self._acknowledgement() != self._sent_acknowledgement:
            return True
        _, reported = self._sent_acknowledgement or (0, frozenset())
        # E7-78: what is free is told at once, what is new when the application has it.
        return bool(reported - self.owned)

    # States.

    def _settle(self) -> None:
        """Go to the state that everything else adds up to."""
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
        is_carried_out = self.step is None and self._next_step() is None
        if not is_carried_out or self.owned != self._target:
            self._move(MemberState.RECONCILING)
            return
        self._settled_number = self._target_number
        if self._acknowledgement() != self._sent_acknowledgement:
            self._move(MemberState.ACKNOWLEDGING)
        else:
            self._move(MemberState.STABLE)

    def _move(self, to: MemberState) -> None:
        self.state = move(self.state, to)


_AT_ONCE: Final = frozenset(
    {MemberState.JOINING, MemberState.ACKNOWLEDGING, MemberState.LEAVING}
)


def _by_topic(partitions: Partitions) -> list[TopicPartitions]:
    """Partitions as a request has them, in order: equal sets are equal bytes."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [
        TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
