"""The routes of the live page: its files, the events, details of groups, and changes.

GET  /                     the page, and its style and scripts
POST /api/login            exchange the token for a cookie
GET  /api/session          what the page may do, and the CSRF token
GET  /api/events           server-sent events: a snapshot, then differences
GET  /api/group?id=ID      members, owners and partitions of a group
POST /api/preview          plan a reset, a deletion or an undo
POST /api/apply            apply a preview
GET  /api/snapshots        changes that can be undone
"""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
from collections.abc import Awaitable, Callable
from importlib import resources
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coterie.errors import CoterieError, OperationRefused, SettingError
from coterie.ui.changes import ApplyRequest, Changes, PreviewRequest
from coterie.ui.guard import Guard, GuardMiddleware, Refused, read_body, refusal
from coterie.ui.live_groups import LiveGroups, TooManyPages

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    Handler = Callable[[Request], Awaitable[Response]]

T = TypeVar("T")

SEND_S: Final = 60.0
"""The time that a browser has to read a message, before its connection is closed."""
_READ_ONLY: Final = "this page is read-only: start it with --allow-changes"


class _Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str


class EventStream(Response):
    """Server-sent events until the browser disconnects or does not read them."""

    media_type = "text/event-stream"

    def __init__(self, groups: LiveGroups) -> None:
        super().__init__()
        self._groups = groups
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages of the page."""

        async def send_all() -> None:
            start = {"type": "http.response.start", "status": 200}
            await send({**start, "headers": self.raw_headers})
            async with contextlib.aclosing(self._groups.messages()) as messages:
                async for message in messages:
                    body = b"data: " + message + b"\n\n"
                    part = {"type": "http.response.body", "body": body}
                    async with asyncio.timeout(SEND_S):
                        await send({**part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        tasks = [
            asyncio.create_task(each()) for each in (send_all, wait_for_disconnect)
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            # A browser that is gone or too slow is no error.
            await asyncio.gather(*tasks, return_exceptions=True)


class PageRoutes:
    """The handlers of the API, over one cluster."""

    def __init__(
        self, guard: Guard, groups: LiveGroups, changes: Changes | None, title: str
    ) -> None:
        self._guard = guard
        self._groups = groups
        self._changes = changes
        self._title = title

    def routes(self) -> list[Route]:
        """Return the routes of the API."""
        return [
            Route("/api/login", _safe(self._log_in), methods=["POST"]),
            Route("/api/session", _safe(self._session)),
            Route("/api/events", _safe(self._events)),
            Route("/api/group", _safe(self._group)),
            Route("/api/preview", _safe(self._preview), methods=["POST"]),
            Route("/api/apply", _safe(self._apply), methods=["POST"]),
            Route("/api/snapshots", _safe(self._snapshots)),
        ]

    async def _log_in(self, request: Request) -> Response:
        address = request.client.host if request.client else "an unknown address"
        session = self._guard.log_in((await _read(request, _Login)).token, address)
        response = _json({"logged_in": True})
        response.set_cookie(
            self._guard.cookie,
            session,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response

    async def _session(self, request: Request) -> Response:
        allows_changes = self._changes is not None
        content = {
            "csrf": self._guard.csrf,
            "allow_changes": allows_changes,
            "title": self._title,
        }
        return _json(content)

    async def _events(self, request: Request) -> Response:
        return EventStream(self._groups)

    async def _group(self, request: Request) -> Response:
        details = self._groups.details(request.query_params.get("id", ""))
        if details is None:
            raise Refused(404, "there is no such group")
        return _json(details)

    async def _preview(self, request: Request) -> Response:
        changes = self._allowed()
        return _json(await changes.preview(await _read(request, PreviewRequest)))

    async def _apply(self, request: Request) -> Response:
        changes = self._allowed()
        wanted = await _read(request, ApplyRequest)
        try:
            # A browser that closes the page does not stop a change half-way.
            return _json(await asyncio.shield(changes.apply(wanted)))
        finally:
            self._groups.measure_now()

    async def _snapshots(self, request: Request) -> Response:
        return _json(await self._allowed().snapshots())

    def _allowed(self) -> Changes:
        if self._changes is None:
            raise Refused(403, _READ_ONLY)
        return self._changes


def make_app(
    guard: Guard, groups: LiveGroups, changes: Changes | None, title: str
) -> Starlette:
    """Return the application; without `changes` it is read-only."""
    routes = [_file_route(name, kind, data) for name, kind, data in _files()]
    routes += PageRoutes(guard, groups, changes, title).routes()
    return Starlette(routes=routes, middleware=[Middleware(GuardMiddleware, guard)])


def _files() -> list[tuple[str, str, bytes]]:
    """Return name, media type and content of each file of the page."""
    found = []
    for each in (resources.files("coterie.ui") / "static").iterdir():
        kind = mimetypes.guess_type(each.name)[0]
        if each.name.endswith(".js"):  # registries of some systems have another type
            kind = "text/javascript"
        if kind is not None:
            found.append((each.name, kind, each.read_bytes()))
    return found


def _file_route(name: str, kind: str, data: bytes) -> Route:
    async def send_file(request: Request) -> Response:
        return Response(data, media_type=kind)

    path = "/" if name == "index.html" else f"/{name}"
    return Route(path, send_file)


def _safe(handler: Handler) -> Handler:
    """Return a handler that responds to errors with their text."""

    async def respond(request: Request) -> Response:
        try:
            return await handler(request)
        except Refused as error:
            return refusal(error.status, str(error))
        except SettingError as error:
            return refusal(400, str(error))
        except OperationRefused as error:
            return refusal(409, str(error))
        except TooManyPages as error:
            return refusal(503, str(error))
        except CoterieError as error:
            return refusal(502, str(error))

    return respond


async def _read(request: Request, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(await read_body(request), type=kind)
    except msgspec.DecodeError as error:
        raise Refused(400, f"this is not a valid request: {error}") from error


def _json(content: object) -> Response:
    return Response(msgspec.json.encode(content), media_type="application/json")
