"""The routes of the control API, each a call of `Kafka`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from coterie.broker import Server, ServerOptions
from coterie.errors import ClientError
from coterie.testing.control.data import DataRoutes
from coterie.testing.control.http import ControlRequest, Refused, Route, bad_request
from coterie.testing.control.parameters import (
    boolean,
    integer,
    number,
    refusals,
    required,
    text,
    timeout_s,
    unmet,
)
from coterie.testing.kafka import Kafka
from coterie.types import PORT_MAX

if TYPE_CHECKING:
    from coterie.testing.faults.fault import Fault
    from coterie.testing.recorder import Rebalance, RecordedRequest

_FAULTS_MAX: Final = 1_000
_ID_DIGITS_MAX: Final = 9
_DURATIONS: Final = ("days", "hours", "minutes", "seconds", "ms")
_FILTERS: Final = ("api", "group", "client_id", "topic", "member", "transactional_id")
_ARGUMENTS: Final[Mapping[str, Callable[..., Any]]] = {
    "api": text,
    "error": text,
    "group": text,
    "client_id": text,
    "topic": text,
    "member": text,
    "transactional_id": text,
    "ms": integer,
    "times": integer,
    "after": integer,
    "node": integer,
    "response": boolean,
    "close": boolean,
}
"""The arguments of faults."""


class ServedKafka(Kafka):
    """A `Kafka` with all parameters of `coterie serve`."""

    def __init__(self, options: ServerOptions) -> None:
        super().__init__()
        self._options = options

    @property
    def options(self) -> ServerOptions:
        """The parameters of the server."""
        return self._options

    def advertise(self, host: str, port: int) -> None:
        """Set the address that clients connect to, now and after a restart: node 1 has
        `port`, further nodes have the ports after it."""
        self._options = replace(
            self._options, advertised_host=host, advertised_port=port
        )

        def change(server: Server) -> None:
            for index, node in enumerate(server.nodes):
                node.host, node.port = host, port + index

        if self.is_running:
            self.call(change)


class ControlApi:
    """The routes for one server. Any thread may call them."""

    def __init__(self, kafka: ServedKafka) -> None:
        self._kafka = kafka
        self._lock = threading.Lock()
        """Held while the server starts or stops."""
        self._is_paused = False
        self._faults: dict[int, Fault] = {}
        """The faults that were not deleted; a restart ends them."""

    def routes(self) -> list[Route]:
        """Return all routes."""
        created = HTTPStatus.CREATED
        server = "/v1/server"
        return [
            Route("GET", "/v1", "List the routes", self._list_routes),
            Route("GET", "/v1/status", "Addresses, version, state", self._status),
            Route(
                "PUT", "/v1/advertised", "Set the advertised address", self._advertise
            ),
            Route("POST", f"{server}/kill", "Stop as kill -9 does", self._kill),
            Route("POST", f"{server}/restart", "Start again", self._restart),
            Route("POST", f"{server}/pause", "Stop responding", self._pause),
            Route("POST", f"{server}/resume", "Respond again", self._resume),
            Route("POST", "/v1/reset", "Delete everything", self._reset),
            Route("POST", "/v1/clock/advance", "Move the clock", self._advance),
            Route("POST", "/v1/faults", "Start a fault", self._start_fault, created),
            Route("GET", "/v1/faults", "List the faults", self._list_faults),
            Route("GET", "/v1/faults/{id}", "Return a fault", self._get_fault),
            Route("DELETE", "/v1/faults", "End all faults", self._end_faults),
            Route("DELETE", "/v1/faults/{id}", "End a fault", self._end_fault),
            Route("GET", "/v1/requests", "List requests", self._list_requests),
            Route("DELETE", "/v1/requests", "Forget requests", self._clear_requests),
            Route("GET", "/v1/rebalances", "List rebalances", self._list_rebalances),
            Route(
                "DELETE", "/v1/rebalances", "Forget rebalances", self._clear_rebalances
            ),
            *DataRoutes(self._running).routes(),
        ]

    def _list_routes(self, request: ControlRequest) -> Any:
        request.known()
        return {
            "routes": [
                {"method": route.method, "path": route.path, "summary": route.summary}
                for route in self.routes()
            ]
        }

    # The server.

    def _status(self, request: ControlRequest) -> Any:
        request.known()
        with self._lock:
            return self._state()

    def _state(self) -> dict[str, Any]:
        """Return the status. It is called with the lock held."""
        kafka = self._kafka
        state = "stopped"
        if kafka.is_running:
            state = "paused" if self._is_paused else "running"
        nodes = kafka.server.nodes if kafka.is_running else []
        return {
            "version": version("coterie"),
            "state": state,
            "bootstrap_servers": kafka.server.addresses if nodes else None,
            "nodes": [
                {"id": node.node_id, "host": node.host, "port": node.port}
                for node in nodes
            ],
            "now_ms": kafka.clock.now_ms,
        }

    def _advertise(self, request: ControlRequest) -> Any:
        request.known("host", "port")
        host = required(text(request.body, "host"), "host")
        port = required(integer(request.body, "port"), "port")
        if not host or not 0 < port <= PORT_MAX:
            raise bad_request(f"{host}:{port} is not an address", "send host and port")
        with self._lock, self._running() as kafka:
            kafka.advertise(host, port)
            return self._state()

    def _kill(self, request: ControlRequest) -> Any:
        request.known()
        with self._lock:
            if self._kafka.is_running:
                self._is_paused = False
                self._kafka.kill()
            return self._state()

    def _restart(self, request: ControlRequest) -> Any:
        request.known()
        with self._lock:
            self._is_paused = False
            self._kafka.restart()
            return self._state()

    def _pause(self, request: ControlRequest) -> Any:
        request.known()
        with self._lock:
            if not self._kafka.is_running:
                raise _stopped()
            self._kafka.pause()
            self._is_paused = True
            return self._state()

    def _resume(self, request: ControlRequest) -> Any:
        request.known()
        with self._lock:
            self._kafka.resume()
            self._is_paused = False
            return self._state()

    def _reset(self, request: ControlRequest) -> Any:
        """Start again with an empty log: nothing of an earlier test is left, whichever
        groups are still in use."""
        request.known()
        kafka = self._kafka
        if kafka.options.directory is not None:
            raise Refused(
                HTTPStatus.CONFLICT,
                f"the log in {kafka.options.directory} is kept",
                "start the server with --memory, or delete topics one by one",
            )
        with self._lock:
            self._is_paused = False
            self._faults.clear()
            kafka.faults.clear()
            kafka.close()
            kafka.start()
            kafka.requests.clear()
            kafka.rebalances.clear()
            return self._state()

    def _advance(self, request: ControlRequest) -> Any:
        request.known(*_DURATIONS, "keep_sessions")
        body = request.body
        parts = {name: number(body, name) for name in _DURATIONS if name in body}
        if not parts:
            raise bad_request("there is no duration", 'send {"days": 8}')
        keep = bool(boolean(body, "keep_sessions"))
        with self._running() as kafka, refusals():
            kafka.clock.advance(keep_sessions=keep, **parts)  # type: ignore[arg-type]
            return {"now_ms": kafka.clock.now_ms}

    # Faults.

    def _start_fault(self, request: ControlRequest) -> Any:
        request.known("kind", *_ARGUMENTS)
        body = request.body
        kind = required(text(body, "kind"), "kind")
        arguments = {
            name: _ARGUMENTS[name](body, name) for name in body if name != "kind"
        }
        if len(self._faults) >= _FAULTS_MAX:
            raise Refused(
                HTTPStatus.CONFLICT,
                f"there are {_FAULTS_MAX} faults",
                "DELETE /v1/faults ends them",
            )
        with self._running() as kafka, refusals():
            fault = kafka.faults.start(kind, **arguments)
        self._faults[fault.number] = fault
        return self._fault(fault)

    def _list_faults(self, request: ControlRequest) -> Any:
        request.known()
        return {"faults": [self._fault(each) for each in [*self._faults.values()]]}

    def _get_fault(self, request: ControlRequest) -> Any:
        """Return a fault; with `hits`, when it has that many."""
        request.known("hits", "timeout_ms")
        fault = self._find_fault(request)
        hits = integer(request.query, "hits")
        if hits is not None:
            with unmet():
                fault.wait_for_hit(hits, timeout_s(request))
        return self._fault(fault)

    def _end_fault(self, request: ControlRequest) -> Any:
        request.known()
        fault = self._find_fault(request)
        fault.remove()
        content = self._fault(fault)
        self._faults.pop(fault.number, None)
        return content

    def _end_faults(self, request: ControlRequest) -> Any:
        request.known()
        ended = [*self._faults.values()]
        self._kafka.faults.clear()
        self._faults.clear()
        return {"faults": [self._fault(each) for each in ended]}

    def _find_fault(self, request: ControlRequest) -> Fault:
        name = request.names["id"]
        is_id = name.isdecimal() and len(name) <= _ID_DIGITS_MAX
        fault = self._faults.get(int(name)) if is_id else None
        if fault is None:
            raise Refused(
                HTTPStatus.NOT_FOUND,
                f"there is no fault {name}",
                "GET /v1/faults lists those that were not deleted",
            )
        return fault

    def _fault(self, fault: Fault) -> dict[str, Any]:
        hits = [*fault.hits]
        return {
            "id": fault.number,
            "kind": fault.name,
            "arguments": fault.arguments,
            "active": fault in self._kafka.faults.active,
            "hits": len(hits),
            "requests": [_request(each) for each in hits],
        }

    # Recorded traffic.

    def _list_requests(self, request: ControlRequest) -> Any:
        """Return recorded requests; with `count`, when that many are answered."""
        request.known(*_FILTERS, "errors", "count", "timeout_ms")
        query = request.query
        filters = {name: query[name] for name in (*_FILTERS, "errors") if name in query}
        count = integer(query, "count")
        requests = self._kafka.requests
        with unmet(), refusals():
            found = (
                requests.of(**filters)
                if count is None
                else requests.wait_for(
                    count=count, timeout_s=timeout_s(request), **filters
                )
            )
        return {
            "requests": [_request(each) for each in found],
            "dropped": requests.dropped,
        }

    def _clear_requests(self, request: ControlRequest) -> Any:
        request.known()
        self._kafka.requests.clear()
        return {}

    def _list_rebalances(self, request: ControlRequest) -> Any:
        """Return recorded rebalances; with `count`, when that many of a group ended."""
        request.known("group", "count", "timeout_ms")
        group = request.query.get("group")
        count = integer(request.query, "count")
        rebalances = self._kafka.rebalances
        if count is not None:
            if group is None:
                raise bad_request("count needs a group", "add ?group=GROUP")
            with unmet():
                rebalances.wait_for(group, count=count, timeout_s=timeout_s(request))
        found = rebalances if group is None else rebalances.of(group)
        return {"rebalances": [_rebalance(each) for each in found]}

    def _clear_rebalances(self, request: ControlRequest) -> Any:
        request.known()
        self._kafka.rebalances.clear()
        return {}

    @contextmanager
    def _running(self) -> Iterator[ServedKafka]:
        """Yield the server; raise Refused when it does not respond."""
        if not self._kafka.is_running:
            raise _stopped()
        if self._is_paused:
            raise Refused(
                HTTPStatus.CONFLICT,
                "the server is paused",
                "POST /v1/server/resume lets it respond again",
            )
        try:
            yield self._kafka
        except (RuntimeError, ClientError, TimeoutError) as error:
            raise Refused(
                HTTPStatus.CONFLICT,
                f"the server was stopped or paused meanwhile: {error}",
                "send the request again when it runs",
            ) from error


def _stopped() -> Refused:
    return Refused(
        HTTPStatus.CONFLICT,
        "the server was killed",
        "POST /v1/server/restart starts it again",
    )


def _request(each: RecordedRequest) -> dict[str, Any]:
    names = (
        "time_ms",
        "node",
        "connection",
        "client",
        "client_id",
        "principal",
        "api",
        "version",
        "groups",
        "members",
        "topics",
        "transactional_id",
        "record_bytes",
        "errors",
        "fault",
        "duration_ms",
        "is_done",
    )
    return {name: getattr(each, name) for name in names}


def _rebalance(each: Rebalance) -> dict[str, Any]:
    return {name: getattr(each, name) for name in each.__slots__}
