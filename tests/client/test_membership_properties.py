"""Invariants of a member under arbitrary events of coordinator, network and
application."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.client.member_states import (
    IN_GROUP,
    Assign,
    Lose,
    MemberState,
    Partitions,
    Step,
    Subscription,
)
from coterie.client.membership import LEAVE_EPOCH
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.client.membership_script import (
    NAMES,
    OTHER,
    OWN_ID,
    TOPIC,
    MembershipScript,
    listed,
    owned,
)

PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REQUEST_TIMED_OUT,
)
MOVES_MAX = 60


class Play:
    """A member that is checked after each of many arbitrary events.

    `held` contains the partitions that the application uses: from the start of
    on_assigned to the end of on_revoked.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.script = MembershipScript(names={})
        self.member = self.script.member
        self.held: Partitions = frozenset()
        self.step: Step | None = None
        self.request: m.ConsumerGroupHeartbeatRequest | None = None
        self.epoch = 0
        self.member.join()

    def move(self) -> None:
        """Run one possible event."""
        moves: list[Callable[[], None]] = [self.resolve, self.subscribe, self.begin]
        if self.request is not None:
            moves += [self.accept, self.accept, self.refuse, self.lose_response]
        elif self.member.heartbeat_due_ms is not None:
            moves += [self.send] * 4
        if self.step is not None:
            moves.append(self.finish)
        self.random.choice(moves)()
        self.check()

    def send(self) -> None:
        self.request = self.script.sent_later()
        self.check_member(self.request)

    def check_member(self, request: m.ConsumerGroupHeartbeatRequest) -> None:
        """Check the member ID, the partitions and the subscription in a heartbeat."""
        assert request.member_id == OWN_ID
        if request.topic_partitions is not None:
            assert request.topic_partitions == listed(self.held)
        if request.member_epoch == 0:
            assert request.subscribed_topic_names is not None
            assert request.topic_partitions == []

    def accept(self) -> None:
        assert self.request is not None
        epoch = self.request.member_epoch
        if epoch < 0:
            self.script.yes(epoch)
        else:
            self.epoch += self.random.randrange(2) + (epoch == 0)
            is_told = epoch == 0 or self.random.random() < 0.6
            self.script.yes(self.epoch, self.target() if is_told else None)
        self.request = None

    def target(self) -> Partitions:
        everything = sorted(owned(0, 1, 2) | owned(0, 1, topic=OTHER))
        return frozenset(each for each in everything if self.random.random() < 0.5)

    def refuse(self) -> None:
        self.script.no(self.random.choice(PASSING))
        self.request = None

    def lose_response(self) -> None:
        self.member.failed(self.script.now_ms)
        self.request = None

    def resolve(self) -> None:
        known = self.random.choice([TOPIC, OTHER])
        self.member.learn_names({known: NAMES[known]})

    def subscribe(self) -> None:
        topics = self.random.choice([{"a"}, {"a", "b"}, set()])
        self.member.subscribe(Subscription(frozenset(topics)))

    def begin(self) -> None:
        step = self.member.begin()
        if step is None:
            return
        assert self.step is None, "two steps at once"
        self.step = step
        assert step.partitions, "a step for nothing"
        if isinstance(step, Assign):
            assert not step.partitions & self.held, "assigned twice"
            self.held |= step.partitions
        else:
            assert step.partitions <= self.held, "taken from who has it not"
        is_out = self.member.state not in IN_GROUP
        assert is_out or not isinstance(step, Lose)

    def finish(self) -> None:
        assert self.step is not None
        self.member.finish()
        if not isinstance(self.step, Assign):
            self.held -= self.step.partitions
        self.step = None

    def check(self) -> None:
        assert self.member.owned == self.held
        assert self.member.named(self.held) is not None
        if self.member.state is MemberState.STABLE:
            assert self.step is None
            assert not self.member.unresolved

    def run_without_failures(self, target: Partitions) -> None:
        """Run without failures and with a constant target."""
        for _ in range(12):
            if self.request is None and self.member.heartbeat_due_ms is not None:
                self.send()
            if self.request is not None:
                self.epoch += 1
                self.script.yes(self.epoch, target)
                self.request = None
            self.member.learn_names(NAMES)
            if self.step is not None:
                self.finish()
            self.begin()
            self.check()


@pytest.mark.fact("E7-81")
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), moves=st.integers(0, MOVES_MAX))
def test_a_member_never_reports_fewer_partitions_than_its_application_uses(
    seed: int, moves: int
) -> None:
    play = Play(seed)
    for _ in range(moves):
        play.move()


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), moves=st.integers(0, MOVES_MAX))
def test_a_settled_member_owns_and_has_acknowledged_its_target(
    seed: int, moves: int
) -> None:
    play = Play(seed)
    for _ in range(moves):
        play.move()
    target = play.target()
    play.run_without_failures(target)
    assert play.held == target
    assert play.member.state is MemberState.STABLE
    assert play.member.is_accepted


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), moves=st.integers(0, MOVES_MAX))
def test_a_member_that_left_owns_nothing(seed: int, moves: int) -> None:
    play = Play(seed)
    for _ in range(moves):
        play.move()
    play.member.leave(LEAVE_EPOCH)
    for _ in range(MOVES_MAX):
        if play.step is not None:
            play.finish()
        play.begin()
        if play.request is not None:
            play.accept()
        elif play.member.heartbeat_due_ms is not None:
            play.send()
    assert play.member.state is MemberState.UNSUBSCRIBED
    assert play.held == frozenset()
    assert play.member.is_over
