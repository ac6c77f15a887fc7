"""What becomes of groups: a scenario is a script over the life of one group.

Each group reads a topic of its own, so that what happens to one is the doing of its own
script; `growth` and `recreated` change that topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from coterie.coordinator.describe.delete_groups import DeleteGroup
from coterie.pipeline.generator.classic_group import ClassicGroup
from coterie.pipeline.generator.consumer_group import ConsumerGroup
from coterie.pipeline.generator.group import Commits, Group
from coterie.pipeline.generator.mixed_group import MixedGroup
from coterie.pipeline.generator.topics import Topic
from coterie.pipeline.generator.truth import Part
from coterie.pipeline.generator.world import Script, World
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.record_batch import Producer

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
_FEWEST_MS: Final = 1_000
_STORM_REBALANCES: Final = 6
_ABORTED_ONE_IN: Final = 5


class Life:
    """One group, its topic, how long it is to last and how much it is to commit."""

    def __init__(
        self, world: World, group_id: str, quota: int, end_ms: int, scenario: str
    ) -> None:
        self.world = world
        self.rng = world.rng
        self.group_id = group_id
        self.quota = quota
        self.end_ms = end_ms
        self.scenario = scenario
        partitions = self.rng.choice((3, 4, 6, 12))
        self.topic = self.make_topic(f"{group_id}.events", partitions)
        self.extra = self.make_topic(f"{group_id}.extra", 2)
        self.commits = Commits(world, group_id)
        self.group: Group | None = None
        self.is_static = "static" in scenario or self.rng.random() < 0.2
        self.producer: Producer | None = None
        self.is_over = False
        self._transactions = 0

    def make_topic(self, name: str, partitions: int) -> Topic:
        """Make a topic that the group reads."""
        return self.world.topics.create(name, partitions, self.world.now_ms)

    @property
    def left_ms(self) -> int:
        """How long it still lasts."""
        return max(0, self.end_ms - self.world.now_ms)

    def a_while(self, parts: int = 10) -> int:
        """Some part of the time that is left."""
        most = max(_FEWEST_MS, self.left_ms // parts)
        return self.rng.randint(most // 2, most)

    def begin(self, kind: type[Group] | None = None, members: int = 0) -> Script:
        """The group gets its first members."""
        classes = (ConsumerGroup, ClassicGroup)
        chosen = kind or self.rng.choice(classes)
        self.group = chosen(self.world, self.group_id, [self.topic.name])
        count = members or self.rng.randint(2, 5)
        yield from self.group.join(count, static=self.is_static)

    def work(self) -> Script:
        """Commit evenly until the quota or the life ends."""
        rounds = max(1, self.quota // self.topic.partitions)
        pause_ms = max(_FEWEST_MS, self.left_ms // rounds)
        wait_ms = _FEWEST_MS
        while not self.is_over and self.commits.written < self.quota:
            yield wait_ms
            wait_ms = self.rng.randint(pause_ms // 2, pause_ms * 3 // 2)
            group = self.group
            if group is None or group.is_busy:
                continue
            for member in list(group.members):
                known = self.world.topics
                parts = [
                    part
                    for part in sorted(member.owned)
                    if known.topic_name(bytes.fromhex(part.topic_id))
                ]
                if self.producer is None:
                    self.commits.commit(parts, member.member_id)
                elif parts:
                    yield from self._transact(parts, member.member_id)
                    break

    def _transact(self, parts: list[Part], member_id: str) -> Script:
        producer = self.producer
        assert producer is not None
        self._transactions += 1
        commit = self._transactions % _ABORTED_ONE_IN != 2
        outcome = "committed" if commit else "aborted"
        self.commits.commit(parts, member_id, producer, outcome=outcome)
        yield self.rng.randint(5, 200)
        self.world.end_transaction(self.group_id, producer, commit=commit)

    def end(self) -> Script:
        """All members leave."""
        self.is_over = True
        assert self.group is not None
        if self.group.members:
            yield from self.group.leave(len(self.group.members))


Scenario: TypeAlias = Callable[[Life], Script]


def steady(life: Life) -> Script:
    """Members come and go now and then; one crashes."""
    yield from life.begin()
    group = life.group
    assert group is not None
    while life.left_ms > HOUR_MS:
        yield life.a_while(4)
        choice = life.rng.random()
        if choice < 0.4 or len(group.members) < 2:
            yield from group.join()
        elif choice < 0.7:
            yield from group.leave()
        else:
            yield from group.crash()


def static(life: Life) -> Script:
    """Static members are restarted, one after the other."""
    yield from life.begin()
    assert life.group is not None
    for _ in range(3):
        yield life.a_while()
        yield from life.group.restart()


def storm(life: Life) -> Script:
    """Rebalance upon rebalance within minutes, then quiet."""
    yield from life.begin()
    group = life.group
    assert group is not None
    yield life.a_while(2)
    group.storm = 1
    for _ in range(_STORM_REBALANCES):
        yield from group.join()
        yield life.rng.randint(5_000, 20_000)
        yield from group.leave()
        yield life.rng.randint(5_000, 20_000)
    group.storm = None


def crash_loop(life: Life) -> Script:
    """One process comes, crashes, and comes again."""
    yield from life.begin()
    assert life.group is not None
    yield life.a_while()
    crashed = None
    for _ in range(5):
        yield from life.group.join(again=crashed)
        yield life.rng.randint(20_000, 60_000)
        crashed = life.group.members[-1]
        yield from life.group.crash()


def subscription(life: Life) -> Script:
    """The members want one more topic, and later not."""
    yield from life.begin()
    assert life.group is not None
    yield life.a_while(3)
    yield from life.group.subscribe([life.topic.name, life.extra.name])
    yield life.a_while(3)
    yield from life.group.subscribe([life.topic.name])


def growth(life: Life) -> Script:
    """The topic gets more partitions."""
    yield from life.begin()
    assert life.group is not None
    yield life.a_while(2)
    life.world.topics.grow(life.topic.name, 2)
    life.world.topics_changed(life.topic)
    yield from life.group.see_topics()


def recreated(life: Life) -> Script:
    """The topic is deleted and comes back with another id."""
    yield from life.begin()
    world, group = life.world, life.group
    assert group is not None
    yield life.a_while(2)
    gone = world.topics.delete(life.topic.name)
    _tell_topic(world, gone, world.now_ms)
    world.topic_deleted(gone)
    yield from group.see_topics()
    yield life.rng.randint(60_000, HOUR_MS)
    life.topic = life.make_topic(gone.name, gone.partitions)
    world.topics_changed(life.topic, created=True)
    yield from group.see_topics()


def regex(life: Life) -> Script:
    """The members subscribe by a regular expression too."""
    group = ConsumerGroup(life.world, life.group_id, [life.topic.name])
    group.regex = f"{life.group_id}\\.ex.*"
    life.group = group
    yield from group.join(2)


def reset(life: Life) -> Script:
    """The group stops, is set back, goes on, and later skips to the end."""
    yield from life.begin()
    group = life.group
    assert group is not None
    for kind in ("rewind", "skip"):
        yield life.a_while(3)
        count = len(group.members)
        yield from group.leave(count)
        yield life.rng.randint(10_000, 600_000)
        parts = [life.topic.part(each) for each in range(life.topic.partitions)]
        life.commits.commit(parts, None, reset=kind)
        yield life.rng.randint(1_000, 60_000)
        yield from group.join(count, static=life.is_static)


def transactional(life: Life) -> Script:
    """Commits are parts of transactions; the last one stays open."""
    life.producer = Producer(life.rng.randint(1_000, 2**31), 0, 0)
    yield from life.begin(members=1)
    yield max(_FEWEST_MS, life.left_ms - 60_000)
    life.is_over = True
    yield 1_000
    assert life.group is not None
    [member] = life.group.members
    life.commits.commit(
        sorted(member.owned), member.member_id, life.producer, outcome="open"
    )


def monthly(life: Life) -> Script:
    """A job that runs for an hour, and again a long time later."""
    yield from life.begin(members=1)
    group = life.group
    assert group is not None
    while True:
        yield HOUR_MS
        yield from group.leave(1)
        yield max(DAY_MS, life.left_ms // 2)
        yield from group.join(1)


def stale(life: Life) -> Script:
    """All members leave early; the offsets stay until they expire."""
    yield from life.begin()
    yield life.a_while(5)
    yield from life.end()


def deleted(life: Life) -> Script:
    """Offsets of one topic are deleted, and later the whole group."""
    yield from life.begin()
    yield life.a_while(2)
    yield from life.end()
    yield life.rng.randint(60_000, HOUR_MS)
    partition = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name=life.topic.name, partitions=[partition])
    request = OffsetDeleteRequest(group_id=life.group_id, topics=[topic])
    life.world.send(life.group_id, request)
    yield life.rng.randint(60_000, HOUR_MS)
    life.world.send(life.group_id, DeleteGroup(life.group_id))


def simple(life: Life) -> Script:
    """Nobody joins: somebody commits by hand."""
    life.commits.actor = "simple"
    rounds = max(1, life.quota // life.topic.partitions)
    pause_ms = max(_FEWEST_MS, life.left_ms // rounds)
    parts = [life.topic.part(each) for each in range(life.topic.partitions)]
    while life.commits.written < life.quota:
        life.commits.commit(parts, None)
        yield life.rng.randint(pause_ms // 2, pause_ms * 3 // 2)


def upgraded(life: Life) -> Script:
    """All members stop and come back with the consumer protocol."""
    yield from _migrate(life, ClassicGroup, ConsumerGroup)


def downgraded(life: Life) -> Script:
    """All members stop and come back with the classic protocol."""
    yield from _migrate(life, ConsumerGroup, ClassicGroup)


def _migrate(life: Life, before: type[Group], after: type[Group]) -> Script:
    yield from life.begin(before)
    yield life.a_while(2)
    assert life.group is not None
    yield from life.group.leave(len(life.group.members))
    yield life.rng.randint(10_000, 60_000)
    yield from life.begin(after)


def cooperative(life: Life) -> Script:
    """Members of the classic protocol that give up only what others are to get."""
    group = ClassicGroup(life.world, life.group_id, [life.topic.name])
    group.is_cooperative = True
    life.group = group
    yield from group.join(2)
    for _ in range(3):
        yield life.a_while()
        yield from group.join()
    yield life.a_while()
    yield from group.leave()
    yield life.a_while()
    yield from group.crash()


def migrated(life: Life) -> Script:
    """A classic group is upgraded while it works, and downgraded again."""
    yield from life.begin(ClassicGroup)
    classic = life.group
    assert isinstance(classic, ClassicGroup)
    yield life.a_while(3)
    life.group = mixed = MixedGroup(classic)
    for _ in range(2):
        yield from mixed.join()
        yield life.a_while()
    yield from mixed.go_back()
    life.group = classic
    yield life.a_while()
    yield from classic.join()


def _tell_topic(world: World, topic: Topic, deleted_ms: int | None) -> None:
    world.truth.write(
        "topics",
        topic=topic.name,
        topic_id=topic.topic_id.hex(),
        partitions=topic.partitions,
        created_ms=topic.created_ms,
        deleted_ms=deleted_ms,
    )


def tell_topics(world: World) -> None:
    """The topics that there are in the end."""
    for topic in world.topics.known.values():
        _tell_topic(world, topic, None)


class Share(NamedTuple):
    """How many of the groups live so, and how much of the traffic each has."""

    script: Scenario
    groups: int
    traffic: int


SCENARIOS: Final[Mapping[str, Share]] = {
    "steady": Share(steady, 20, 10),
    "static": Share(static, 8, 10),
    "storm": Share(storm, 4, 10),
    "crash_loop": Share(crash_loop, 4, 10),
    "subscription": Share(subscription, 4, 10),
    "growth": Share(growth, 4, 10),
    "recreated": Share(recreated, 2, 5),
    "regex": Share(regex, 4, 10),
    "reset": Share(reset, 4, 10),
    "transactional": Share(transactional, 6, 10),
    "monthly": Share(monthly, 4, 1),
    "stale": Share(stale, 8, 1),
    "typo": Share(stale, 4, 1),
    "deleted": Share(deleted, 4, 1),
    "simple": Share(simple, 8, 3),
    "upgraded": Share(upgraded, 4, 10),
    "downgraded": Share(downgraded, 2, 10),
    "cooperative": Share(cooperative, 4, 10),
    "migrated": Share(migrated, 2, 10),
}
