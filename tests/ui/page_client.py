"""A client of the page's server, which sends requests as a browser or an attacker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, Final, NamedTuple

from coterie.client.admin.admin_client import AdminClient
from coterie.client.options import ClientOptions
from coterie.ui.server import PageOptions, PageServer

WAIT_S: Final = 60.0
TOKEN: Final = "a-token-of-the-tests"


class Reply(NamedTuple):
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.content["error"])


class PageClient:
    """Requests to one page; after `log_in` with a session."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self.cookie = ""
        self.csrf = ""

    def log_in(self, token: str = TOKEN) -> None:
        reply = self.post("/api/login", {"token": token})
        assert reply.status == 200, reply
        self.cookie = reply.headers["set-cookie"].partition(";")[0]
        self.csrf = self.get("/api/session").content["csrf"]

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, None, headers)

    def post(self, path: str, content: object, **headers: str) -> Reply:
        """Send JSON with the headers of a browser; `headers` replace them, and an empty
        one is left out. Underscores stand for hyphens."""
        sent = {
            "Content_Type": "application/json",
            "Origin": f"http://{self.host}",
            "X_CSRF_Token": self.csrf,
            **headers,
        }
        return self.send("POST", path, json.dumps(content).encode(), sent)

    def send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Reply:
        with self.open(method, path, body, headers) as response:
            fields = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, fields, response.read())

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[HTTPResponse]:
        """Send a request and return the response, whose body is not read yet."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        sent = {"Host": self.host, "Cookie": self.cookie, **headers}
        wanted = {name.replace("_", "-"): text for name, text in sent.items() if text}
        with closing(connection):
            connection.request(method, path, body, wanted)
            with connection.getresponse() as response:
                yield response

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the messages of the server-sent events."""
        with self.open("GET", "/api/events", None, {}) as response:
            assert response.status == 200, response.read()
            while line := response.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


@contextmanager
def served_page(
    bootstrap: str,
    folder: Path,
    *,
    allow_changes: bool = False,
    token: str | None = None,
    host: str = "127.0.0.1",
) -> Iterator[PageServer]:
    """Serve a page over a cluster, measured every 0.1 s."""
    options = PageOptions(
        host=host,
        port=0,
        token=token,
        allow_changes=allow_changes,
        allowed_hosts=("ui.example",),
        interval_s=0.1,
        snapshots=folder / "snapshots",
        title="kafka.example:9092",
    )
    client = ClientOptions(api_timeout_ms=2_000)
    page = PageServer(options, lambda: AdminClient(bootstrap, client))
    with page.in_thread():
        yield page
