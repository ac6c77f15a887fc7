"""Group configurations, and their effect on the members of the group (E21-08)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.coordinator.consumer.groups import AT_ONCE, GroupDriver

SESSION = ("session", "g", "m")


def configure(driver: GroupDriver, **changes: int | None) -> None:
    """Set configurations of group g, for example `session_timeout_ms=50_000`."""
    named = {
        f"consumer.{key.replace('_', '.')}": None if value is None else str(value)
        for key, value in changes.items()
    }
    entry = driver.configs.alter("g", named)
    driver.configs.replay(entry.name, entry.value)


@pytest.mark.fact("H-66b", "E8-01", "E21-08a")
def test_a_changed_session_timeout_applies_to_the_next_timer() -> None:
    driver = GroupDriver(
        settings=replace(AT_ONCE, group_consumer_session_timeout_ms=50_000)
    )
    driver.join("m")
    started_ms = driver.now_ms
    configure(driver, session_timeout_ms=45_000)
    driver.advance(10_000)
    assert driver.timers[SESSION].fires_at_ms == started_ms + 50_000
    driver.heartbeat("m", 1)
    assert driver.timers[SESSION].fires_at_ms == started_ms + 10_000 + 45_000
    driver.advance(44_999)
    assert "m" in driver.group.members
    driver.advance(1)
    assert not driver.group.members


def test_the_groups_assignment_interval_delays_the_next_target() -> None:
    driver = GroupDriver()
    configure(driver, assignment_interval_ms=2_000)
    driver.join("m")
    driver.join("n")
    assert driver.group.assignment_epoch == 1
    driver.advance(2_000)
    driver.heartbeat("m", 1)
    assert driver.group.assignment_epoch == driver.group.epoch == 2
