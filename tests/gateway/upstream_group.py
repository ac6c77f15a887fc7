"""Groups of an upstream cluster, and a group server in front of it, for tests.

The upstream is another server of Coterie. COTERIE_TEST_BOOTSTRAP=HOST:PORT selects
another broker, such as Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from coterie.broker.server.broker import Broker
from coterie.client import CommittedOffset, NewTopic, SyncAdmin
from coterie.types import TopicPartition
from coterie.wire import messages as m
from tests.broker.server.harness import ThreadServer
from tests.support.waiting import eventually

PARTITIONS = 3


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset, 0, metadata)


@contextmanager
def upstream_server() -> Iterator[str]:
    """Yield the address of the upstream cluster."""
    if elsewhere := os.environ.get("COTERIE_TEST_BOOTSTRAP"):
        yield elsewhere
        return
    with ThreadServer(group_initial_rebalance_delay_ms=0) as server:
        yield "{}:{}".format(*server.addresses[0])


def has_leaders(admin: SyncAdmin, topic: str) -> bool:
    """Return whether each partition of a topic has a leader."""
    described = admin.describe_topics([topic])
    return described.ok and all(
        partition.leader_id >= 0 for partition in described.one(topic).partitions
    )


class Pair:
    """An upstream cluster and a group server. Names have a suffix of their own."""

    def __init__(self, upstream: str, server: ThreadServer) -> None:
        self.upstream = upstream
        self.server = server
        self.own = "{}:{}".format(*server.addresses[0])
        self.suffix = uuid4().hex[:8]
        self.group = f"member-g-{self.suffix}"
        self.topic = f"member-t-{self.suffix}"

    @property
    def broker(self) -> Broker:
        assembly = self.server.server.assembly
        return assembly.broker

    def create_topic(self, *addresses: str) -> None:
        """Create the topic in both clusters, or at some addresses, and wait until its
        offsets can be committed: Kafka's brokers know a new topic a moment later."""
        topic = NewTopic(self.topic, partitions=PARTITIONS, replication_factor=1)
        for address in addresses or (self.upstream, self.own):
            with SyncAdmin(address) as admin:
                admin.create_topics([topic]).all()
                eventually(
                    lambda: has_leaders(admin, self.topic),
                    expected=f"{address} knows the topic",
                )

    def partition(self, number: int) -> TopicPartition:
        return TopicPartition(self.topic, number)

    def commit(
        self, address: str, group: str = "", **offsets: CommittedOffset
    ) -> dict[Any, Any]:
        """Commit offsets p0=..., p1=... of the topic; return the errors."""
        named = {self.partition(int(each[1:])): at for each, at in offsets.items()}
        with SyncAdmin(address) as admin:
            changed = admin.alter_group_offsets(group or self.group, named)
            return dict(changed.errors)

    def committed(self, address: str, group: str = "") -> dict[int, CommittedOffset]:
        """Return the committed offsets of the topic by partition."""
        with SyncAdmin(address) as admin:
            found = admin.list_group_offsets(group or self.group).all()
        return {
            partition.partition: offset
            for partition, offset in found.items()
            if offset is not None and partition.topic == self.topic
        }

    def fetch_code(self, group: str = "") -> int:
        """Return the error code of one OffsetFetch of a group here."""
        asked = m.OffsetFetchRequestGroup(group_id=group or self.group, topics=None)
        with self.server.client() as client:
            answer = client.call(m.OffsetFetchRequest(groups=[asked]), 9)
        code: int = answer.groups[0].error_code
        return code
