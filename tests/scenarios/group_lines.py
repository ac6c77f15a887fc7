"""Lines of scenarios about settings, several groups, the assignor, and logs.

The suffix ", but ..." of a line changes fields of its request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pytest

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.consumer.group import Refresh
from coterie.broker.coordinator.consumer.member import MemberState
from coterie.broker.coordinator.consumer.record_builders import current_record
from coterie.broker.coordinator.result import Origin
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.coordinator.requests import topic_id
from tests.scenarios.play import _WHO, Act, Play, partitions, words

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
    name = setting.replace(".", "_")
    kinds = {each.name: each.type for each in fields(Settings)}
    known: Any = {"int": int, "bool": lambda text: text == "true"}
    changed = {name: known.get(kinds[name], str)(value)}
    driver = play.driver
    driver.settings = replace(driver.settings, **changed)
    driver.shard.settings = driver.settings
    driver.configs = GroupConfigs(driver.settings)


def group_is(play: Play, config: str, value: str) -> None:
    driver = play.driver
    entry = driver.configs.alter(driver.group_id, {config: value})
    driver.configs.replay(entry.name, entry.value)


def in_group(play: Play, group: str) -> None:
    play.driver.group_id = group


def assignor_returns(play: Play, shares: str) -> None:
    given = {}
    for each in shares.split("; "):
        who, share = each.split(" ", 1)
        given[play.ids.get(who, who)] = {} if share == "nothing" else partitions(share)
    play.driver.assigns(given)


def assignor_fails(play: Play) -> None:
    def fail(spec: object) -> None:
        raise RuntimeError("no")

    play.driver.assigns(fail)


def write_fails(play: Play) -> None:
    """Drop the records of the last step as not written, and reload the shard."""
    kept = len(play.driver.history) - len(play.driver.results[-1].records)
    del play.driver.history[kept:]
    play.restarts()


def is_corrupt(play: Play, who: str, owns: str) -> None:
    """Assert that replaying a second owner of these partitions fails."""
    member = play.driver.member(who)
    held = {
        topic_id(topic): dict.fromkeys(some, member.epoch)
        for topic, some in partitions(owns).items()
    }
    record = current_record(play.driver.group_id, member._replace(assigned=held))
    with pytest.raises(AssertionError, match="still owned"):
        play.driver.shard.replay(record, Origin(0, 0))


def is_unknown(play: Play, who: str) -> None:
    member = play.driver.member(who)._replace(state=MemberState.UNKNOWN)
    driver = play.driver
    driver._keep(current_record(driver.group_id, member), Origin(0, driver.now_ms))


# Expectations.


def has_interval(play: Play, seconds: str) -> None:
    assert play.sent is not None
    assert play.sent.response.heartbeat_interval_ms == int(seconds) * 1000


def is_subscribed(play: Play, topic: str, groups: str) -> None:
    found = play.driver.state.topic_index.groups(topic)
    assert sorted(found) == ([] if groups == "no group" else words(groups)), found


def refreshes(play: Play, group: str, no: str | None) -> None:
    refresh = play.driver.state.consumer_groups[group].refresh
    assert (refresh == Refresh()) is (no is None), refresh


LINES: list[tuple[str, Act]] = [
    (r"(?P<line>.+), but (?P<how>.+)", with_changed_fields),
    (r"the server's (?P<setting>[a-z.]+) is (?P<value>\S+)", server_is),
    (r"the group's (?P<config>[a-z.]+) is (?P<value>\d+)", group_is),
    (r"in group (?P<group>\w+)", in_group),
    (r"the assignor returns (?P<shares>[\w ,;-]+)", assignor_returns),
    (r"the assignor fails", assignor_fails),
    (r"that write fails", write_fails),
    (rf"a log that also assigns (?P<owns>[\w ,-]+) to {_WHO} is corrupt", is_corrupt),
    (rf"a later version wrote an unknown state of {_WHO}", is_unknown),
    (r"-> heartbeat interval (?P<seconds>\d+) s", has_interval),
    (r"(?P<topic>\w+) is subscribed to by (?P<groups>[\w, ]+)", is_subscribed),
    (
        r"group (?P<group>\w+) (?P<no>does not )?refresh(es)? its topics at the next "
        r"heartbeat",
        refreshes,
    ),
]
"""Lines in the form of `play.LINES`."""
