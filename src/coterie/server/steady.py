"""The memo of steady heartbeats: the same bytes in, the same bytes out.

A member of a settled group sends the same heartbeat again and again, but for the
correlation id, and gets the same answer. Once one of them has gone the whole way, those
after it need not be decoded, decided and encoded again: only the session timer is set.

When it holds: the answer was success; since then no group of that shard has changed
(`DrivenShard.version`), the timer is the same one, nothing that the shard wrote waits
for the disk, no rule of who may do what and no group's configuration has changed, and
the group has nothing to look at by itself. Otherwise the heartbeat goes the whole way.
A memo is one session's, so its principal and its node are fixed.

tests/server/test_steady.py holds it against the whole way, request by request.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

from coterie.coordinator.classic import heartbeat as classic
from coterie.coordinator.consumer import steady as consumer
from coterie.coordinator.result import Session
from coterie.runtime.shards import DrivenShard, Phase
from coterie.runtime.timers import Entry
from coterie.server.node import Node
from coterie.wire.api import ApiKey
from coterie.wire.headers import FRONT_BYTES
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest

_Request: TypeAlias = HeartbeatRequest | ConsumerGroupHeartbeatRequest

HEARTBEAT_FRONTS: Final = tuple(
    struct.pack(">h", key)
    for key in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
)
CORRELATION_AT: Final = 4
REMEMBERED_MAX: Final = 1_024
"""Members that one connection may speak for before the memo begins anew."""
_ANSWER_HEAD_BYTES: Final = 8
_VERSION_AT: Final = 3
_THROTTLE_BYTES: Final = 4
_NO_ERROR: Final = bytes(2)


class _Steady:
    """What is known of one heartbeat."""

    __slots__ = (
        "configs",
        "driven",
        "entry",
        "front",
        "head",
        "rules",
        "tail",
        "timeout",
        "until",
        "version",
    )

    def __init__(
        self,
        driven: DrivenShard,
        entry: Entry,
        session: Session,
        *,
        rules: int,
        configs: int,
    ) -> None:
        self.driven = driven
        self.version = driven.version
        self.entry = entry
        self.timeout = session.timeout_ms
        self.until = session.steady_until_ms
        self.rules = rules
        self.configs = configs
        self.front = self.head = self.tail = b""


class SteadyHeartbeats:
    """The memo of one session."""

    def __init__(self, node: Node) -> None:
        broker = node.broker
        self._node = node
        self._flusher = broker.flusher
        self._authorizer = broker.authorizer
        self._clock = broker.clock
        self._configs = broker.catalog.group_configs
        self._known: dict[bytes, _Steady] = {}

    def answer(self, frame: bytes) -> bytes | None:
        """The whole answer to a heartbeat's frame, or None when it is to go the whole
        way."""
        known = self._known.get(frame[FRONT_BYTES:])
        if known is None or not frame.startswith(known.front):
            return None
        driven, entry = known.driven, known.entry
        if (
            driven.version != known.version
            or driven.written_sequence > self._flusher.durable_sequence
            or entry.table.entries.get(entry.key) is not entry
            or self._authorizer.version != known.rules
            or self._configs.version != known.configs
        ):
            return None
        now_ms = self._clock()
        if now_ms >= known.until:
            return None
        entry.deadline_ms = now_ms + known.timeout
        return known.head + frame[CORRELATION_AT:FRONT_BYTES] + known.tail

    def learn(self, frame: bytes, request: _Request, answer: bytes) -> None:
        """Remember a heartbeat that has just been answered, if it was steady."""
        if not _is_success(frame, request, answer):
            return  # who was refused is not heard of, so its session is to end
        runtime = self._node.broker.runtime
        driven = runtime.shards[runtime.shard_of(request.group_id)]
        if driven.phase is not Phase.ACTIVE:
            return
        state: Any = driven.shard.state
        session: Session | None
        if isinstance(request, HeartbeatRequest):
            session = classic.session_of(state, request)
        else:
            session = consumer.session_of(state, request, self._configs)
        if session is None:
            return
        entry = driven.timers.entries.get(session.key)
        if entry is None:
            return
        if len(self._known) >= REMEMBERED_MAX:
            self._known.clear()
        known = _Steady(
            driven,
            entry,
            session,
            rules=self._authorizer.version,
            configs=self._configs.version,
        )
        known.front = frame[:CORRELATION_AT]
        known.head = answer[:CORRELATION_AT]
        known.tail = answer[_ANSWER_HEAD_BYTES:]
        self._known[frame[FRONT_BYTES:]] = known


def _is_success(frame: bytes, request: _Request, answer: bytes) -> bool:
    """Whether an answer has no error. The code stands behind the header and, in all
    versions but the first of Heartbeat, a throttle time."""
    version = frame[_VERSION_AT]
    at = _ANSWER_HEAD_BYTES + (version in request.FLEXIBLE)
    if version or isinstance(request, ConsumerGroupHeartbeatRequest):
        at += _THROTTLE_BYTES
    return answer[at : at + len(_NO_ERROR)] == _NO_ERROR
