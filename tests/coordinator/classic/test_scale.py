"""What may not walk the members of a group, does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from tests.coordinator.classic.members import (
    heartbeat,
    join,
    join_request,
    joining_group,
    stable_group,
    sync,
)
from tests.coordinator.driver import Driver


class Unwalkable(dict[str, Any]):
    """A dict that only answers for one key at a time."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("the members were walked")

    values = items = keys = _refuse

    def __iter__(self) -> Iterator[str]:
        self._refuse()


@pytest.fixture
def driver() -> Driver:
    return Driver(check_purity=False)


def forbid_walks(driver: Driver) -> None:
    group = driver.groups["g"]
    group.members = Unwalkable(group.members)
    group.joins = Unwalkable(group.joins)
    group.syncs = Unwalkable(group.syncs)


def test_a_heartbeat_walks_nothing(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    forbid_walks(driver)
    assert heartbeat(driver, ids[1]) == 0


def test_a_new_member_in_the_join_phase_walks_nothing(driver: Driver) -> None:
    join(driver)
    forbid_walks(driver)
    assert join(driver).parked


def test_a_member_that_rejoins_in_the_join_phase_walks_nothing(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    join(driver)
    forbid_walks(driver)
    assert join(driver, ids[1]).parked


def test_a_pending_member_walks_nothing(driver: Driver) -> None:
    stable_group(driver, 3)
    forbid_walks(driver)
    assert driver.send(join_request()).error == 79


def test_a_followers_sync_walks_nothing(driver: Driver) -> None:
    ids = joining_group(driver, 3)
    forbid_walks(driver)
    assert sync(driver, ids[1]).parked


def test_a_sync_of_a_stable_group_walks_nothing(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    forbid_walks(driver)
    assert sync(driver, ids[1]).error == 0


def test_a_large_group_forms_and_shares_at_once(driver: Driver) -> None:
    ids = stable_group(driver, 500)
    assert len(driver.groups["g"].members) == 500
    assert driver.groups["g"].members[ids[-1]].assignment == ids[-1].upper().encode()
