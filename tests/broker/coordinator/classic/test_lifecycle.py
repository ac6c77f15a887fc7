from __future__ import annotations

import pytest

from tests.broker.coordinator.classic.members import (
    SESSION_MS,
    heartbeat,
    stable_group,
)
from tests.broker.coordinator.driver import Driver


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.mark.fact("E19-17")
def test_loaded_members_start_a_full_session(driver: Driver) -> None:
    ids = stable_group(driver)
    driver.advance(SESSION_MS - 1)
    loaded = driver.reload()
    loaded.advance(SESSION_MS - 1)
    assert heartbeat(loaded, ids[0]) == 0
    loaded.advance(1)
    assert list(loaded.groups["g"].members) == [ids[0]]
