"""Execution of every scenario in this folder, marked with the facts in its title.

Each is played on a shard and on our server over TCP. `make interop` plays it on Apache
Kafka: tests/interop/exchanges/test_scenarios.py.
"""

from __future__ import annotations

import pytest

from coterie.testing import Kafka
from tests.scenarios.files import SCENARIOS, is_for, parameters_of
from tests.scenarios.play import Play, Scenario, needs_of
from tests.scenarios.players import KIT, SHARD
from tests.scenarios.shard import ShardPlayer
from tests.scenarios.wire import WirePlayer

SERVER = {
    # All members of a classic group join before the player moves the clock.
    "group.initial.rebalance.delay.ms": 3_000,
    "group.consumer.assignment.interval.ms": 0,
    "group.share.assignment.interval.ms": 0,
}


@pytest.mark.parametrize("scenario", parameters_of(SCENARIOS))
def test_scenario(scenario: Scenario) -> None:
    scenario.play(Play(ShardPlayer()))


@pytest.mark.parametrize("scenario", parameters_of(is_for(KIT)))
def test_scenario_on_the_server(scenario: Scenario) -> None:
    with Kafka(settings={**SERVER, **scenario.settings}) as kafka:
        player = WirePlayer(kafka.bootstrap_servers, kafka)
        try:
            scenario.play(Play(player))
        finally:
            player.close()


@pytest.mark.parametrize("scenario", parameters_of(SCENARIOS))
def test_a_scenario_names_what_its_players_need(scenario: Scenario) -> None:
    needs = needs_of(scenario)
    if any(need.players == SHARD for need in needs):
        needs = {need for need in needs if need.players == SHARD}
    assert (scenario.only in needs) if needs else scenario.only is None, needs


def test_an_unknown_line_fails() -> None:
    with pytest.raises(AssertionError, match="unknown line"):
        Play(ShardPlayer()).line("m dances")


def test_an_expectation_that_does_not_hold_fails() -> None:
    play = Play(ShardPlayer())
    play.line("topics foo 2")
    play.line("m joins foo")
    play.line("-> at 1, assigned foo 0-1")
    with pytest.raises(AssertionError):
        play.line("-> at 1, assigned foo 0")
    with pytest.raises(AssertionError):
        play.line("the group is Stable at 2")
