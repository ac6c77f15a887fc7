"""Fixtures of the tests that call request handlers."""

from __future__ import annotations

import pytest

from tests.broker.server.apis.fake_broker import FakeBroker


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker()
