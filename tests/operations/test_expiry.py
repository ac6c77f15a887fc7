"""Tests for the event at which the retention time of an offset starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from coterie.client.admin.configs import (
    ConfigEntry,
    ConfigResource,
)
from coterie.client.admin.groups import (
    ClusterDescription,
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.client.admin.results import Results
from coterie.errors import ConnectionLost
from coterie.operations.expiry import (
    SETTING,
    ExpiryClock,
    expiry_clock,
    offsets_retention_ms,
)
from coterie.wire.configs import ConfigResourceType, ConfigSource

from .fake_admin import FakeAdmin, group, member

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


class ConfigAdmin(FakeAdmin):
    """A fake admin client of three brokers with a setting."""

    def __init__(self, values: dict[str, str | None] | None) -> None:
        super().__init__()
        self.values = values
        self.asked: list[ConfigResource] = []

    async def describe_cluster(self) -> ClusterDescription:
        nodes = tuple(Node(number, "broker", 9092) for number in (4, 5, 6))
        return ClusterDescription("c", 4, nodes)

    async def describe_configs(
        self, resources: Iterable[ConfigResource], **_: Any
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        self.asked += resources
        if self.values is None:
            raise ConnectionLost("broker 4 hung up")
        entries = tuple(
            ConfigEntry(name, value, ConfigSource.DEFAULT)
            for name, value in self.values.items()
        )
        return Results(dict.fromkeys(self.asked, entries))


@pytest.mark.parametrize(
    ("values", "retention_ms"),
    [
        ({"log.dirs": "7", SETTING: "3"}, 180_000),
        ({"log.dirs": "7"}, None),
        ({SETTING: None}, None),
        (None, None),
    ],
)
def test_the_retention_time_is_a_setting_of_one_broker(
    values: dict[str, str | None] | None, retention_ms: int | None
) -> None:
    admin = ConfigAdmin(values)
    assert asyncio.run(offsets_retention_ms(admin)) == retention_ms
    assert admin.asked == [ConfigResource(ConfigResourceType.BROKER, "4")]
