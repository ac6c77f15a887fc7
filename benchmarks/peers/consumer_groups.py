"""Stable groups of the consumer protocol (KIP-848), for measuring their heartbeats.

The members of a group share a connection: a server identifies a member by its id. The
members use ConsumerGroupHeartbeat 1. A member acknowledges its assignment at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peers.connection import Connection, frame
from coterie.wire import messages as m

VERSION, ERROR_AT = 1, 9
ROUNDS_MAX = 60
TARGET_S = 1.1
"""A group computes its next target assignment a second after the last one."""
REBALANCE_MS = 1_800_000
"""The first members send no heartbeat while thousands of others join."""


@dataclass(slots=True)
class JoinedMember:
    """A member of a group, with its connection and its owned partitions."""

    connection: Connection
    group: str
    member_id: str
    epoch: int = 0
    owned: list[m.TopicPartitions] | None = None

    def heartbeat(self) -> m.ConsumerGroupHeartbeatRequest:
        """Return the request of a stable member's heartbeat."""
        return m.ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )

    def join(self, topic: str) -> None:
        """Join the group by the first heartbeat."""
        self.send_join(topic)
        self.receive()

    def send_join(self, topic: str) -> None:
        """Send the first heartbeat, which joins the group."""
        request = self.heartbeat()
        request.rebalance_timeout_ms = REBALANCE_MS
        request.subscribed_topic_names = [topic]
        request.subscribed_topic_regex = ""  # librdkafka's mock: both or neither
        request.topic_partitions = []
        self.connection.send(request, VERSION)

    def send_heartbeat(self, *, with_partitions: bool = True) -> None:
        """Send a heartbeat, with the owned partitions to acknowledge them."""
        request = self.heartbeat()
        if with_partitions:
            request.topic_partitions = self.owned
        self.connection.send(request, VERSION)

    def receive(self) -> bool:
        """Receive the response to a heartbeat; return whether the epoch or the
        assignment changed.
        """
        response = self.connection.receive(m.ConsumerGroupHeartbeatResponse, VERSION)
        if response.error_code:
            raise RuntimeError(
                f"heartbeat: {response.error_code} {response.error_message}"
            )
        is_changed = (
            response.assignment is not None or response.member_epoch != self.epoch
        )
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = response.assignment.topic_partitions
        return is_changed


@contextlib.contextmanager
def joined(
    address: str, groups: Sequence[str], group_size: int, topic: str
) -> Iterator[list[JoinedMember]]:
    """Form stable groups of `group_size` members each, subscribed to a topic."""
    connections = {group: Connection(address) for group in groups}
    members = [
        JoinedMember(connections[group], group, f"{group}-{number}")
        for group in groups
        for number in range(group_size)
    ]
    try:
        for member in members:
            member.join(topic)
        _wait_until_stable(members)
        yield members
    finally:
        for connection in connections.values():
            connection.close()


def _wait_until_stable(members: Sequence[JoinedMember]) -> None:
    """Send heartbeats until two consecutive rounds change nothing.

    Between the rounds the group has time to compute another target assignment.
    """
    quiet_rounds = 0
    for _ in range(ROUNDS_MAX):
        changes = []
        for member in members:
            member.send_heartbeat()
            changes.append(member.receive())
        epochs = {(member.group, member.epoch) for member in members}
        together = len(epochs) == len({member.group for member in members})
        quiet_rounds = 0 if any(changes) or not together else quiet_rounds + 1
        if quiet_rounds == 2:
            return
        if not any(changes):
            time.sleep(TARGET_S)
    raise RuntimeError("the groups did not become stable")


def heartbeat_frames(
    address: str, groups: Sequence[str], group_size: int, topic: str
) -> list[bytes]:
    """Form groups and return the frames of their heartbeats.

    Without heartbeats the members are removed after one session timeout.
    """
    with joined(address, groups, group_size, topic) as members:
        return [frame(member.heartbeat(), VERSION) for member in members]
