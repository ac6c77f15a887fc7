"""Lines of scenarios about settings and several groups.

The suffix ", but ..." of a line changes fields of its request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from coterie.wire import messages as m
from tests.broker.coordinator.requests import topic_id
from tests.scenarios.play import NEEDS, Act, Play
from tests.scenarios.players import KIT, Need

CHANGED_FIELDS: Final[Mapping[str, dict[str, Any]]] = {
    "with an empty group id": {"group_id": ""},
    "with a blank instance id": {"instance_id": "  "},
    "without an instance id": {"instance_id": None},
    "with a blank rack id": {"rack_id": "  "},
    "without a member id": {"member_id": ""},
    "without a rebalance timeout": {"rebalance_timeout_ms": -1},
    "without topics": {"subscribed_topic_names": None},
    "without owned partitions": {"topic_partitions": None},
    "with another protocol type": {"protocol_type": "connect"},
    "with a session timeout of 1 s": {"session_timeout_ms": 1_000},
    "with an owned partition": {
        "topic_partitions": [
            m.TopicPartitions(topic_id=topic_id("foo"), partitions=[0])
        ]
    },
}
"""The changed fields of an unusual request, by their description."""


def with_changed_fields(play: Play, line: str, how: str) -> None:
    assert how in CHANGED_FIELDS, f"unknown change: {how}"
    play.odd = CHANGED_FIELDS[how]
    play.line(line)
    play.odd = {}


def server_is(play: Play, setting: str, value: str) -> None:
    play.driver.configure_server(setting, value)


def group_is(play: Play, config: str, value: str) -> None:
    play.driver.configure_group(config, value)


def in_group(play: Play, group: str) -> None:
    play.driver.group_id = group


# Expectations.


def has_interval(play: Play, seconds: str) -> None:
    assert play.sent is not None
    assert play.sent.response.heartbeat_interval_ms == int(seconds) * 1000


LINES: list[tuple[str, Act]] = [
    (r"(?P<line>.+), but (?P<how>.+)", with_changed_fields),
    (r"the server's (?P<setting>[a-z.]+) is (?P<value>\S+)", server_is),
    (r"the group's (?P<config>[a-z.]+) is (?P<value>\d+)", group_is),
    (r"in group (?P<group>\w+)", in_group),
    (r"-> heartbeat interval (?P<seconds>\d+) s", has_interval),
]
"""Lines in the form of `play.LINES`."""
NEEDS[server_is] = Need(KIT, "a setting of the server")
