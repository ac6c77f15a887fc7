"""Consumer groups (KIP-848) joined for real: what is measured is a living group.

Members of one group share a connection: to a server a member is its id, not its socket.
Rules of this file: ConsumerGroupHeartbeat 1; a member owns what it was told at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peer import Peer, frame
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

VERSION, ERROR_AT = 1, 9
ROUNDS_MAX = 60
TARGET_S = 1.1
"""A group's next target is made a second after its last."""
REBALANCE_MS = 60_000


@dataclass(slots=True)
class Joined:
    """One member."""

    peer: Peer
    group: str
    member_id: str
    epoch: int = 0
    owned: list[TopicPartitions] | None = None

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """What this member sends as long as nothing changes."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.epoch
        )

    def join(self, topic: str) -> None:
        """The first heartbeat."""
        request = self.heartbeat()
        request.rebalance_timeout_ms = REBALANCE_MS
        request.subscribed_topic_names = [topic]
        request.subscribed_topic_regex = ""  # librdkafka's mock wants both or none
        request.topic_partitions = []
        self._send(request)

    def beat(self) -> bool:
        """One heartbeat, with what is owned; whether it brought anything new."""
        request = self.heartbeat()
        request.topic_partitions = self.owned
        return self._send(request)

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> bool:
        answer = self.peer.call(request, ConsumerGroupHeartbeatResponse, VERSION)
        if answer.error_code:
            raise RuntimeError(f"heartbeat: {answer.error_code} {answer.error_message}")
        is_news = answer.assignment is not None or answer.member_epoch != self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions
        return is_news


@contextlib.contextmanager
def joined(
    address: str, groups: Sequence[str], members: int, topic: str
) -> Iterator[list[Joined]]:
    """Stable groups of so many members each, subscribed to a topic."""
    peers = {group: Peer(address) for group in groups}
    everybody = [
        Joined(peers[group], group, f"{group}-{number}")
        for group in groups
        for number in range(members)
    ]
    try:
        for member in everybody:
            member.join(topic)
        settle(everybody)
        yield everybody
    finally:
        for peer in peers.values():
            peer.close()


def settle(everybody: Sequence[Joined]) -> None:
    """Beat until a round brings nothing new to anybody, and a new target has had its
    time to be made."""
    quiet = 0
    for _ in range(ROUNDS_MAX):
        news = [member.beat() for member in everybody]
        epochs = {(member.group, member.epoch) for member in everybody}
        together = len(epochs) == len({member.group for member in everybody})
        quiet = 0 if any(news) or not together else quiet + 1
        if quiet == 2:
            return
        if not any(news):
            time.sleep(TARGET_S)
    raise RuntimeError("the groups did not settle")


def heartbeats(
    address: str, groups: Sequence[str], members: int, topic: str
) -> list[bytes]:
    """Frames of steady heartbeats; their members live for one session without them."""
    with joined(address, groups, members, topic) as everybody:
        return [frame(member.heartbeat(), VERSION) for member in everybody]
