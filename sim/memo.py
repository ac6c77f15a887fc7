"""Compare the heartbeat memo with the full handling of every heartbeat. The memo's
response must equal the coordinator's, and handling the request must change nothing but
the session.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from coterie.broker.coordinator.result import TimerKey
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import DrivenShard
from coterie.broker.server.broker import Counts, Node
from coterie.broker.server.heartbeat_memo import HeartbeatMemo
from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.framing import HEADER_V0_BYTES
from coterie.wire.schema import Message
from sim.broken import Broken
from sim.network import Call
from sim.server import ServerEnvironment

_FRONT: Final = bytes(HEADER_V0_BYTES - 4)
_CORRELATION: Final = bytes(4)
_ANSWER_HEAD: Final = bytes(8)


class MemoServer(Protocol):
    """A process with heartbeat memos."""

    runtime: Runtime
    environment: ServerEnvironment
    clock: Callable[[], int]


class Memos:
    """The heartbeat memos of all connections to one server process."""

    def __init__(self, server: MemoServer) -> None:
        broker = SimpleNamespace(
            authorizer=SimpleNamespace(version=0),
            data=SimpleNamespace(clock=server.clock),
            catalog=SimpleNamespace(
                group_configs=server.environment.configs,
                client_quotas=SimpleNamespace(version=0),
            ),
            runtime=server.runtime,
            counts=Counts(),
        )
        self._node = cast(Node, SimpleNamespace(broker=broker))
        self._memos: dict[str, HeartbeatMemo] = {}

    def watch(self, call: Call, driven: DrivenShard) -> Callable[[Any], None]:
        """Return the callback for the response to a request; its argument is None for a
        response that is not sent at once. The callback raises Broken on a difference.
        """
        request = call.request
        if not isinstance(
            request, m.HeartbeatRequest | m.ConsumerGroupHeartbeatRequest
        ):
            return lambda _: None
        memo = self._memos.get(call.who)
        if memo is None:
            memo = self._memos[call.who] = HeartbeatMemo(self._node)
        version = call.caller.api_version
        frame = _FRONT + _CORRELATION + encode(request, version)
        remembered = memo.respond(frame)
        before = self._traces(driven, request)

        def answered(answer: Message | None) -> None:
            body = None if answer is None else encode(answer, version)
            if remembered is None:
                if body is not None:
                    memo.store(frame, request, _ANSWER_HEAD + body)
            elif remembered[len(_ANSWER_HEAD) :] != body:
                raise Broken(f"the memo's response differs from {answer}")
            elif self._traces(driven, request) != before:
                raise Broken(
                    f"the memo responds to a request that must be handled: {request}"
                )

        return answered

    def _traces(
        self, driven: DrivenShard, request: m.HeartbeatRequest | Any
    ) -> tuple[int, int, int | None]:
        """Return the state that a request may change: groups, the log, the member's
        session."""
        key: TimerKey = ("session", request.group_id, request.member_id)
        entry = driven.timers.entries.get(key)
        next_offset = driven.log.bounds(driven.where).next_offset
        deadline_ms = None if entry is None else entry.deadline_ms
        return driven.version, next_offset, deadline_ms
