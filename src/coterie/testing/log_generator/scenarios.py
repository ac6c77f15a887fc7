"""The scenarios of generated groups: each is a script over the lifetime of one group.

Each group reads its own topic, so that only its script affects it; `growth` and
`recreated` change that topic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.testing.log_generator.classic_group import ClassicGroup
from coterie.testing.log_generator.consumer_group import ConsumerGroup, MixedGroup
from coterie.testing.log_generator.group import Commits, Group
from coterie.testing.log_generator.world import Script, Topic, World
from coterie.wire import messages as m
from coterie.wire.record_batch import Producer

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
_WAIT_MS_MIN: Final = 1_000
_STORM_REBALANCES: Final = 6
_ABORTED_ONE_IN: Final = 5


class GroupLifetime:
    """One group with its topic, the end of its lifetime, and the number of its
    commits.
    """

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
        self.topic = self.create_topic(f"{group_id}.events", partitions)
        self.extra = self.create_topic(f"{group_id}.extra", 2)
        self.commits = Commits(world, group_id)
        self.group: Group | None = None
        self.is_static = "static" in scenario or self.rng.random() < 0.2
        self.producer: Producer | None = None
        self.has_ended = False
        self._transactions = 0

    def create_topic(self, name: str, partitions: int) -> Topic:
        return self.world.topics.create(name, partitions, self.world.now_ms)

    @property
    def left_ms(self) -> int:
        return max(0, self.end_ms - self.world.now_ms)

    def random_wait_ms(self, parts: int = 10) -> int:
        """Return a random duration of at most 1/`parts` of the remaining time."""
        most = max(_WAIT_MS_MIN, self.left_ms // parts)
        return self.rng.randint(most // 2, most)

    def start(
        self, kind: type[Group] | None = None, members: int = 0
    ) -> Generator[int, None, Group]:
        """Create the group with its first members, and return it."""
        classes = (ConsumerGroup, ClassicGroup)
        chosen = kind or self.rng.choice(classes)
        self.group = chosen(self.world, self.group_id, [self.topic.name])
        count = members or self.rng.randint(2, 5)
        yield from self.group.join(count, static=self.is_static)
        return self.group

    def commit_offsets(self) -> Script:
        """Commit at even intervals until the quota or the end is reached."""
        rounds = max(1, self.quota // self.topic.partitions)
        pause_ms = max(_WAIT_MS_MIN, self.left_ms // rounds)
        wait_ms = _WAIT_MS_MIN
        while not self.has_ended and self.commits.written < self.quota:
            yield wait_ms
            wait_ms = self.rng.randint(pause_ms // 2, pause_ms * 3 // 2)
            group = self.group
            if group is None or group.is_rebalancing:
                continue
            topics = self.world.topics
            for member in list(group.members):
                partitions = [
                    each
                    for each in sorted(member.owned)
                    if topics.topic_name(bytes.fromhex(each.topic_id))
                ]
                if self.producer is None:
                    self.commits.commit(partitions, member.member_id)
                elif partitions:
                    self._transactions += 1
                    commit = self._transactions % _ABORTED_ONE_IN != 2
                    outcome = "committed" if commit else "aborted"
                    self.commits.commit(
                        partitions, member.member_id, self.producer, outcome=outcome
                    )
                    yield self.rng.randint(5, 200)
                    self.world.end_transaction(
                        self.group_id, self.producer, commit=commit
                    )
                    break

    def stop(self) -> Script:
        self.has_ended = True
        assert self.group is not None
        if self.group.members:
            yield from self.group.leave(len(self.group.members))


GroupScript: TypeAlias = Callable[[GroupLifetime], Script]


def steady(life: GroupLifetime) -> Script:
    """Make members join, leave and crash from time to time."""
    group = yield from life.start()
    while life.left_ms > HOUR_MS:
        yield life.random_wait_ms(4)
        choice = life.rng.random()
        if choice < 0.4 or len(group.members) < 2:
            yield from group.join()
        elif choice < 0.7:
            yield from group.leave()
        else:
            yield from group.crash()


def static(life: GroupLifetime) -> Script:
    """Restart static members one after the other."""
    group = yield from life.start()
    for _ in range(3):
        yield life.random_wait_ms()
        yield from group.restart()


def storm(life: GroupLifetime) -> Script:
    """Rebalance many times within minutes, then not at all."""
    group = yield from life.start()
    yield life.random_wait_ms(2)
    group.storm = 1
    for _ in range(_STORM_REBALANCES):
        yield from group.join()
        yield life.rng.randint(5_000, 20_000)
        yield from group.leave()
        yield life.rng.randint(5_000, 20_000)
    group.storm = None


def crash_loop(life: GroupLifetime) -> Script:
    """Let one process join and crash again and again."""
    group = yield from life.start()
    yield life.random_wait_ms()
    crashed = None
    for _ in range(5):
        yield from group.join(again=crashed)
        yield life.rng.randint(20_000, 60_000)
        crashed = group.members[-1]
        yield from group.crash()


def subscription(life: GroupLifetime) -> Script:
    """Subscribe to one more topic, and later unsubscribe from it."""
    group = yield from life.start()
    yield life.random_wait_ms(3)
    yield from group.subscribe([life.topic.name, life.extra.name])
    yield life.random_wait_ms(3)
    yield from group.subscribe([life.topic.name])


def growth(life: GroupLifetime) -> Script:
    group = yield from life.start()
    yield life.random_wait_ms(2)
    life.world.topics.grow(life.topic.name, 2)
    life.world.publish_topic_change(life.topic)
    yield from group.refresh_metadata()


def recreated(life: GroupLifetime) -> Script:
    """Delete the topic and create it again with another id."""
    group = yield from life.start()
    world = life.world
    yield life.random_wait_ms(2)
    old_topic = world.topics.delete(life.topic.name)
    _write_topic(world, old_topic, world.now_ms)
    world.publish_topic_deletion(old_topic)
    yield from group.refresh_metadata()
    yield life.rng.randint(60_000, HOUR_MS)
    life.topic = life.create_topic(old_topic.name, old_topic.partitions)
    world.publish_topic_change(life.topic, created=True)
    yield from group.refresh_metadata()


def regex(life: GroupLifetime) -> Script:
    """Subscribe by a regular expression besides the topic."""
    group = ConsumerGroup(life.world, life.group_id, [life.topic.name])
    group.regex = f"{life.group_id}\\.ex.*"
    life.group = group
    yield from group.join(2)


def reset(life: GroupLifetime) -> Script:
    """Stop the group and rewind its offsets; later stop it and skip to the end."""
    group = yield from life.start()
    for kind in ("rewind", "skip"):
        yield life.random_wait_ms(3)
        count = len(group.members)
        yield from group.leave(count)
        yield life.rng.randint(10_000, 600_000)
        partitions = [
            life.topic.partition(each) for each in range(life.topic.partitions)
        ]
        life.commits.commit(partitions, None, reset=kind)
        yield life.rng.randint(1_000, 60_000)
        yield from group.join(count, static=life.is_static)


def transactional(life: GroupLifetime) -> Script:
    """Commit in transactions; the last one stays open."""
    life.producer = Producer(life.rng.randint(1_000, 2**31), 0, 0)
    group = yield from life.start(members=1)
    yield max(_WAIT_MS_MIN, life.left_ms - 60_000)
    life.has_ended = True
    yield 1_000
    [member] = group.members
    life.commits.commit(
        sorted(member.owned), member.member_id, life.producer, outcome="open"
    )


def monthly(life: GroupLifetime) -> Script:
    """Run for an hour, and again a long time later."""
    group = yield from life.start(members=1)
    while True:
        yield HOUR_MS
        yield from group.leave(1)
        yield max(DAY_MS, life.left_ms // 2)
        yield from group.join(1)


def stale(life: GroupLifetime) -> Script:
    """Remove all members early; the offsets stay until they expire."""
    yield from life.start()
    yield life.random_wait_ms(5)
    yield from life.stop()


def deleted(life: GroupLifetime) -> Script:
    """Delete offsets of one topic, and later the whole group."""
    yield from life.start()
    yield life.random_wait_ms(2)
    yield from life.stop()
    yield life.rng.randint(60_000, HOUR_MS)
    partition = m.OffsetDeleteRequestPartition(partition_index=0)
    topic = m.OffsetDeleteRequestTopic(name=life.topic.name, partitions=[partition])
    request = m.OffsetDeleteRequest(group_id=life.group_id, topics=[topic])
    life.world.send(life.group_id, request)
    yield life.rng.randint(60_000, HOUR_MS)
    life.world.send(life.group_id, DeleteGroup(life.group_id))


def simple(life: GroupLifetime) -> Script:
    """Commit without members, as a consumer with manual assignment does."""
    life.commits.actor = "simple"
    rounds = max(1, life.quota // life.topic.partitions)
    pause_ms = max(_WAIT_MS_MIN, life.left_ms // rounds)
    partitions = [life.topic.partition(each) for each in range(life.topic.partitions)]
    while life.commits.written < life.quota:
        life.commits.commit(partitions, None)
        yield life.rng.randint(pause_ms // 2, pause_ms * 3 // 2)


def migrated_offline(
    life: GroupLifetime, *, before: type[Group], after: type[Group]
) -> Script:
    """Stop all members and start them with the other protocol."""
    group = yield from life.start(before)
    yield life.random_wait_ms(2)
    yield from group.leave(len(group.members))
    yield life.rng.randint(10_000, 60_000)
    yield from life.start(after)


def cooperative(life: GroupLifetime) -> Script:
    """Rebalance a classic group cooperatively (KIP-429)."""
    group = ClassicGroup(life.world, life.group_id, [life.topic.name])
    group.is_cooperative = True
    life.group = group
    yield from group.join(2)
    for _ in range(3):
        yield life.random_wait_ms()
        yield from group.join()
    yield life.random_wait_ms()
    yield from group.leave()
    yield life.random_wait_ms()
    yield from group.crash()


def migrated(life: GroupLifetime) -> Script:
    """Upgrade a classic group online (KIP-848), and downgrade it again."""
    classic = yield from life.start(ClassicGroup)
    assert isinstance(classic, ClassicGroup)
    yield life.random_wait_ms(3)
    life.group = mixed = MixedGroup(classic)
    for _ in range(2):
        yield from mixed.join()
        yield life.random_wait_ms()
    yield from mixed.go_back()
    life.group = classic
    yield life.random_wait_ms()
    yield from classic.join()


def _write_topic(world: World, topic: Topic, deleted_ms: int | None) -> None:
    world.truth.write(
        "topics",
        topic=topic.name,
        topic_id=topic.topic_id.hex(),
        partitions=topic.partitions,
        created_ms=topic.created_ms,
        deleted_ms=deleted_ms,
    )


def write_topics(world: World) -> None:
    for topic in world.topics.by_name.values():
        _write_topic(world, topic, None)


class Scenario(NamedTuple):
    """A script, its share of the groups and its share of the commits."""

    script: GroupScript
    groups: int
    traffic: int


_UPGRADE: Final = partial(migrated_offline, before=ClassicGroup, after=ConsumerGroup)
_DOWNGRADE: Final = partial(migrated_offline, before=ConsumerGroup, after=ClassicGroup)
SCENARIOS: Final[Mapping[str, Scenario]] = {
    "steady": Scenario(steady, 20, 10),
    "static": Scenario(static, 8, 10),
    "storm": Scenario(storm, 4, 10),
    "crash_loop": Scenario(crash_loop, 4, 10),
    "subscription": Scenario(subscription, 4, 10),
    "growth": Scenario(growth, 4, 10),
    "recreated": Scenario(recreated, 2, 5),
    "regex": Scenario(regex, 4, 10),
    "reset": Scenario(reset, 4, 10),
    "transactional": Scenario(transactional, 6, 10),
    "monthly": Scenario(monthly, 4, 1),
    "stale": Scenario(stale, 8, 1),
    "typo": Scenario(stale, 4, 1),
    "deleted": Scenario(deleted, 4, 1),
    "simple": Scenario(simple, 8, 3),
    "upgraded": Scenario(_UPGRADE, 4, 10),
    "downgraded": Scenario(_DOWNGRADE, 2, 10),
    "cooperative": Scenario(cooperative, 4, 10),
    "migrated": Scenario(migrated, 2, 10),
}
