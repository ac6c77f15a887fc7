"""The rule that no member is removed before its session ends."""

from __future__ import annotations

from random import Random

import pytest

from coterie.settings import Settings
from coterie.wire import messages as m
from sim.clock import Clock
from sim.configs import Configs, GroupConfig
from sim.ownership import Ownership, _Term
from sim.topics import Topics

KEY = ("g", "m")
HEARTBEAT = m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.began_ms = self.clock.now_ms
        self.configs = Configs(Settings())
        self.rules = Ownership(self.clock, Topics(Random(1)), self.configs)
        self.rules._terms[KEY] = _Term(self.began_ms + 8_000)
        self.set_timeout(8_000)

    def set_timeout(self, session_timeout_ms: int) -> None:
        config = GroupConfig(session_timeout_ms=session_timeout_ms)
        self.configs.change("g", config)

    @property
    def ends_ms(self) -> int:
        return self.rules._terms[KEY].session_ends_ms - self.began_ms


@pytest.fixture
def world() -> World:
    return World()


def test_an_accepted_heartbeat_gives_a_whole_session(world: World) -> None:
    world.clock.now_ms += 1_000
    accepted = world.rules.heartbeat_received(HEARTBEAT)
    assert world.ends_ms == 8_000, "its response may be lost"
    accepted()
    assert world.ends_ms == 9_000


def test_an_earlier_heartbeat_is_accepted_after_a_shorter_session_began(
    world: World,
) -> None:
    """Seed 1131 of the gateway: the acceptance of the first one ended the session of
    the second one later than the server does."""
    world.clock.now_ms += 1_000
    first = world.rules.heartbeat_received(HEARTBEAT)
    world.set_timeout(6_000)
    world.clock.now_ms += 500
    second = world.rules.heartbeat_received(HEARTBEAT)
    assert world.ends_ms == 7_500
    first()
    assert world.ends_ms == 7_500
    second()
    assert world.ends_ms == 7_500


def test_acceptances_in_another_order_keep_the_newest(world: World) -> None:
    first = world.rules.heartbeat_received(HEARTBEAT)
    world.clock.now_ms += 500
    second = world.rules.heartbeat_received(HEARTBEAT)
    second()
    first()
    assert world.ends_ms == 8_500
