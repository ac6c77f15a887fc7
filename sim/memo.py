"""The memo of steady heartbeats (server/steady.py), held against the whole way: what it
would answer is what the coordinator answers, and that changes nothing but a session."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, cast

from coterie.coordinator.result import TimerKey
from coterie.runtime.shards import DrivenShard
from coterie.server.node import Node
from coterie.server.steady import SteadyHeartbeats
from coterie.wire.codec import encode
from coterie.wire.headers import FRONT_BYTES
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.schema import Message
from sim.broken import Broken
from sim.network import Call
from sim.server import Server

_FRONT: Final = bytes(FRONT_BYTES - 4)
_CORRELATION: Final = bytes(4)
_ANSWER_HEAD: Final = bytes(8)


class Memos:
    """The memos of all connections to one life of the server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        broker = SimpleNamespace(
            flusher=server.flusher,
            authorizer=SimpleNamespace(version=0),
            clock=server.clock,
            catalog=SimpleNamespace(group_configs=server.configs),
            runtime=server.runtime,
        )
        self._node = cast(Node, SimpleNamespace(broker=broker))
        self._memos: dict[str, SteadyHeartbeats] = {}

    def watch(self, call: Call, driven: DrivenShard) -> Callable[[Any], None]:
        """A request is about to be handled; call what is returned with its answer, None
        if it has none yet. Raises Broken."""
        request = call.request
        if not isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
            return lambda _: None
        memo = self._memos.get(call.who)
        if memo is None:
            memo = self._memos[call.who] = SteadyHeartbeats(self._node)
        version = call.caller.api_version
        frame = _FRONT + _CORRELATION + encode(request, version)
        told = memo.answer(frame)
        before = self._traces(driven, request)

        def answered(answer: Message | None) -> None:
            body = None if answer is None else encode(answer, version)
            if told is None:
                if body is not None:
                    memo.learn(frame, request, _ANSWER_HEAD + body)
            elif told[len(_ANSWER_HEAD) :] != body:
                raise Broken(f"the memo has another answer than {answer}")
            elif self._traces(driven, request) != before:
                raise Broken(f"the memo answers what is to be handled: {request}")

        return answered

    def _traces(
        self, driven: DrivenShard, request: HeartbeatRequest | Any
    ) -> tuple[int, int, int | None]:
        """What handling a request changes: groups, the log, its own session."""
        key: TimerKey = ("session", request.group_id, request.member_id)
        entry = driven.timers.entries.get(key)
        next_offset = self.server.disk.bounds(driven.where).next_offset
        deadline_ms = None if entry is None else entry.deadline_ms
        return driven.version, next_offset, deadline_ms
