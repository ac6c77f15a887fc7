"""Scenarios on Apache Kafka; tests/scenarios plays them on our own server."""

from __future__ import annotations

import pytest

from tests.interop.exchanges.conftest import KAFKA_ONLY
from tests.scenarios.files import SCENARIOS, parameters_of
from tests.scenarios.play import Play, Scenario
from tests.scenarios.wire import WirePlayer

ON_KAFKA = {
    name: scenario
    for name, scenario in SCENARIOS.items()
    if scenario.only is None and not scenario.not_on_kafka
}


@pytest.mark.parametrize("broker", KAFKA_ONLY, indirect=True)
@pytest.mark.parametrize("scenario", parameters_of(ON_KAFKA))
def test_scenario(scenario: Scenario, ready: str) -> None:
    player = WirePlayer(ready)
    try:
        scenario.play(Play(player), on_kafka=True)
    finally:
        player.close()
