"""Faults of single requests: answered with an error, late, or not at all."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from coterie.broker import Handler
from coterie.testing.faults.error_reply import reply_error
from coterie.testing.faults.fault import Fault, Rule
from coterie.testing.faults.members import remove_members
from coterie.testing.faults.recorded_call import RecordedCall
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)


class Reply(Fault):
    """Requests that are answered with an error; of requests with several topics or
    groups, those that the filter matches.

    A member that gets UNKNOWN_MEMBER_ID is removed: it joins as a new one, which would
    wait for the session of the old one otherwise.
    """

    name = "reply"

    def __init__(self, rule: Rule, code: ErrorCode) -> None:
        super().__init__(rule)
        self._code = code

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        if self._code is ErrorCode.UNKNOWN_MEMBER_ID:
            wanted, recorded = self.rule.filter, call.recorded
            for group in recorded.groups if wanted.group is None else (wanted.group,):
                names = recorded.members if wanted.member is None else (wanted.member,)
                remove_members(call.node.broker, group, names)
        reply_error(call, handler, self._code, self.rule.filter)


class Loading(Fault):
    """Groups whose coordinator is loading. Heartbeats of classic members succeed
    meanwhile (Kafka's `GroupCoordinatorService.heartbeat`)."""

    name = "loading"

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        is_heartbeat = call.recorded.api == "Heartbeat"
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        code = ErrorCode.NONE if is_heartbeat else loading
        reply_error(call, handler, code, self.rule.filter)


class Delay(Fault):
    """Requests that are handled late, or whose responses are sent late.

    Later requests of the connection wait too, as in Kafka.
    """

    name = "delay"

    def __init__(self, rule: Rule, ms: int, *, response: bool) -> None:
        super().__init__(rule)
        self._delay_s = ms / 1000
        self._of_response = response

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        call.peer.hold_requests()
        loop = asyncio.get_running_loop()
        if self._of_response:
            call.intercept = lambda response: self._later(loop, call, response)
            handler(call)
        else:
            loop.call_later(self._delay_s, _handle_late, handler, call)

    def _later(
        self, loop: asyncio.AbstractEventLoop, call: RecordedCall, response: Any
    ) -> None:
        loop.call_later(self._delay_s, call.send, response)


def _handle_late(handler: Handler, call: RecordedCall) -> None:
    try:
        handler(call)
    except Exception:
        _LOGGER.exception("a bug in handling a delayed request")
        call.abort()


class DropResponse(Fault):
    """Requests that are applied and not answered."""

    name = "drop_response"

    def __init__(self, rule: Rule, *, close: bool) -> None:
        super().__init__(rule)
        self._close = close

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        call.intercept = partial(call.drop, close=self._close)
        handler(call)


class LoseRequest(DropResponse):
    """Requests that are neither applied nor answered."""

    name = "lose_request"

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        call.drop(close=self._close)


class DropConnections(Fault):
    """Connections that are closed when a request arrives on them."""

    name = "drop_connections"

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        call.abort()


class ThrottleRequests(Fault):
    """Requests that are answered at once, with a throttle time for which their
    connection is muted (KIP-219)."""

    name = "throttle"

    def __init__(self, rule: Rule, ms: int) -> None:
        super().__init__(rule)
        self._throttle_ms = ms

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        call.intercept = partial(self._send, call)
        handler(call)

    def _send(self, call: RecordedCall, response: Any) -> None:
        if hasattr(response, "throttle_time_ms"):
            throttle_ms = max(response.throttle_time_ms, self._throttle_ms)
            response.throttle_time_ms = throttle_ms
        peer: Any = call.peer
        peer.mute(self._throttle_ms)
        call.send(response)
