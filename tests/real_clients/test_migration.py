"""Conversion of a group of librdkafka members to the consumer protocol and back, while
it consumes: nothing is lost, and no partition ever has two owners (E20)."""

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

from tests.real_clients.confluent_admin import ANSWER_S, admin_client, committed_offsets
from tests.real_clients.confluent_members import ConfluentGroup, ConfluentMember
from tests.support.server_process import start_server

from .confluent_admin import FOREIGN_BROKER

PARTITIONS = 4
HEARTBEAT_S = 1.0
PRODUCE_INTERVAL_S = 0.04
UNOWNED_S_MAX = 30.0
"""Less than a session, after which a group gets on that has lost its members."""
"""Members that are polled in turn can read that fast."""
RECORDS_READ_MORE = 40
"""The number of records after which a group counts as consuming."""
SETTINGS: dict[str, object] = {
    "group.initial.rebalance.delay.ms": 100,
    "group.consumer.heartbeat.interval.ms": int(HEARTBEAT_S * 1_000),
    "group.consumer.min.heartbeat.interval.ms": int(HEARTBEAT_S * 1_000),
    "group.consumer.assignment.interval.ms": 0,
}
CLASSIC: dict[str, object] = {"group_protocol": "classic"}
CONSUMER: dict[str, object] = {
    "group_protocol": "consumer",
    "partition_assignment_strategy": None,
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """A broker whose members send a heartbeat every second."""
    if foreign := os.environ.get(FOREIGN_BROKER):
        yield foreign
        return
    with start_server(settings=SETTINGS) as server:
        yield server.bootstrap


class ContinuousProducer:
    """A producer that sends to every partition at an interval in a `with` block."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._topic = topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.count = 0

    def __enter__(self) -> ContinuousProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop producing, and wait for all acknowledgements."""
        self._over.set()
        self._thread.join()
        assert self._producer.flush(ANSWER_S) == 0

    def _run(self) -> None:
        while not self._over.wait(PRODUCE_INTERVAL_S):
            for partition in range(PARTITIONS):
                value = b"%d" % self.count
                self._producer.produce(self._topic, value, partition=partition)
            self.count += 1
            self._producer.poll(0)


class MigratingMember(ConfluentMember):
    """A member that reports changes of its partitions to its group.

    A refused commit, such as one of an older generation, is counted and not retried.
    """

    consumers: MigratingGroup
    commits_refused = 0

    def commit(self) -> None:
        try:
            super().commit()
        except KafkaException:
            self.commits_refused += 1

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._on_assign(consumer, partitions)
        self.consumers.record_owners()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        super()._on_revoke(consumer, partitions)
        self.consumers.record_owners()


class MigratingGroup(ConfluentGroup):
    """A group that records double owners, and the longest time without any owner.

    A revocation is recorded before the coordinator is informed, an assignment after it
    was sent, so two recorded owners owned the partition at the same time.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, **config: object):
        super().__init__(bootstrap, group, topic, **config)
        self.double_owners: list[list[frozenset[int]]] = []
        self.unowned_s = 0.0
        self._unowned_since: float | None = None

    def join(self, **config: object) -> ConfluentMember:
        expected = {**self._config, **config}
        member = MigratingMember(
            self._bootstrap, self._group, [self._topic], **expected
        )
        member.consumers = self
        self.members.append(member)
        return member

    def leave(self, member: ConfluentMember) -> None:
        super().leave(member)
        self.record_owners()

    def record_owners(self) -> None:
        """Record the current owners of all partitions."""
        owned = [member.owned for member in self.members]
        if sum(map(len, owned)) > len(frozenset().union(*owned)):
            self.double_owners.append(owned)
        now = time.monotonic()
        if not any(owned):
            self._unowned_since = self._unowned_since or now
        elif self._unowned_since is not None:
            self.unowned_s = max(self.unowned_s, now - self._unowned_since)
            self._unowned_since = None


@pytest.fixture
def started(
    bootstrap: str, group: str, topic: str
) -> Iterator[Callable[..., tuple[MigratingGroup, ContinuousProducer]]]:
    """A function that starts a group and a producer of the records that it reads."""
    with contextlib.ExitStack() as stack:

        def start(**config: object) -> tuple[MigratingGroup, ContinuousProducer]:
            producer = stack.enter_context(ContinuousProducer(bootstrap, topic))
            consumers = MigratingGroup(bootstrap, group, topic, **config)
            return stack.enter_context(contextlib.closing(consumers)), producer

        yield start


def group_type(bootstrap: str, group: str) -> ConsumerGroupType:
    """Return the group type that the broker lists."""
    admin = admin_client(bootstrap)
    found = admin.list_consumer_groups().result(ANSWER_S)
    (kind,) = [one.type for one in found.valid if one.group_id == group]
    assert isinstance(kind, ConsumerGroupType)
    return kind


def read_more(
    consumers: MigratingGroup, bootstrap: str, group: str
) -> dict[tuple[str, int], int]:
    """Poll until all members own partitions and read; commit, return all offsets."""
    consumers.poll_until_assigned(PARTITIONS)
    read = len(consumers.records)
    consumers.poll_until(lambda: len(consumers.records) > read + RECORDS_READ_MORE)
    for member in consumers.members:
        member.commit()
    return committed_offsets(bootstrap, group)


def check_everything_read(
    consumers: MigratingGroup, producer: ContinuousProducer, bootstrap: str, group: str
) -> None:
    """Check that all records were read and committed, that no partition had two owners
    and that there was an owner nearly all the time."""
    producer.stop()
    everything = {p: [*range(producer.count)] for p in range(PARTITIONS)}
    consumers.poll_until(lambda: read_once(consumers) == everything)
    consumers.close()
    committed = committed_offsets(bootstrap, group)
    assert {p for _, p in committed} == everything.keys()
    assert {*committed.values()} == {producer.count}
    assert consumers.double_owners == []
    assert consumers.unowned_s < UNOWNED_S_MAX


def read_once(consumers: MigratingGroup) -> dict[int, list[int]]:
    """Return the distinct offsets read, by partition."""
    return {
        p: sorted(set(each)) for p, each in sorted(consumers.offsets_read().items())
    }


@pytest.mark.slow
@pytest.mark.fact("E20-10", "E20-13", "E20-25", "E20-28", "E20-40", "E20-43")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_is_converted_to_the_consumer_protocol_and_back(
    started: Callable[..., tuple[MigratingGroup, ContinuousProducer]],
    bootstrap: str,
    group: str,
    strategy: str,
) -> None:
    consumers, producer = started(partition_assignment_strategy=strategy)
    old = [consumers.join(**CLASSIC), consumers.join(**CLASSIC)]
    committed = [read_more(consumers, bootstrap, group)]
    assert group_type(bootstrap, group) == ConsumerGroupType.CLASSIC
    new = [consumers.join(**CONSUMER)]
    committed.append(read_more(consumers, bootstrap, group))
    assert group_type(bootstrap, group) == ConsumerGroupType.CONSUMER
    consumers.leave(old.pop())
    new.append(consumers.join(**CONSUMER))
    committed.append(read_more(consumers, bootstrap, group))
    consumers.leave(old.pop())
    committed.append(read_more(consumers, bootstrap, group))
    assert group_type(bootstrap, group) == ConsumerGroupType.CONSUMER
    consumers.join(**CLASSIC)
    committed.append(read_more(consumers, bootstrap, group))
    consumers.leave(new.pop())
    consumers.join(**CLASSIC)
    committed.append(read_more(consumers, bootstrap, group))
    consumers.leave(new.pop())
    committed.append(read_more(consumers, bootstrap, group))
    assert group_type(bootstrap, group) == ConsumerGroupType.CLASSIC
    check_everything_read(consumers, producer, bootstrap, group)
    for before, after in pairwise(committed):
        assert all(after[name] >= offset for name, offset in before.items())


@pytest.mark.slow
@pytest.mark.fact("H-134", "H-135", "H-137", "E20-40")
def test_static_members_are_restarted_one_by_one_with_the_consumer_protocol_and_back(
    started: Callable[..., tuple[MigratingGroup, ContinuousProducer]],
    bootstrap: str,
    group: str,
) -> None:
    consumers, producer = started(partition_assignment_strategy="cooperative-sticky")
    instances = ("one", "two")
    members = {i: consumers.join(**CLASSIC, group_instance_id=i) for i in instances}
    committed = [read_more(consumers, bootstrap, group)]
    for protocol, kind in (
        (CONSUMER, ConsumerGroupType.CONSUMER),
        (CLASSIC, ConsumerGroupType.CLASSIC),
    ):
        for instance in instances:
            share = members[instance].owned
            consumers.leave(members[instance])
            members[instance] = consumers.join(**protocol, group_instance_id=instance)
            committed.append(read_more(consumers, bootstrap, group))
            assert members[instance].owned == share
        assert group_type(bootstrap, group) == kind
    check_everything_read(consumers, producer, bootstrap, group)
    for before, after in pairwise(committed):
        assert all(after[name] >= offset for name, offset in before.items())
