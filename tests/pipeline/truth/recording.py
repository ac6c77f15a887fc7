"""A recording of all kinds of groups on one broker: the journal and, at the end, what
the broker says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from coterie.client.sync import SyncAdmin
from tests.pipeline.truth.journal import Journal, PartitionKey, now
from tests.pipeline.truth.kinds import KINDS, Kind
from tests.pipeline.truth.members import SESSION_MS, SHORT_SESSION_MS
from tests.pipeline.truth.recorder import Recorder, committed_by
from tests.real_clients.confluent_admin import ANSWER_S, admin_client, describe_group

OFFSETS_TOPIC: Final = "__consumer_offsets"
SETTINGS: Final[Mapping[str, object]] = {
    "offsets.topic.num.partitions": 3,
    "offsets.retention.check.interval.ms": 300,
    "group.initial.rebalance.delay.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.session.timeout.ms": SHORT_SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.max.session.timeout.ms": SESSION_MS,
}
"""Settings of the broker: short intervals, so that tests wait less; long sessions."""
_GROUPS_ON_ALL_PARTITIONS: Final = 12
"""This many names of groups have hashes of each of the three log partitions."""


class GroupState(NamedTuple):
    """A group as a broker describes it."""

    group_type: str
    """classic or consumer; also classic for groups without members (K-07a)."""
    state: str
    members: frozenset[str]
    """The ids of its members."""


@dataclass(frozen=True)
class Truth:
    """What happened on a broker, and its state at the end."""

    journal: Journal
    groups: Mapping[str, GroupState]
    offsets: Mapping[str, Mapping[PartitionKey, int]]
    """The committed offsets of each group."""
    ends: Mapping[PartitionKey, int]
    """The end offset of each partition."""
    topic_ids: Mapping[str, str]
    """The IDs of topics as 32 hex digits, deleted ones included."""
    end_s: float
    """The time at which the state was read."""


@contextmanager
def recording(
    bootstrap: str,
    at_half: Callable[[], None] = lambda: None,
    kinds: Sequence[Kind] = KINDS,
) -> Iterator[Truth]:
    """Record all kinds at once; call `at_half` between their two parts.

    Members that live on are alive in the `with` block.
    """
    _wait_for_coordinators(bootstrap)
    recorder = Recorder(bootstrap)
    running = [kind(recorder) for kind in kinds]
    try:
        with ThreadPoolExecutor(len(kinds)) as threads:
            list(threads.map(next, running))
            list(threads.map(next, running))
            at_half()
            list(threads.map(lambda each: next(each, None), running))
        for members in recorder.members.values():
            for each in members:
                each.still_member()
        yield _state(recorder)
    finally:
        recorder.close()


def _wait_for_coordinators(bootstrap: str) -> None:
    """Wait until all log partitions are served: Kafka creates them when needed.

    Our client retries; librdkafka crashes when the coordinator is not available yet.
    """
    with SyncAdmin(bootstrap) as admin:
        for number in range(_GROUPS_ON_ALL_PARTITIONS):
            admin.group_offsets.fetch(f"none-{number}")


def _state(recorder: Recorder) -> Truth:
    admin = admin_client(recorder.bootstrap)
    listed = admin.list_consumer_groups().result(ANSWER_S)
    assert not listed.errors
    names = sorted(each.group_id for each in listed.valid)
    return Truth(
        recorder.journal,
        {name: _group(admin, name) for name in names},
        {name: committed_by(admin, name) for name in names},
        _ends(admin, recorder.partitions),
        recorder.topic_ids,
        now(),
    )


def _group(admin: AdminClient, name: str) -> GroupState:
    described = describe_group(admin, name)
    assert described.state in {ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY}
    members = frozenset(each.member_id for each in described.members)
    group_type = described.type.name.lower()
    return GroupState(group_type, described.state.name.capitalize(), members)


def _ends(admin: AdminClient, partitions: Mapping[str, int]) -> dict[PartitionKey, int]:
    wanted = {
        TopicPartition(topic, each): OffsetSpec.latest()
        for topic, count in partitions.items()
        for each in range(count)
    }
    level = IsolationLevel.READ_UNCOMMITTED
    futures = admin.list_offsets(wanted, isolation_level=level)
    return {
        (each.topic, each.partition): future.result(ANSWER_S).offset
        for each, future in futures.items()
    }
