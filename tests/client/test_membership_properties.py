"""Whatever coordinator, network and application do, a member keeps its promises."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.client.member_states import IN_GROUP, MemberState
from coterie.client.member_values import Assign, Lose, Partitions, Step, Subscription
from coterie.client.membership import LEAVE_EPOCH
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.script import NAMES, OTHER, OWN_ID, TOPIC, Script, listed, owned

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
    """A member in a world that does anything; it is judged at each move.

    `held` is what the application has: from when it is told to start, until it has
    said that it stopped.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.script = Script(names={})
        self.member = self.script.member
        self.held: Partitions = frozenset()
        self.step: Step | None = None
        self.request: ConsumerGroupHeartbeatRequest | None = None
        self.epoch = 0
        self.member.join()

    def move(self) -> None:
        """One thing that may happen now, happens."""
        moves: list[Callable[[], None]] = [self.resolve, self.subscribe, self.begin]
        if self.request is not None:
            moves += [self.accept, self.accept, self.refuse, self.lose_answer]
        elif self.member.heartbeat_due_ms is not None:
            moves += [self.send] * 4
        if self.step is not None:
            moves.append(self.finish)
        self.random.choice(moves)()
        self.check()

    def send(self) -> None:
        self.request = self.script.sent_later()
        self.judge(self.request)

    def judge(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """What it says about itself is true, and complete where it must be."""
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

    def lose_answer(self) -> None:
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

    def calm_down(self, target: Partitions) -> None:
        """Nothing goes wrong any more, and the target stays."""
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
def test_a_member_never_reports_less_than_its_application_has(
    seed: int, moves: int
) -> None:
    play = Play(seed)
    for _ in range(moves):
        play.move()


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), moves=st.integers(0, MOVES_MAX))
def test_once_all_is_calm_a_member_owns_its_target_and_has_said_so(
    seed: int, moves: int
) -> None:
    play = Play(seed)
    for _ in range(moves):
        play.move()
    target = play.target()
    play.calm_down(target)
    assert play.held == target
    assert play.member.state is MemberState.STABLE
    assert play.member.is_accepted


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), moves=st.integers(0, MOVES_MAX))
def test_a_member_that_leaves_ends_with_nothing(seed: int, moves: int) -> None:
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
