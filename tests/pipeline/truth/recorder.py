"""Actions of real clients and admins on one broker, each written to the journal when it
has happened."""

from __future__ import annotations

import threading
from base64 import urlsafe_b64decode
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions

from coterie.client.sync import SyncAdmin
from coterie.types import TopicPartition as CoterieTopicPartition
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.pipeline.truth.journal import (
    LEFT,
    REPLACED,
    Commit,
    Journal,
    PartitionKey,
    Span,
    now,
)
from tests.pipeline.truth.member_process import ProcessMember
from tests.pipeline.truth.members import SESSION_MS, ConfluentMember, Member
from tests.real_clients.confluent_admin import (
    ANSWER_S,
    admin_client,
    alter_group,
    alter_offsets,
    committed_offsets,
    create_topic,
    describe_group,
    produce,
    transactional_producer,
)
from tests.support.waiting import eventually

_LONG: Final = {"max.poll.interval.ms": SESSION_MS}
_LONG_CLASSIC: Final = {"session.timeout.ms": SESSION_MS, **_LONG}
CONSUMER: Final[dict[str, Any]] = {"group.protocol": "consumer", **_LONG}
EAGER: Final[dict[str, Any]] = {
    "partition.assignment.strategy": "range",
    **_LONG_CLASSIC,
}
COOPERATIVE: Final[dict[str, Any]] = {
    "partition.assignment.strategy": "cooperative-sticky",
    **_LONG_CLASSIC,
}
_EXPLICIT_RETENTION_VERSION: Final = 4
"""The newest version of OffsetCommit that has a retention time."""


class Recorder:
    """One broker, the journal of what happens on it, and the members that it has."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.journal = Journal()
        self.partitions: dict[str, int] = {}
        """The partitions of each topic that exists."""
        self.topic_ids: dict[str, str] = {}
        """The ID of each topic as 32 hex digits."""
        self.members: dict[str, list[Member]] = defaultdict(list)
        """Members of each group that are alive."""
        self._lock = threading.Lock()

    # Topics

    def topic(self, name: str, partitions: int = 2, records: int = 10) -> str:
        """Create a topic with this number of records in each partition."""
        create_topic(self.bootstrap, name, partitions=partitions)
        admin = admin_client(self.bootstrap)
        future = admin.describe_topics(TopicCollection([name]))[name]
        topic_id = str(future.result(ANSWER_S).topic_id)
        with self._lock:
            self.partitions[name] = partitions
            self.topic_ids[name] = urlsafe_b64decode(f"{topic_id}==").hex()
        self.produce(name, records)
        return name

    def produce(self, topic: str, records: int) -> None:
        """Produce records to each partition."""
        numbers = range(self.partitions[topic])
        produce(self.bootstrap, topic, {each: [b"v"] * records for each in numbers})

    def delete_topic(self, topic: str, groups: Iterable[str]) -> None:
        """Delete a topic; wait until the groups have lost its offsets."""
        from_s = now()
        with self._lock:
            del self.partitions[topic]
        admin = admin_client(self.bootstrap)
        admin.delete_topics([topic])[topic].result(ANSWER_S)
        for group in groups:
            self._wait_for_loss(group, topic, from_s, "topic_deleted")

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Add partitions up to this number."""
        new = NewPartitions(topic, partitions)
        admin = admin_client(self.bootstrap)  # keep it alive: its futures need it
        admin.create_partitions([new])[topic].result(ANSWER_S)
        with self._lock:
            self.partitions[topic] = partitions

    # Members

    def join(
        self,
        group: str,
        client_id: str,
        topics: Iterable[str],
        *causes: str,
        library: type[Member] = ConfluentMember,
        **config: Any,
    ) -> Any:
        """Add a member; wait until it owns partitions, and write down the causes."""
        member = library(
            self.journal, self.bootstrap, group, client_id, topics, **config
        )
        self.members[group].append(member)
        if config.get("group.protocol") == "consumer":
            self.journal.groups_by_id.add(group)
        self.settle(group)
        self.journal.rebalanced(group, *causes)
        return member

    def leave(self, member: Member, *causes: str, end: str = LEFT) -> None:
        """Close a member; wait until the others own its partitions."""
        self.members[member.group].remove(member)
        member.leave(end)
        if end == REPLACED:
            return
        if self.members[member.group]:
            self.settle(member.group)
        else:
            self.wait_for_state(member.group, ConsumerGroupState.EMPTY)
        self.journal.rebalanced(member.group, *causes)

    def start_process(
        self, group: str, client_id: str, topic: str, *causes: str, **config: Any
    ) -> ProcessMember:
        """Add a member process that gets half of a topic; wait until it does."""
        half = self.partitions[topic] // 2
        process = ProcessMember(
            self.journal, self.bootstrap, group, client_id, topic, half, **config
        )
        process.wait_for_commit()
        self.settle(group, elsewhere=half)
        self.journal.rebalanced(group, *causes)
        return process

    def set_session(self, group: str, timeout_ms: int) -> None:
        """Set the session timeout of the members of a consumer group, from their next
        heartbeat on."""
        admin = admin_client(self.bootstrap)
        alter_group(admin, group, "consumer.session.timeout.ms", str(timeout_ms))

    def kill(self, process: ProcessMember, *causes: str) -> None:
        """Kill a member process; wait until the others own its partitions."""
        process.kill()
        self.settle(process.group)
        self.journal.rebalanced(process.group, *causes)

    def restart_static(self, member: Member) -> Member:
        """Close a static member, and replace it by one with its instance id."""
        group, client_id, topics = member.group, member.client_id, member.topics
        owned = member.owned
        self.leave(member, end=REPLACED)
        new: Member = self.join(group, client_id, topics, **member.config)
        assert new.owned == owned
        return new

    def settle(self, group: str, elsewhere: int = 0) -> None:
        """Wait until each partition has one owner and every member owns some.

        `elsewhere` is the number of partitions that a member process owns.
        """

        def is_settled() -> bool:
            members = self.members[group]
            for each in members:
                if each.failure is not None:
                    raise each.failure
            owned = [each.owned for each in members]
            topics = {topic for each in members for topic in each.topics}
            wanted = sum(self.partitions.get(each, 0) for each in topics) - elsewhere
            together = frozenset().union(*owned)
            return all(owned) and sum(map(len, owned)) == wanted == len(together)

        eventually(is_settled, expected=f"owners of all partitions of {group}")
        self.wait_for_state(group, ConsumerGroupState.STABLE)
        for each in self.members[group]:
            each.settled_s = now()

    def wait_for_state(self, group: str, state: ConsumerGroupState) -> None:
        """Wait until the broker says that a group has this state."""
        admin = admin_client(self.bootstrap)
        eventually(
            lambda: describe_group(admin, group).state == state,
            expected=f"{group} is {state.name}",
        )

    # Offsets by admins

    def alter(self, group: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Commit offsets for a group without members."""
        from_s = now()
        alter_offsets(self.bootstrap, group, offsets)
        span = Span(from_s, now())
        self.journal.committed(
            Commit(group, *key, offset, span) for key, offset in offsets.items()
        )

    def delete_offsets(self, group: str, keys: Iterable[PartitionKey]) -> None:
        """Delete committed offsets."""
        keys = list(keys)
        from_s = now()
        with SyncAdmin(self.bootstrap) as admin:
            listed = [CoterieTopicPartition(*key) for key in keys]
            admin.delete_group_offsets(group, listed).all()
        self._lost(group, keys, Span(from_s, now()), "offsets_deleted")

    def delete_group(self, group: str) -> None:
        """Delete a group without members and its offsets."""
        keys = list(committed_offsets(self.bootstrap, group))
        from_s = now()
        admin = admin_client(self.bootstrap)
        admin.delete_consumer_groups([group])[group].result(ANSWER_S)
        self._lost(group, keys, Span(from_s, now()), "group_deleted")
        self.journal.deleted_groups.add(group)
        if group in self.members:
            self.journal.rebalanced(group, "deleted")

    def commit_with_retention(
        self, group: str, offsets: Mapping[PartitionKey, int], retention_ms: int
    ) -> None:
        """Commit offsets that expire by themselves, as old clients do."""
        host, _, port = self.bootstrap.partition(":")
        topics = [
            m.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    m.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_metadata="",
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ]
        request = m.OffsetCommitRequest(
            group_id=group, retention_time_ms=retention_ms, topics=topics
        )
        from_s = now()
        with WireClient(host, int(port)) as client:
            response = client.call(request, _EXPLICIT_RETENTION_VERSION)
        codes = [
            part.error_code for each in response.topics for part in each.partitions
        ]
        assert codes == [0] * len(offsets)
        span = Span(from_s, now())
        self.journal.committed(
            Commit(group, *key, offset, span) for key, offset in offsets.items()
        )

    def wait_for_expiry(self, group: str, topic: str) -> None:
        """Wait until the broker has deleted a group's offsets of a topic."""
        commits = self.journal.commits_of().items()
        # They may have expired before this call, but not before they were committed.
        spans = [each[-1].span for key, each in commits if key[:2] == (group, topic)]
        from_s = min(span.from_s for span in spans)
        self._wait_for_loss(group, topic, from_s, "expired")

    def _wait_for_loss(self, group: str, topic: str, from_s: float, cause: str) -> None:
        def has_none() -> bool:
            return all(
                key[0] != topic for key in committed_offsets(self.bootstrap, group)
            )

        eventually(has_none, expected=f"{group} has no offsets of {topic}")
        latest = self.journal.commits_of()
        keys = [
            each[-1][1:3]
            for key, each in latest.items()
            if key[:2] == (group, topic) and each[-1].offset is not None
        ]
        self._lost(group, keys, Span(from_s, now()), cause)

    def _lost(
        self, group: str, keys: Iterable[PartitionKey], span: Span, cause: str
    ) -> None:
        self.journal.committed(
            Commit(group, *key, None, span, cause=cause) for key in keys
        )

    # Transactions

    def producer(self, transactional_id: str) -> Producer:
        return transactional_producer(
            self.bootstrap, transactional_id, **{"transaction.timeout.ms": 900_000}
        )

    def commit_in_transaction(
        self, producer: Producer, member: ConfluentMember, offset: int, *, abort: bool
    ) -> None:
        """Commit an offset for the member's partitions in a transaction."""
        keys = sorted(member.owned)
        producer.begin_transaction()
        from_s = now()
        listed = [TopicPartition(*key, offset) for key in keys]
        producer.send_offsets_to_transaction(listed, member.metadata(), ANSWER_S)
        until_s = now()
        if abort:
            producer.abort_transaction(ANSWER_S)
            return
        producer.commit_transaction(ANSWER_S)
        span = Span(from_s, until_s)
        self.journal.committed(
            Commit(
                member.group, *key, offset, span, member.client_id, transactional=True
            )
            for key in keys
        )

    def wait_for_offsets(self, group: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Wait until the broker returns these offsets, as after a transaction."""
        eventually(
            lambda: committed_offsets(self.bootstrap, group) == offsets,
            expected=f"the offsets of {group}",
        )

    def close(self) -> None:
        """Close all members."""
        for members in self.members.values():
            for each in members:
                each.close()


def committed_by(admin: Any, group: str) -> dict[PartitionKey, int]:
    """Return the committed offsets of a group by an existing admin client."""
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    listed = futures[group].result(ANSWER_S).topic_partitions
    return {(each.topic, each.partition): each.offset for each in listed}
