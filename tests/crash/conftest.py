"""The stores that the crash tests run with: COTERIE_TEST_STORES, by default all."""

from __future__ import annotations

import os

import pytest

from coterie.broker.log.stores import STORES

_NAMES = os.environ.get("COTERIE_TEST_STORES", ",".join(STORES)).split(",")


@pytest.fixture(params=_NAMES)
def store(request: pytest.FixtureRequest) -> str:
    """Return a value of the setting `log.store`."""
    name: str = request.param
    return name
