"""Frequent requests do not scan the members of a large group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from tests.broker.coordinator.classic.members import (
    heartbeat,
    join,
    join_request,
    joining_group,
    stable_group,
    sync,
)
from tests.broker.coordinator.driver import Driver


class KeyAccessOnly(dict[str, Any]):
    """A dict with access by key that refuses iteration."""

    def _refuse(self, *_: object) -> NoReturn:
        raise AssertionError("the members were scanned")

    values = items = keys = _refuse

    def __iter__(self) -> Iterator[str]:
        self._refuse()


@pytest.fixture
def driver() -> Driver:
    return Driver(check_purity=False)


def forbid_walks(driver: Driver) -> None:
    group = driver.groups["g"]
    group.members = KeyAccessOnly(group.members)
    group.joins = KeyAccessOnly(group.joins)
    group.syncs = KeyAccessOnly(group.syncs)


def test_a_heartbeat_does_not_scan_the_members(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    forbid_walks(driver)
    assert heartbeat(driver, ids[1]) == 0


def test_the_join_of_a_new_member_scans_no_members(driver: Driver) -> None:
    join(driver)
    forbid_walks(driver)
    assert join(driver).parked


def test_a_rejoin_in_the_join_phase_scans_no_members(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    join(driver)
    forbid_walks(driver)
    assert join(driver, ids[1]).parked


def test_assigning_an_id_to_a_pending_member_scans_no_members(driver: Driver) -> None:
    stable_group(driver, 3)
    forbid_walks(driver)
    assert driver.send(join_request()).error == 79


def test_a_followers_sync_scans_no_members(driver: Driver) -> None:
    ids = joining_group(driver, 3)
    forbid_walks(driver)
    assert sync(driver, ids[1]).parked


def test_a_sync_of_a_stable_group_scans_no_members(driver: Driver) -> None:
    ids = stable_group(driver, 3)
    forbid_walks(driver)
    assert sync(driver, ids[1]).error == 0


def test_a_large_group_forms_and_syncs_in_one_generation(driver: Driver) -> None:
    ids = stable_group(driver, 500)
    assert len(driver.groups["g"].members) == 500
    assert driver.groups["g"].members[ids[-1]].assignment == ids[-1].upper().encode()
