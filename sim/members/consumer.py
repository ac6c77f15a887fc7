"""A member that speaks KIP-848, as its server sees it (E7.9).

It owns what it was told to, gives up what it is told to give up and takes its time, and
says so at once when it has. When its server fences it or forgets it, it lets everything
go and comes back.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from coterie.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from coterie.types import GroupId, TopicId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from sim.clock import Alarm, Clock
from sim.network import Network
from sim.transcript import Transcript

PATIENCE_MS: Final = 2_000
RETRY_MS: Final = 300
_FENCED: Final = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)

_FATAL: Final = (
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)
GIVES_UP: Final = 0.3
"""A member with an instance id that is taken asks a few times more."""

Partition = tuple[TopicId, int]


class Surroundings(NamedTuple):
    """What a member lives in."""

    clock: Clock
    network: Network
    dice: random.Random
    transcript: Transcript


class ConsumerMember:
    """One client. `owned` is what it believes it may read, now."""

    def __init__(
        self,
        member_id: str,
        group_id: GroupId,
        topics: tuple[str, ...],
        around: Surroundings,
        *,
        instance_id: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_id = group_id
        self.topics = topics
        self.instance_id = instance_id
        self.epoch = JOIN_EPOCH
        self.owned: set[Partition] = set()
        self.wanted: set[Partition] = set()
        self.is_alive = True
        self.is_hung = False
        self.slowness_ms = around.dice.choice([0, 0, 0, 200, 1_500])
        self.rebalance_timeout_ms = around.dice.choice([3_000, 6_000])
        self.interval_ms = 1_000
        self.assignor: str | None = None
        self._clock, self._network, self._dice, self._transcript = around
        self._is_full = True
        self._acked: frozenset[Partition] | None = None
        self._sent = 0
        self._awaited = 0
        self._beat: Alarm | None = None
        self._is_revoking = False
        self._beat_in(0)

    @property
    def name(self) -> str:
        """How the transcript calls it."""
        return self.member_id

    @property
    def is_joined(self) -> bool:
        """Whether it believes to be in the group."""
        return self.is_alive and self.epoch > JOIN_EPOCH

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Want other topics from the next heartbeat on."""
        self.topics = topics
        self._is_full = True
        self._beat_in(0)

    def crash(self) -> None:
        """Be gone without a word."""
        self._end("crashes")

    def leave(self) -> None:
        """Let everything go, say so, and be gone."""
        self.owned.clear()
        epoch = LEAVE_EPOCH
        if self.instance_id is not None and self._dice.random() < 0.5:
            epoch = STATIC_LEAVE_EPOCH
        if self.epoch > JOIN_EPOCH:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=epoch,
                instance_id=self.instance_id,
            )
            self._network.ask(self.name, self.group_id, request, 1, lambda _: None)
        self._end(f"leaves with {epoch}")

    def _end(self, how: str) -> None:
        self._transcript.say(self.name, how)
        self.is_alive = False
        self.owned.clear()
        if self._beat is not None:
            self._beat.cancel()

    # Heartbeats.

    def _beat_in(self, delay_ms: int) -> None:
        if self._beat is not None:
            self._beat.cancel()
        self._beat = self._clock.after(delay_ms, self._heartbeat)

    def _heartbeat(self) -> None:
        if not self.is_alive:
            return
        if self.is_hung:
            self._beat_in(self.interval_ms)
            return
        if self._awaited and self._clock.now_ms - self._awaited < PATIENCE_MS:
            self._beat_in(RETRY_MS)
            return
        if self._awaited:
            self._is_full = True  # an answer was lost (E7-75)
        self._awaited = self._clock.now_ms
        self._sent += 1
        number, reported = self._sent, frozenset(self.owned)
        self._network.ask(
            self.name,
            self.group_id,
            self._request(reported),
            1,
            lambda response: self._answered(number, reported, response),
        )
        self._beat_in(self.interval_ms)

    def _request(self, reported: frozenset[Partition]) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
        )
        if self._is_full:
            request.rebalance_timeout_ms = self.rebalance_timeout_ms
            request.subscribed_topic_names = list(self.topics)
            request.server_assignor = self.assignor
        if self._is_full or self._acked != reported:
            request.topic_partitions = _by_topic(reported)
        return request

    def _answered(
        self, number: int, reported: frozenset[Partition], answer: Any
    ) -> None:
        if not self.is_alive or number != self._sent:
            return
        self._awaited = 0
        code = answer.error_code
        if code:
            self._refused(code)
            return
        if answer.member_epoch != self.epoch:
            self._acked = None
        else:
            self._acked = reported
        self._is_full = False
        self.epoch = answer.member_epoch
        self.interval_ms = answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.wanted = {
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
            self._transcript.say(
                self.name, f"at {self.epoch} shall own {outline(self.wanted)}"
            )
            self._go_on()

    def _refused(self, code: int) -> None:
        self._transcript.say(self.name, f"at {self.epoch}: {ErrorCode(code).name}")
        self._is_full = True
        if code in _FATAL and self._dice.random() < GIVES_UP:
            self._end("gives up")
        elif code in _FENCED:
            self.owned.clear()
            self.wanted.clear()
            self.epoch = JOIN_EPOCH
            self._beat_in(0)
        else:
            self._beat_in(RETRY_MS)

    # Owning.

    def _go_on(self) -> None:
        """Give up first, which takes a while; then take over what is new."""
        if self._is_revoking:
            return
        if self.owned - self.wanted:
            self._is_revoking = True
            self._clock.after(self.slowness_ms, self._revoked)
        elif self.owned != self.wanted:
            self.owned = set(self.wanted)
            self._beat_in(0)

    def _revoked(self) -> None:
        self._is_revoking = False
        if not self.is_alive:
            return
        gone = self.owned - self.wanted
        if gone:
            self._transcript.say(self.name, f"has given up {outline(gone)}")
        self.owned = set(self.wanted)
        self._beat_in(0)


def _by_topic(partitions: frozenset[Partition]) -> list[TopicPartitions]:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return [
        TopicPartitions(topic_id=topic_id, partitions=some)
        for topic_id, some in topics.items()
    ]


def outline(partitions: set[Partition] | Mapping[Partition, Any]) -> str:
    """Partitions for people: the number of the topic, and of the partition."""
    return (
        " ".join(f"{int.from_bytes(topic)}-{p}" for topic, p in sorted(partitions))
        or "nothing"
    )
