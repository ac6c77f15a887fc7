"""The lines of scenarios about what a group lives in: settings, several groups, its
assignor, a log that is lost or wrong, and requests that nobody can mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pytest

from coterie.catalog.group_configs import GroupConfigs
from coterie.coordinator.consumer.group import Refresh
from coterie.coordinator.consumer.member import MemberState
from coterie.coordinator.consumer.records import current_record
from coterie.coordinator.result import Origin
from coterie.settings import Settings
from coterie.wire.messages.consumer_group_heartbeat import TopicPartitions
from tests.coordinator.consumer.groups import topic_id
from tests.scenarios.play import _WHO, Act, Play, partitions, words

ODD: Final[Mapping[str, dict[str, Any]]] = {
    "in a group without a name": {"group_id": ""},
    "as an instance without a name": {"instance_id": "  "},
    "as no instance": {"instance_id": None},
    "in a rack without a name": {"rack_id": "  "},
    "without an id": {"member_id": ""},
    "without a timeout": {"rebalance_timeout_ms": -1},
    "without topics": {"subscribed_topic_names": None},
    "without a word on what it owns": {"topic_partitions": None},
    "of another protocol type": {"protocol_type": "connect"},
    "with a session of a second": {"session_timeout_ms": 1_000},
    "owning something already": {
        "topic_partitions": [TopicPartitions(topic_id=topic_id("foo"), partitions=[0])]
    },
}
"""How a request may be odd, and what that says on the wire."""


def oddly(play: Play, line: str, how: str) -> None:
    assert how in ODD, f"nobody knows how this is odd: {how}"
    play.odd = ODD[how]
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


def assignor_gives(play: Play, shares: str) -> None:
    given = {}
    for each in shares.split("; "):
        who, share = each.split(" ", 1)
        given[play.ids.get(who, who)] = {} if share == "nothing" else partitions(share)
    play.driver.assigns(given)


def assignor_fails(play: Play) -> None:
    def fail(spec: object) -> None:
        raise RuntimeError("no")

    play.driver.assigns(fail)


def is_lost(play: Play) -> None:
    """The write fails, so the server loads what it had written before."""
    kept = len(play.driver.history) - len(play.driver.results[-1].records)
    del play.driver.history[kept:]
    play.restarts()


def is_a_bug(play: Play, who: str, owns: str) -> None:
    """The log gives a member what another one holds at the same epoch."""
    member = play.driver.member(who)
    held = {
        topic_id(topic): dict.fromkeys(some, member.epoch)
        for topic, some in partitions(owns).items()
    }
    record = current_record(play.driver.group_id, replace(member, assigned=held))
    with pytest.raises(AssertionError, match="still held"):
        play.driver.shard.replay(record, Origin(0, 0))


def is_unknown(play: Play, who: str) -> None:
    member = replace(play.driver.member(who), state=MemberState.UNKNOWN)
    driver = play.driver
    driver._keep(current_record(driver.group_id, member), Origin(0, driver.now_ms))


# What must be so.


def beats_every(play: Play, seconds: str) -> None:
    assert play.sent is not None
    assert play.sent.response.heartbeat_interval_ms == int(seconds) * 1000


def is_read(play: Play, topic: str, groups: str) -> None:
    found = play.driver.state.topic_index.groups(topic)
    assert sorted(found) == ([] if groups == "nobody" else words(groups)), found


def looks(play: Play, group: str, no: str | None) -> None:
    refresh = play.driver.state.consumer_groups[group].refresh
    assert (refresh == Refresh()) is (no is None), refresh


LINES: list[tuple[str, Act]] = [
    (r"(?P<line>.+), but (?P<how>.+)", oddly),
    (r"the server's (?P<setting>[a-z.]+) is (?P<value>\S+)", server_is),
    (r"the group's (?P<config>[a-z.]+) is (?P<value>\d+)", group_is),
    (r"in group (?P<group>\w+)", in_group),
    (r"the assignor gives (?P<shares>[\w ,;-]+)", assignor_gives),
    (r"the assignor fails", assignor_fails),
    (r"what that wrote is lost", is_lost),
    (rf"a log in which {_WHO} owns (?P<owns>[\w ,-]+) as well is a bug", is_a_bug),
    (rf"a later version wrote that {_WHO} is in a state of its own", is_unknown),
    (r"-> to be heard of every (?P<seconds>\d+) s", beats_every),
    (r"(?P<topic>\w+) is read by (?P<groups>[\w, ]+)", is_read),
    (
        r"group (?P<group>\w+) (?P<no>need not )?looks? at its topics at the next beat",
        looks,
    ),
]
"""As `play.LINES`."""
