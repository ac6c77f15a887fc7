"""A group of librdkafka's consumers changes its protocol, and changes it back, while it
consumes: nobody stops, nothing is lost, and no partition ever has two owners (E20)."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.cimpl import KafkaException

from .admin import ANSWER_S, admin_of, committed_offsets
from .conftest import FOREIGN_BROKER
from .members import Crew, Member
from .process import ServerProcess

PARTITIONS = 4
HEARTBEAT_S = 1.0
FEED_S = 0.04
"""No faster than members that take turns can read."""
ENOUGH = 40
"""So many records are a group that goes on."""
SETTINGS = (
    "group.initial.rebalance.delay.ms=100",
    f"group.consumer.heartbeat.interval.ms={HEARTBEAT_S * 1000:.0f}",
    f"group.consumer.min.heartbeat.interval.ms={HEARTBEAT_S * 1000:.0f}",
    "group.consumer.assignment.interval.ms=0",
)
CLASSIC: dict[str, object] = {"group_protocol": "classic"}
CONSUMER: dict[str, object] = {
    "group_protocol": "consumer",
    "partition_assignment_strategy": None,
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that hears of its members every second."""
    if foreign := os.environ.get(FOREIGN_BROKER):
        yield foreign
        return
    arguments = [part for one in SETTINGS for part in ("--set", one)]
    server = ServerProcess(tmp_path_factory.mktemp("broker"), "--memory", *arguments)
    yield server.address
    server.stop()


class Feed:
    """`with Feed(...)`: every partition gets a record again and again."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.count = 0

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Nothing more comes; everything is where it belongs."""
        self._over.set()
        self._thread.join()
        assert self._producer.flush(ANSWER_S) == 0

    def _run(self) -> None:
        while not self._over.wait(FEED_S):
            for partition in range(PARTITIONS):
                value = b"%d" % self.count
                self._producer.produce(self._topic, value, partition=partition)
            self.count += 1
            self._producer.poll(0)


class Migrant(Member):
    """A member that says what it owns, and commits as it reads. A commit that is
    refused, as its generation is over, is one that the next owner makes."""

    crew: Migrants
    commits_refused = 0

    def commit(self) -> None:
        try:
            super().commit()
        except KafkaException:
            self.commits_refused += 1

    def _on_assign(self, consumer: Consumer, those: list[TopicPartition]) -> None:
        super()._on_assign(consumer, those)
        self.crew.look_at_owners()

    def _on_revoke(self, consumer: Consumer, those: list[TopicPartition]) -> None:
        super()._on_revoke(consumer, those)
        self.crew.look_at_owners()


class Migrants(Crew):
    """A crew that notes when a partition has two owners, and how long nobody has any.

    What a member gave up is known before the coordinator hears of it, and what it got
    only afterwards: two owners in these notes are two at once.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, **config: object):
        super().__init__(bootstrap, group, topic, **config)
        self.twice: list[list[frozenset[int]]] = []
        self.unowned_s = 0.0
        self._unowned_since: float | None = None

    def join(self, **config: object) -> Member:
        wanted = {**self._config, **config}
        member = Migrant(self._bootstrap, self._group, [self._topic], **wanted)
        member.crew = self
        self.members.append(member)
        return member

    def leave(self, member: Member) -> None:
        super().leave(member)
        self.look_at_owners()

    def look_at_owners(self) -> None:
        """Note who owns what now."""
        owned = [member.owned for member in self.members]
        if sum(map(len, owned)) > len(frozenset().union(*owned)):
            self.twice.append(owned)
        now = time.monotonic()
        if not any(owned):
            self._unowned_since = self._unowned_since or now
        elif self._unowned_since is not None:
            self.unowned_s = max(self.unowned_s, now - self._unowned_since)
            self._unowned_since = None


@pytest.fixture
def started(
    bootstrap: str, group: str, topic: str
) -> Iterator[Callable[..., tuple[Migrants, Feed]]]:
    """Starts a crew and what it reads; checks what must hold however it went on."""
    with contextlib.ExitStack() as stack:

        def start(**config: object) -> tuple[Migrants, Feed]:
            feed = stack.enter_context(Feed(bootstrap, topic))
            migrants = Migrants(bootstrap, group, topic, **config)
            return stack.enter_context(contextlib.closing(migrants)), feed

        yield start


def type_of(bootstrap: str, group: str) -> ConsumerGroupType:
    """Which type of group the broker takes it for."""
    admin = admin_of(bootstrap)
    found = admin.list_consumer_groups().result(ANSWER_S)
    (kind,) = [one.type for one in found.valid if one.group_id == group]
    assert isinstance(kind, ConsumerGroupType)
    return kind


def goes_on(crew: Migrants, bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Everybody has its share and reads on; what is committed, which is more."""
    crew.poll_until_shared(PARTITIONS)
    read = len(crew.seen)
    crew.poll_until(lambda: len(crew.seen) > read + ENOUGH)
    for member in crew.members:
        member.commit()
    return committed_offsets(bootstrap, group)


def finished(crew: Migrants, feed: Feed, bootstrap: str, group: str) -> None:
    """Everything is read, everything is committed, nobody shared, somebody always had
    something."""
    feed.stop()
    everything = {p: [*range(feed.count)] for p in range(PARTITIONS)}
    crew.poll_until(lambda: read_once(crew) == everything)
    crew.close()
    committed = committed_offsets(bootstrap, group)
    assert {p for _, p in committed} == everything.keys()
    assert {*committed.values()} == {feed.count}
    assert crew.twice == []
    assert crew.unowned_s < HEARTBEAT_S


def read_once(crew: Migrants) -> dict[int, list[int]]:
    """By partition, the offsets that somebody has read."""
    return {p: sorted(set(each)) for p, each in sorted(crew.offsets_read().items())}


@pytest.mark.slow
@pytest.mark.fact("E20-10", "E20-13", "E20-25", "E20-28", "E20-40", "E20-43")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_goes_over_to_the_new_protocol_and_back(
    started: Callable[..., tuple[Migrants, Feed]],
    bootstrap: str,
    group: str,
    strategy: str,
) -> None:
    crew, feed = started(partition_assignment_strategy=strategy)
    old = [crew.join(**CLASSIC), crew.join(**CLASSIC)]
    committed = [goes_on(crew, bootstrap, group)]
    assert type_of(bootstrap, group) == ConsumerGroupType.CLASSIC
    new = [crew.join(**CONSUMER)]
    committed.append(goes_on(crew, bootstrap, group))
    assert type_of(bootstrap, group) == ConsumerGroupType.CONSUMER
    crew.leave(old.pop())
    new.append(crew.join(**CONSUMER))
    committed.append(goes_on(crew, bootstrap, group))
    crew.leave(old.pop())
    committed.append(goes_on(crew, bootstrap, group))
    assert type_of(bootstrap, group) == ConsumerGroupType.CONSUMER
    crew.join(**CLASSIC)
    committed.append(goes_on(crew, bootstrap, group))
    crew.leave(new.pop())
    crew.join(**CLASSIC)
    committed.append(goes_on(crew, bootstrap, group))
    crew.leave(new.pop())
    committed.append(goes_on(crew, bootstrap, group))
    assert type_of(bootstrap, group) == ConsumerGroupType.CLASSIC
    finished(crew, feed, bootstrap, group)
    for before, after in pairwise(committed):
        assert all(after[name] >= offset for name, offset in before.items())


@pytest.mark.slow
@pytest.mark.fact("H-134", "H-135", "H-137", "E20-40")
def test_static_members_are_bounced_one_by_one_to_the_new_protocol_and_back(
    started: Callable[..., tuple[Migrants, Feed]], bootstrap: str, group: str
) -> None:
    crew, feed = started(partition_assignment_strategy="cooperative-sticky")
    instances = ("one", "two")
    members = {i: crew.join(**CLASSIC, group_instance_id=i) for i in instances}
    committed = [goes_on(crew, bootstrap, group)]
    for protocol, kind in (
        (CONSUMER, ConsumerGroupType.CONSUMER),
        (CLASSIC, ConsumerGroupType.CLASSIC),
    ):
        for instance in instances:
            share = members[instance].owned
            crew.leave(members[instance])
            members[instance] = crew.join(**protocol, group_instance_id=instance)
            committed.append(goes_on(crew, bootstrap, group))
            assert members[instance].owned == share
        assert type_of(bootstrap, group) == kind
    finished(crew, feed, bootstrap, group)
    for before, after in pairwise(committed):
        assert all(after[name] >= offset for name, offset in before.items())
