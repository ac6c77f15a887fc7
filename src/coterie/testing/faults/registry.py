"""The faults of one server: how they are made, listed and removed.

    with kafka.faults.reply("OffsetCommit", "NOT_COORDINATOR", times=2) as fault:
        ...
    assert fault.hits[0].group == "billing"

All methods are safe in any thread. Their arguments are strings and numbers, and
`start` takes the name of a fault, so that the HTTP control API offers the same faults.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from coterie.broker import Broker
from coterie.testing.clock import running_loop
from coterie.testing.faults.coordinators import (
    CoordinatorMoves,
    CoordinatorReloads,
    move_group,
    move_transactions,
)
from coterie.testing.faults.disk import DiskFull
from coterie.testing.faults.fault import Fault, Matching, rule_of
from coterie.testing.faults.members import Fence, fence_member
from coterie.testing.faults.requests import (
    Delay,
    DropConnections,
    DropResponse,
    Loading,
    LoseRequest,
    Reply,
    ThrottleRequests,
)
from coterie.testing.names import GROUP_APIS, TRANSACTION_APIS, error_named
from coterie.testing.recorder import RecordedRequest, Requests

if TYPE_CHECKING:
    from coterie.wire.error_codes import ErrorCode

_LOOP_S: Final = 30.0
Value = TypeVar("Value")
AnyFault = TypeVar("AnyFault", bound=Fault)


class Faults:
    """The faults of one server. A request meets the first active fault that matches
    it."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._active: tuple[Fault, ...] = ()
        self._count = 0
        self._broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open_peers: Callable[[], list[Any]] = list

    # Faults of requests.

    def reply(self, api: str | None, error: str, **matching: Unpack[Matching]) -> Fault:
        """Reply to requests of `api` with an error; do not handle them.

        `api` and `error` are Kafka's names; None stands for all APIs.
        """
        code: ErrorCode = error_named(error)
        return self._add(Reply(rule_of(api, matching, required=True), code))

    def delay(
        self,
        api: str | None,
        ms: int,
        *,
        response: bool = False,
        **matching: Unpack[Matching],
    ) -> Fault:
        """Handle requests `ms` later; with `response`, handle them at once and send
        their responses later. Raises ValueError for a negative delay."""
        if not 0 <= ms < math.inf:
            raise ValueError(f"{ms} is not a delay in milliseconds")
        rule = rule_of(api, matching, required=True)
        return self._add(Delay(rule, ms, response=response))

    def drop_response(
        self,
        api: str | None = None,
        *,
        close: bool = True,
        **matching: Unpack[Matching],
    ) -> Fault:
        """Apply requests and send no response: close the connection or, with
        `close=False`, leave it open, so that the client's request times out."""
        rule = rule_of(api, matching, required=True)
        return self._add(DropResponse(rule, close=close))

    def lose_request(
        self,
        api: str | None = None,
        *,
        close: bool = True,
        **matching: Unpack[Matching],
    ) -> Fault:
        """Do not apply requests, and send no response, as `drop_response` does."""
        rule = rule_of(api, matching, required=True)
        return self._add(LoseRequest(rule, close=close))

    def drop_connections(
        self, api: str | None = None, **matching: Unpack[Matching]
    ) -> Fault:
        """Close the connections on which a matching request arrives, at its arrival.

        Without filters, connections that are open are closed at once too.
        """
        rule = rule_of(api, matching, required=bool(api or matching))
        if not (api or matching):
            self._in_loop(self._abort_open)
        return self._add(DropConnections(rule))

    def throttle(self, api: str | None, ms: int, **matching: Unpack[Matching]) -> Fault:
        """Set the throttle time in responses and mute the connection for it, as quotas
        do."""
        rule = rule_of(api, matching, required=True)
        return self._add(ThrottleRequests(rule, ms))

    def loading(self, **matching: Unpack[Matching]) -> Fault:
        """Reply COORDINATOR_LOAD_IN_PROGRESS to the requests of a group, or of all."""
        return self._add(Loading(rule_of(GROUP_APIS, matching, required=True)))

    # Faults of the server's state.

    def coordinator_moves(
        self,
        group: str | None = None,
        *,
        transactional_id: str | None = None,
        node: int | None = None,
    ) -> Fault:
        """Move the coordinator of a group or of a transactional id to another node, by
        default to the next one.

        The group is loaded again from the log, so that joins in progress are lost. On a
        server with one node, requests get NOT_COORDINATOR until a client that was
        refused looks the coordinator up again.
        """
        if (group is None) == (transactional_id is None):
            raise ValueError("name a group or a transactional id")
        apis = GROUP_APIS if group is not None else TRANSACTION_APIS
        matching: Matching = {"group": group, "transactional_id": transactional_id}
        rule = rule_of(apis, matching, required=False)
        broker = self._server()[0]
        one = len(broker.nodes) == 1
        fault: Fault = CoordinatorReloads(rule) if one else CoordinatorMoves(rule)

        def move() -> None:
            if group is not None:
                move_group(broker, group, node)
            elif transactional_id is not None:
                move_transactions(broker, transactional_id, node)
            self._add(fault)

        self._in_loop(move)
        return fault

    def fence(self, group: str, member: str) -> Fault:
        """Fence a member of a group, given by its member id or instance id.

        A static member is replaced by a new one with its instance id and gets
        FENCED_INSTANCE_ID; a dynamic one is removed and gets UNKNOWN_MEMBER_ID. Raises
        ValueError when the group has no such member.
        """
        rule = rule_of(None, {"group": group, "member": member}, required=False)
        broker = self._server()[0]
        self._in_loop(lambda: fence_member(broker, group, member))
        return self._add(Fence(rule))

    def disk_full(self, *, times: int | None = None) -> DiskFull:
        """Fail the writes of the log for lack of space, all or the next `times`."""
        rule = rule_of(None, {"times": times}, required=False)
        broker = self._server()[0]
        return self._add(self._in_loop(lambda: DiskFull(rule, broker)))

    # The set of faults.

    def start(self, name: str, **arguments: Any) -> Fault:
        """Start the fault with a name of `NAMES`. Raises ValueError for unknown names
        and TypeError for arguments that it does not have."""
        if name not in NAMES:
            raise ValueError(
                f"there is no fault {name!r}; there are {', '.join(NAMES)}"
            )
        fault: Fault = getattr(self, name)(**arguments)
        fault.arguments = arguments
        return fault

    @property
    def active(self) -> tuple[Fault, ...]:
        """The faults that were not removed, oldest first."""
        return self._active

    def clear(self) -> None:
        """Remove all faults."""
        for fault in reversed(self._active):
            fault.remove()

    # Called by `Traffic`.

    def attach(
        self,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        open_peers: Callable[[], list[Any]],
    ) -> None:
        """Set the server."""
        self._broker, self._loop, self._open_peers = broker, loop, open_peers

    def detach(self) -> None:
        """Remove all faults and forget the server."""
        self.clear()
        self._broker = self._loop = None
        self._open_peers = list

    def claim(self, recorded: RecordedRequest) -> Fault | None:
        """Return the fault that hits a request."""
        for fault in self._active:
            if fault.claim(recorded):
                return fault
        return None

    def observe(self, recorded: RecordedRequest) -> None:
        """Pass a request that is done to the faults."""
        for fault in self._active:
            fault.observe(recorded)

    def _add(self, fault: AnyFault) -> AnyFault:
        with self._lock:
            self._count += 1
            seen = len(self._requests) + self._requests.dropped
            fault.activate(self._count, self._remove, lambda: self._since(seen))
            self._active = (*self._active, fault)
        return fault

    def _remove(self, fault: Fault) -> None:
        with self._lock:
            self._active = tuple(each for each in self._active if each is not fault)
        fault.end()

    def _since(self, seen: int) -> list[RecordedRequest]:
        """Return the requests after the first `seen`, as far as they are kept."""
        return list(self._requests)[max(0, seen - self._requests.dropped) :]

    def _abort_open(self) -> None:
        for peer in self._open_peers():
            peer.abort()

    def _server(self) -> tuple[Broker, asyncio.AbstractEventLoop]:
        if self._broker is None or self._loop is None:
            raise RuntimeError("the server is not running")
        return self._broker, self._loop

    def _in_loop(self, work: Callable[[], Value]) -> Value:
        """Call `work` in the server's event loop; return its result."""
        loop = self._server()[1]
        if running_loop() is loop:
            return work()
        done: Future[Value] = Future()

        def call() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        loop.call_soon_threadsafe(call)
        return done.result(_LOOP_S)


NAMES: Final[Mapping[str, inspect.Signature]] = {
    name: inspect.signature(getattr(Faults, name))
    for name in (
        "reply",
        "delay",
        "drop_response",
        "lose_request",
        "drop_connections",
        "throttle",
        "loading",
        "coordinator_moves",
        "fence",
        "disk_full",
    )
}
"""The faults by name, with the signature of their method. `Matching` lists the options
of those with `**matching`."""
