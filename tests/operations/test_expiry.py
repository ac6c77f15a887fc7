"""Tests for the event at which the retention time of an offset starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.client.admin.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from coterie.operations.expiry import ExpiryClock, expiry_clock

from .fake_admin import group, member

READER = MemberDescription("m", "m", "/m", subscribed_topics=("t",))
REGEX = replace(READER, subscribed_topics=(), subscribed_topic_regex="t.*")
UNTOLD = replace(READER, subscribed_topics=None)
EMPTY = GroupState.EMPTY
MODERN = GroupType.CONSUMER


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (group("g", state=EMPTY), ExpiryClock.SINCE_EMPTY),
        (group("g", state=EMPTY, protocol_type=""), ExpiryClock.SINCE_COMMIT),
        (group("g", READER), ExpiryClock.STOPPED),
        (
            group("g", replace(READER, subscribed_topics=("u",))),
            ExpiryClock.SINCE_COMMIT,
        ),
        (group("g", UNTOLD), None),
        (group("g", member("m", ("t", 0))), ExpiryClock.STOPPED),
        (
            group("g", UNTOLD, state=GroupState.PREPARING_REBALANCE),
            ExpiryClock.STOPPED,
        ),
        (group("g", UNTOLD, protocol_type="connect"), ExpiryClock.STOPPED),
        (group("g", state=EMPTY, type=MODERN), ExpiryClock.SINCE_COMMIT),
        (group("g", READER, type=MODERN), ExpiryClock.STOPPED),
        (group("g", REGEX, type=MODERN), None),
        (group("g", READER, type=GroupType.SHARE), None),
    ],
)
def test_retention_starts_at_the_documented_event(
    described: GroupDescription, expected: ExpiryClock | None
) -> None:
    assert expiry_clock(described, "t") is expected
