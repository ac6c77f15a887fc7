"""Plays a scenario: a line is something that happens, or something that must be so.

The lines that a scenario may have are `LINES` at the end of this file; tests/scenarios/
README.md tells how they read. Every scenario is played on a whole shard with a clock of
its own, by `GroupDriver`; after every line the state's invariants have been checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator.consumer.member import Member
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.coordinator.offsets.tombstones import DeletedTopic, TopicsDeleted
from coterie.wire.error_codes import ErrorCode
from tests.coordinator.consumer.groups import GroupDriver, told, topic_id
from tests.coordinator.driver import Sent, Topics

TIMEOUT_MS = 10_000


def partitions(text: str) -> dict[str, list[int]]:
    """ "foo 0-2 5, bar 1" as topics and their partitions."""
    found: dict[str, list[int]] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        topic, *numbers = part.split()
        some = found.setdefault(topic, [])
        for number in numbers:
            first, _, last = number.partition("-")
            some += range(int(first), int(last or first) + 1)
    return found


def words(text: str) -> list[str]:
    """ "foo, bar" as a list; "nothing" is empty."""
    if text.strip() == "nothing":
        return []
    return [each.strip() for each in text.split(",")]


@dataclass
class Play:
    """One scenario under way."""

    driver: GroupDriver = field(default_factory=lambda: GroupDriver(topics=Topics({})))
    sent: Sent | None = None
    requests: dict[str, Sent] = field(default_factory=dict)
    """The last request of each classic member; its answer may take its time."""
    instances: dict[str, str] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    answers: dict[tuple[str, int], str] = field(default_factory=dict)
    """What the last answer said of each partition: "= 5", or an error's name."""
    ids: dict[str, str] = field(default_factory=dict)
    """The member ids that the coordinator made, by the names of their members."""
    odd: dict[str, Any] = field(default_factory=dict)
    """What is other than usual in the request that comes."""

    def line(self, text: str) -> None:
        """Play one line."""
        for pattern, act in LINES:
            if (found := re.fullmatch(pattern, text)) is not None:
                act(self, **found.groupdict())
                return
        raise AssertionError(f"nobody knows what this means: {text}")

    # What happens.

    def topics(self, sizes: str, silent: str | None = None) -> None:
        topics, changed, made = self.driver.topics, [], []
        for each in words(sizes):
            name, count = each.split()
            changed.append(name)
            if name not in topics.counts:
                made.append(name)
            topics.counts[name] = int(count)
        topics.version += 1
        if silent is None:
            self.driver.fire(TopicsChanged(changed, made))

    def topic_goes(self, name: str) -> None:
        del self.driver.topics.counts[name]
        self.driver.topics.version += 1
        self.driver.fire(TopicsChanged((name,)))
        self.driver.fire(TopicsDeleted((DeletedTopic(name, topic_id(name)),)))

    def no_news(self) -> None:
        self.driver.fire(TopicsChanged(()))

    def send(self, who: str, epoch: int, **said: Any) -> None:
        said = {**said, **self.odd}
        self.sent = self.driver.heartbeat(said.pop("member_id", who), epoch, **said)

    def joins(
        self,
        who: str,
        topics: str = "nothing",
        regex: str | None = None,
        instance: str | None = None,
        assignor: str | None = None,
    ) -> None:
        said: dict[str, Any] = {"rebalance_timeout_ms": TIMEOUT_MS, "owned": {}}
        if instance is not None:
            self.instances[who] = said["instance_id"] = instance
        said["server_assignor"] = assignor
        said["subscribed_topic_names"] = words(topics)
        said["subscribed_topic_regex"] = regex
        self.send(who, 0, **said)

    def beats(
        self,
        who: str,
        epoch: str,
        instance: str | None = None,
        owned: str | None = None,
        topics: str | None = None,
        regex: str | None = None,
        full: str | None = None,
    ) -> None:
        said: dict[str, Any] = {"instance_id": instance or self.instances.get(who)}
        if topics is not None:
            said["subscribed_topic_names"] = words(topics)
        if regex is not None:
            said["subscribed_topic_regex"] = regex
        if full is not None:
            said["rebalance_timeout_ms"] = TIMEOUT_MS
        said["owned"] = (
            None if owned is None else partitions("" if owned == "nothing" else owned)
        )
        self.send(who, int(epoch), **said)

    def leaves(
        self, who: str, instance: str | None = None, back: str | None = None
    ) -> None:
        epoch = -1 if back is None else -2
        self.send(who, epoch, instance_id=instance or self.instances.get(who))

    def passes(self, seconds: str) -> None:
        self.driver.advance(round(float(seconds) * 1000))

    def restarts(self) -> None:
        """Another shard loads the log."""
        loaded = self.driver.reloaded()
        fresh = GroupDriver(
            shard=loaded.shard,
            settings=self.driver.settings,
            topics=self.driver.topics,
            now_ms=self.driver.now_ms,
            group_id=self.driver.group_id,
        )
        fresh.configs, fresh.scripted = self.driver.configs, self.driver.scripted
        fresh.timers, fresh._due = loaded.timers, loaded._due
        fresh.history, fresh.log = loaded.history, loaded.log
        fresh.origins = loaded.origins
        self.driver = fresh

    # What must be so.

    def answered(self, epoch: str, owns: str | None = None) -> None:
        assert self.sent is not None
        assignment = told(self.sent)
        assert self.sent.response.member_epoch == int(epoch)
        if owns is None:
            assert assignment is None, assignment
        else:
            wanted = {} if owns == "nothing" else partitions(owns)
            assert assignment == wanted, assignment

    def left(self, epoch: str) -> None:
        assert self.sent is not None
        assert not self.sent.error
        assert self.sent.response.member_epoch == int(epoch)

    def refused(self, code: str, saying: str | None = None) -> None:
        expected = ErrorCode[code]
        if self.sent is None:
            assert set(self.codes) == {expected}, self.codes
        else:
            assert self.sent.error == expected, ErrorCode(self.sent.error).name
        if saying is not None:
            assert self.sent is not None
            assert saying in self.sent.response.error_message

    def wrote(self, records: str) -> None:
        wanted = [] if records == "nothing" else records.split()
        assert self.driver.wrote_types == wanted, self.driver.wrote_types

    def group(self, state: str, epoch: str, target: str | None = None) -> None:
        group = self.driver.group
        found = (group.state.value, group.epoch, group.assignment_epoch)
        assert found == (state, int(epoch), int(target or epoch)), found

    def no_group(self) -> None:
        assert self.driver.state.group(self.driver.group_id) is None

    def member(self, who: str, state: str, epoch: str, pending: str | None) -> None:
        member: Member = self.driver.member(self.ids.get(who, who))
        assert member.state.name.startswith(state), member.state
        assert member.epoch == int(epoch), member.epoch
        found = {
            topic.rstrip(b"\0").decode(): sorted(some)
            for topic, some in member.pending_revocation.items()
        }
        assert found == partitions(pending or ""), found

    def members(self, names: str) -> None:
        wanted = sorted(self.ids.get(name, name) for name in words(names))
        group = self.driver.state.group(self.driver.group_id)
        assert group is not None
        assert sorted(group.members) == wanted

    def timer(self, kind: str, who: str, seconds: str | None = None) -> None:
        key = kind, self.driver.group_id, self.ids.get(who, who)
        timer = self.driver.timers.get(key)
        if seconds is None:
            assert timer is None, timer
        else:
            assert timer is not None
            left_ms = timer.fires_at_ms - self.driver.now_ms
            assert left_ms == round(float(seconds) * 1000), left_ms


_WHO = r"(?P<who>[a-z]\w*)"
Act = Callable[..., None]
_SAID_TOPICS = r"(?P<topics>[\w, ]+?)"
_KIND = r"(?P<kind>session|rebalance|join|sync)"
_REGEX = r"/(?P<regex>[^/]*)/"
_AS = r"( as (?P<instance>\w+))?"
LINES: list[tuple[str, Act]] = [
    (
        r"topics? (?P<sizes>\w+ \d+(, \w+ \d+)*)(?P<silent>, and nobody tells)?",
        Play.topics,
    ),
    (r"topic (?P<name>\w+) is deleted", Play.topic_goes),
    (r"the catalog tells that no topic has changed", Play.no_news),
    (
        rf"{_WHO} joins {_SAID_TOPICS}( and {_REGEX})?{_AS}( by (?P<assignor>\w+))?",
        Play.joins,
    ),
    (rf"{_WHO} joins {_REGEX}", Play.joins),
    (
        rf"{_WHO} beats at (?P<epoch>\d+){_AS}(, owns (?P<owned>[\w ,-]+?))?"
        rf"(; wants ({_SAID_TOPICS}|{_REGEX}))?(?P<full>, says all)?",
        Play.beats,
    ),
    (rf"{_WHO} leaves{_AS}(?P<back> to come back)?", Play.leaves),
    (r"(?P<seconds>[\d.]+) s pass", Play.passes),
    (r"the server restarts", Play.restarts),
    (r"-> at (?P<epoch>\d+), nothing new", Play.answered),
    (r"-> at (?P<epoch>\d+), shall own (?P<owns>[\w ,-]+)", Play.answered),
    (r"-> gone with (?P<epoch>-[12])", Play.left),
    (r"-> (?P<code>[A-Z_]+)(, saying (?P<saying>.+))?", Play.refused),
    (r"written: (?P<records>[-\w ]+)", Play.wrote),
    (
        r"the group is (?P<state>\w+) at (?P<epoch>\d+)( with target (?P<target>\d+))?",
        Play.group,
    ),
    (r"there is no group", Play.no_group),
    (
        rf"{_WHO} is (?P<state>[A-Z]+) at (?P<epoch>-?\d+)"
        r"(, has to give up (?P<pending>[\w ,-]+))?",
        Play.member,
    ),
    (r"its members are (?P<names>[\w, ]+)", Play.members),
    (rf"the {_KIND} of {_WHO} ends in (?P<seconds>[\d.]+) s", Play.timer),
    (rf"no {_KIND} of {_WHO} ends", Play.timer),
]


def lines_of(text: str) -> Mapping[str, list[str]]:
    """Scenarios by their title lines, "== H-20 ...", each with its lines."""
    scenarios: dict[str, list[str]] = {}
    lines: list[str] = []
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("== "):
            title = line.removeprefix("== ")
            assert title not in scenarios, f"two scenarios are called {title}"
            lines = scenarios.setdefault(title, [])
        elif line:
            assert scenarios, f"no scenario has begun: {line}"
            lines.append(line)
    return scenarios
