"""The HTTP interface of the page over a real server."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from coterie.client.admin.admin_client import AdminClient
from coterie.errors import SettingError
from coterie.testing import Kafka
from coterie.ui.connections import UNAUTHENTICATED_MAX
from coterie.ui.server import PageOptions, PageServer
from tests.support.waiting import eventually

from .page_client import TOKEN, PageClient, served_page

HOSTILE = "<img src=x onerror=alert(1)>"


def commit(kafka: Kafka, group: str, *offsets: int) -> None:
    kafka.groups[group].commit(
        {("orders", partition): offset for partition, offset in enumerate(offsets)}
    )


def measured(page: PageClient, group: str) -> dict[str, Any]:
    """Return the row of a group, from the first measurement that has it."""
    for message in page.events():
        for row in message.get("groups", []) + message.get("changed", []):
            if row["id"] == group:
                return dict(row)
    raise AssertionError(f"the events ended without {group}")


def test_a_page_gets_a_snapshot_and_then_only_differences(
    kafka: Kafka, page: PageClient
) -> None:
    commit(kafka, "still", 5, 10)
    commit(kafka, "moving", 0, 0)
    events = page.events()
    rows: dict[str, dict[str, Any]] = {}

    def take() -> dict[str, Any]:
        message = next(events)
        for row in message.get("groups", []) + message.get("changed", []):
            rows.setdefault(row["id"], {}).update(row)
        return message

    assert take()["kind"] == "snapshot"
    while not {"still", "moving"} <= rows.keys():
        take()
    assert (rows["still"]["lag"], rows["still"]["state"]) == (5, "Empty")
    assert rows["still"]["oldest_ms"] > 0
    commit(kafka, "moving", 10, 0)
    while rows["moving"]["lag"] != 10:
        message = take()
        assert "still" not in [each["id"] for each in message.get("changed", [])]
    moved = [each for each in message["changed"] if each["id"] == "moving"]
    assert moved[0].keys() <= {"id", "lag", "lagging", "oldest_ms"}
    kafka.groups["moving"].delete()
    while "moving" not in take().get("gone", []):
        pass


def test_details_have_owners_and_partitions_by_lag(
    kafka: Kafka, page: PageClient
) -> None:
    commit(kafka, HOSTILE, 10, 3)
    measured(page, HOSTILE)
    path = "/api/group?id=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    found = page.get(path).content
    lags = [(each["partition"], each["lag"]) for each in found["partitions"]]
    assert lags == [(1, 7), (0, 0)]
    assert (found["id"], found["members"]) == (HOSTILE, [])
    assert page.get("/api/group?id=missing").status == 404


def test_a_reset_is_previewed_applied_and_undone(
    kafka: Kafka, page: PageClient
) -> None:
    commit(kafka, "billing", 4, 6)
    request = {"action": "reset", "groups": ["billing"], "to": "earliest"}
    preview = page.post("/api/preview", request).content
    assert [(row["prior"], row["new"]) for row in preview["rows"]] == [(4, 0), (6, 0)]
    assert kafka.groups["billing"].lag == 10  # nothing is written by a preview
    done = page.post("/api/apply", {"preview": preview["preview"]}).content
    assert [each["verdict"] for each in done["results"]] == ["done"]
    assert kafka.groups["billing"].lag == 20
    again = page.post("/api/apply", {"preview": preview["preview"]})
    assert (again.status, "make a new one" in again.error) == (409, True)

    listed = page.get("/api/snapshots").content["snapshots"]
    assert listed[0]["id"] == done["snapshot"]
    assert (listed[0]["groups"], listed[0]["command"]) == (
        ["billing"],
        "coterie ui: reset",
    )
    undo = {"action": "undo", "snapshot": done["snapshot"]}
    undone = page.post("/api/preview", undo).content
    assert [row["new"] for row in undone["rows"]] == [4, 6]
    assert page.post("/api/apply", {"preview": undone["preview"]}).status == 200
    assert kafka.groups["billing"].lag == 10


def test_a_group_is_deleted_and_restored(kafka: Kafka, page: PageClient) -> None:
    commit(kafka, "old", 1, 2)
    preview = page.post("/api/preview", {"action": "delete", "groups": ["old"]})
    done = page.post("/api/apply", {"preview": preview.content["preview"]}).content
    assert kafka.groups["old"].state == "Dead"
    undo = page.post(
        "/api/preview", {"action": "undo", "snapshot": done["snapshot"]}
    ).content
    page.post("/api/apply", {"preview": undo["preview"]})
    assert sorted(kafka.groups["old"].offsets.values()) == [1, 2]


def test_a_group_that_changed_since_the_preview_is_refused(
    kafka: Kafka, page: PageClient
) -> None:
    commit(kafka, "busy", 1, 1)
    preview = page.post(
        "/api/preview", {"action": "reset", "groups": ["busy"], "to": "latest"}
    ).content
    commit(kafka, "busy", 2, 2)
    done = page.post("/api/apply", {"preview": preview["preview"]}).content
    (result,) = done["results"]
    assert (result["verdict"], done["snapshot"]) == ("refused", None)
    assert "orders-0 was at 1 and is at 2" in result["reasons"]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"action": "reset", "groups": ["g"], "to": "offset", "value": "x"}, "number"),
        ({"action": "reset", "groups": ["g"], "to": "offset", "value": "-1"}, "from 0"),
        (
            {"action": "reset", "groups": ["g"], "to": "duration", "value": "2"},
            "PT1H30M",
        ),
        ({"action": "reset", "groups": ["g"], "partitions": [":0"]}, "topic:0,1,2"),
        ({"action": "reset", "groups": []}, "no group"),
        ({"action": "erase"}, "Invalid enum value"),
        ({"action": "reset", "force": True}, "unknown field"),
        ({"action": "undo", "snapshot": "../../x"}, "not a snapshot id"),
        ([], "Expected `object`"),
    ],
)
def test_an_invalid_request_names_its_problem(
    page: PageClient, request_: object, error: str
) -> None:
    reply = page.post("/api/preview", request_)
    assert (reply.status, error in reply.error) == (400, True), reply


def test_a_read_only_page_refuses_changes(kafka: Kafka, tmp_path: Path) -> None:
    with served_page(kafka.bootstrap_servers, tmp_path) as server:
        page = PageClient(server.port)
        assert server.token is None
        session = page.get("/api/session").content
        assert session["allow_changes"] is False
        page.csrf = session["csrf"]
        for path in ("/api/preview", "/api/apply"):
            reply = page.post(path, {"action": "delete", "groups": ["billing"]})
            assert (reply.status, "--allow-changes" in reply.error) == (403, True)
        assert page.get("/api/snapshots").status == 403


def test_data_needs_the_token(page_port: int) -> None:
    stranger = PageClient(page_port)
    assert stranger.get("/").status == 200  # the page without data, which logs in
    for path in ("/api/session", "/api/events", "/api/group?id=x", "/api/snapshots"):
        assert stranger.get(path).status == 401
    assert stranger.post("/api/preview", {"action": "undo"}).status == 401
    wrong = stranger.post("/api/login", {"token": "wrong"})
    assert (wrong.status, wrong.headers.get("set-cookie")) == (401, None)
    stranger.cookie = f"coterie_ui_{page_port}=guessed"
    assert stranger.get("/api/session").status == 401
    right = stranger.post("/api/login", {"token": TOKEN})
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Content_Type": "text/plain"},
        {"Content_Type": ""},
        {"X_CSRF_Token": ""},
        {"X_CSRF_Token": "guessed"},
        {"Sec_Fetch_Site": "cross-site"},
    ],
)
def test_a_request_of_another_site_changes_nothing(
    kafka: Kafka, page: PageClient, headers: dict[str, str]
) -> None:
    commit(kafka, "safe", 1, 1)
    reply = page.post(
        "/api/preview", {"action": "delete", "groups": ["safe"]}, **headers
    )
    assert reply.status in {403, 415}
    assert "preview" not in reply.content


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1", 421),
        ("[::1", 421),
        ("localhost:1", 200),  # as through an SSH tunnel
        ("[::1]:8080", 200),
        ("UI.example", 200),
    ],
)
def test_a_host_that_was_rebound_to_this_address_is_refused(
    page: PageClient, host: str, status: int
) -> None:
    assert page.get("/api/session", Host=host).status == status
    assert page.get("/", Host=host).status == status


def test_every_response_has_the_security_headers(page: PageClient) -> None:
    for reply in (page.get("/"), page.get("/page.js"), page.get("/api/session")):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
        assert reply.headers["cache-control"] == "no-store"
        assert "server" not in reply.headers
    refused = page.get("/", Host="evil.example")
    assert "default-src 'none'" in refused.headers["content-security-policy"]
    assert page.get("/../server.py").status == 404


def test_the_page_has_neither_inline_scripts_nor_other_hosts(page: PageClient) -> None:
    text = page.get("/").body.decode()
    assert "<script>" not in text
    assert "style=" not in text
    assert "http" not in text
    for name in ("page", "api", "change", "format", "side", "store", "table"):
        script = page.get(f"/{name}.js")
        assert script.headers["content-type"].startswith("text/javascript")
        assert b"innerHTML" not in script.body
        assert b"insertAdjacentHTML" not in script.body


def test_a_body_that_is_too_large_is_refused(page: PageClient) -> None:
    reply = page.post("/api/preview", {"action": "x" * 300_000})
    assert reply.status == 413


def test_an_endless_header_is_refused(page_port: int) -> None:
    with socket.create_connection(("127.0.0.1", page_port), 60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000)
        assert b" 400 " in connection.recv(1000)


def test_a_right_token_works_after_many_wrong_ones(
    kafka: Kafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served_page(kafka.bootstrap_servers, tmp_path, token=TOKEN) as server:
        page = PageClient(server.port)
        for number in range(50):
            assert page.post("/api/login", {"token": str(number)}).status == 401
        assert page.post("/api/login", {"token": TOKEN}).status == 200
    (line,) = [each for each in caplog.messages if "wrong tokens" in each]
    assert line == "wrong tokens since the last such line: 1, the newest from 127.0.0.1"


def test_connections_without_a_session_block_nobody(
    kafka: Kafka, tmp_path: Path
) -> None:
    with (
        served_page(kafka.bootstrap_servers, tmp_path, token=TOKEN) as server,
        ExitStack() as stack,
    ):
        page = PageClient(server.port)
        page.log_in()
        events = page.events()
        next(events)
        head = (
            f"POST /api/login HTTP/1.1\r\nHost: {page.host}\r\n"
            f"Origin: http://{page.host}\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n"
        )
        for number in range(UNAUTHENTICATED_MAX + 110):
            address = ("127.0.0.1", server.port)
            other = stack.enter_context(socket.create_connection(address, 60))
            other.sendall((head if number % 2 else "GET /").encode())
        PageClient(server.port).log_in()
        commit(kafka, "beside-others", 0, 0)
        while "beside-others" not in str(next(events)):
            pass  # the connection of a session stays open


def test_a_token_of_any_characters_is_in_the_address(
    kafka: Kafka, tmp_path: Path
) -> None:
    token = "aa+bb/cc==&dd%20ee#ff"
    with served_page(kafka.bootstrap_servers, tmp_path, token=token) as server:
        fragment = server.address.partition("#")[2]
        assert parse_qs(fragment) == {"token": [token]}  # as URLSearchParams reads it
        PageClient(server.port).log_in(token)


@pytest.mark.slow
def test_changes_and_other_addresses_need_a_token(kafka: Kafka, tmp_path: Path) -> None:
    with served_page(kafka.bootstrap_servers, tmp_path, allow_changes=True) as server:
        assert server.token is not None
        assert server.address.endswith(f"/#token={server.token}")
        assert PageClient(server.port).get("/api/session").status == 401
    with served_page(kafka.bootstrap_servers, tmp_path, host="0.0.0.0") as server:
        page = PageClient(server.port)
        assert server.token is not None
        assert page.get("/api/session").status == 401
        assert page.get("/", Host="10.1.2.3:80").status == 200  # an address of its own
        assert page.get("/", Host="evil.example").status == 421


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(SettingError, match="16 or more"):
        PageServer(PageOptions(port=0, token="secret"), lambda: AdminClient("x:1"))


def test_the_cluster_is_measured_only_while_a_page_is_open(
    kafka: Kafka, tmp_path: Path
) -> None:
    with served_page(kafka.bootstrap_servers, tmp_path) as server:
        page = PageClient(server.port)
        events = page.events()
        next(events)
        next(events)
        measured_count = len(kafka.requests.of("ListGroups"))
        assert measured_count > 0
        events.close()  # type: ignore[attr-defined]

        def is_idle() -> bool:
            before = len(kafka.requests)
            # Requests of a running page would arrive before these responses.
            for _ in range(20):
                page.get("/api/session")
            return len(kafka.requests) == before

        eventually(is_idle, expected="no further request of the page")


@pytest.mark.slow
def test_a_cluster_that_cannot_be_reached_is_an_event(tmp_path: Path) -> None:
    with Kafka() as kafka:
        kafka.topic("orders")
        kafka.groups["g"].commit({("orders", 0): 0})
        with served_page(kafka.bootstrap_servers, tmp_path) as server:
            events = PageClient(server.port).events()
            message = next(events)
            while not message["measured_ms"]:
                message = next(events)
            kafka.kill()
            while message["error"] is None:
                message = next(events)
            measured_ms = message["measured_ms"]
            assert measured_ms < message["now_ms"]
            kafka.restart()
            while message["measured_ms"] == measured_ms:
                message = next(events)
            assert message["error"] is None


def test_the_messages_are_json_lines(page: PageClient) -> None:
    with page.open("GET", "/api/events", None, {}) as response:
        assert response.getheader("content-type", "").startswith("text/event-stream")
        line = response.readline()
        assert json.loads(line.removeprefix(b"data: "))["kind"] == "snapshot"
