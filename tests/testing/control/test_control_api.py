"""The control API: every route, by HTTP, against a running server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.server.config import make_settings
from coterie.broker.server.server import ServerOptions
from coterie.testing.control.api import ControlApi, ServedKafka
from coterie.testing.control.http import ControlServer
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.testing.control.http_client import HttpClient

LOST = m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Controlled:
    """A server with its control API."""

    def __init__(self, directory: Path | None = None) -> None:
        settings = make_settings({"group.initial.rebalance.delay.ms": 0})
        options = ServerOptions(
            settings=settings, host="127.0.0.1", port=0, directory=directory
        )
        self.kafka = ServedKafka(options)
        self.control = ControlServer(ControlApi(self.kafka).routes(), "127.0.0.1", 0)

    def __enter__(self) -> HttpClient:
        self.kafka.start()
        self.control.start()
        return HttpClient(self.control.address)

    def __exit__(self, *_: object) -> None:
        self.control.close()
        self.kafka.close()


@pytest.fixture
def http() -> Iterator[HttpClient]:
    with Controlled() as client:
        yield client


def wire(http: HttpClient) -> WireClient:
    [node] = http.get("/v1/status")["nodes"]
    return WireClient(node["host"], node["port"], client_id="app")


def commit(http: HttpClient, kafka: ServedKafka) -> None:
    http.post("/v1/topics", {"name": "orders"})
    kafka.groups["billing"].commit({("orders", 0): 5})


def test_the_routes_are_listed(http: HttpClient) -> None:
    routes = http.get("/v1")["routes"]
    assert {"method": "GET", "path": "/v1/status", "summary": routes[1]["summary"]} in (
        routes
    )


def test_topics_are_created_listed_and_deleted(http: HttpClient) -> None:
    made = http.post("/v1/topics", {"name": "orders", "partitions": 3}, status=201)
    assert made == {"name": "orders", "partitions": 3}
    named = http.post("/v1/topics", status=201)["name"]
    topics = http.get("/v1/topics")["topics"]
    assert {"name": "orders", "partitions": 3} in topics
    assert {"name": named, "partitions": 1} in topics
    assert (
        "TOPIC_ALREADY_EXISTS" in http.error("POST", "/v1/topics", 409, made)["error"]
    )
    http.delete("/v1/topics/orders")
    assert [each["name"] for each in http.get("/v1/topics")["topics"]] == [named]
    http.error("DELETE", "/v1/topics/orders", 404)


def test_records_are_appended_and_read(http: HttpClient) -> None:
    http.post("/v1/topics", {"name": "orders", "config": {"retention.ms": -1}})
    sent = [{"key": "k", "value": "ü"}, {"value": {"base64": "//8="}}, {"key": "k"}]
    path = "/v1/topics/orders/records"
    produced = http.post(path, {"records": sent, "timestamp_ms": 5}, status=201)
    assert [each["offset"] for each in produced["records"]] == [0, 1, 2]
    read = http.get(f"{path}?partition=0&isolation=read_committed")["records"]
    assert [(each["key"], each["value"]) for each in read] == [
        ("k", "ü"),
        (None, {"base64": "//8="}),
        ("k", None),
    ]
    assert read[0]["timestamp_ms"] == 5


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "records is not a list"),
        ({"records": []}, "records is not a list"),
        ({"records": [1]}, "the record 1"),
        ({"records": [{"val": "v"}]}, "the record"),
        ({"records": [{"value": 1}]}, "not a key or value"),
        ({"records": [{"value": {"base64": "?"}}]}, "base64"),
        ({"records": [{}], "partition": -1}, "partition"),
        ({"records": [{}], "timestamp_ms": "now"}, "timestamp_ms"),
    ],
)
def test_wrong_records_are_refused(http: HttpClient, body: Any, error: str) -> None:
    assert error in http.error("POST", "/v1/topics/orders/records", 400, body)["error"]


def test_records_of_an_unknown_topic_are_not_found(http: HttpClient) -> None:
    http.error("GET", "/v1/topics/orders/records", 404)
    http.error("GET", "/v1/topics/orders/records?isolation=x", 400)


def test_groups_are_described_and_waited_for() -> None:
    controlled = Controlled()
    with controlled as http:
        group = http.get("/v1/groups/billing")
        assert (group["state"], group["members"]) == ("Dead", [])
        assert group["deliveries"] == []
        error = http.error("GET", "/v1/groups/billing?state=Stable&timeout_ms=1", 409)
        assert "state Stable, but it is Dead" in error["error"]
        http.error("GET", "/v1/groups/billing?state=Fine", 400)
        commit(http, controlled.kafka)
        assert http.get("/v1/groups/billing?state=Empty&members=0&lag=0")[
            "offsets"
        ] == [{"topic": "orders", "partition": 0, "offset": 5}]
        assert http.get("/v1/groups") == {"groups": ["billing"]}
        http.delete("/v1/groups/billing")
        assert http.get("/v1/groups") == {"groups": []}
        http.error("DELETE", "/v1/groups/billing", 404)


@pytest.mark.slow
def test_the_clock_is_advanced() -> None:
    controlled = Controlled()
    with controlled as http:
        commit(http, controlled.kafka)
        before_ms = http.get("/v1/status")["now_ms"]
        now_ms = http.post("/v1/clock/advance", {"days": 8})["now_ms"]
        assert now_ms - before_ms >= 8 * 86_400_000
        assert http.get("/v1/groups/billing")["offsets"] == []


@pytest.mark.parametrize(
    "body",
    [{}, {"days": -1}, {"days": "8"}, {"days": True}, {"weeks": 1}, {"ms": 1e300}],
)
def test_a_wrong_duration_is_refused(http: HttpClient, body: Any) -> None:
    http.error("POST", "/v1/clock/advance", 400, body)


def test_a_fault_hits_requests_until_it_is_deleted(http: HttpClient) -> None:
    fault = {
        "kind": "reply",
        "api": "Heartbeat",
        "error": "REBALANCE_IN_PROGRESS",
        "times": 2,
        "group": "g",
    }
    started = http.post("/v1/faults", fault, status=201)
    assert started["hits"] == 0
    assert started["active"]
    with wire(http) as client:
        codes = [client.call(LOST, 4).error_code for _ in range(3)]
    assert codes == [27, 27, 25]
    found = http.get(f"/v1/faults/{started['id']}?hits=2")
    assert found["hits"] == 2
    assert found["requests"][0]["groups"] == ["g"]
    assert found["arguments"] == {k: v for k, v in fault.items() if k != "kind"}
    assert http.get("/v1/faults")["faults"] == [found]
    path = f"/v1/faults/{started['id']}"
    assert (
        "2 of 3 hits" in http.error("GET", f"{path}?hits=3&timeout_ms=1", 409)["error"]
    )
    ended = http.delete(path)
    assert ended["hits"] == 2
    assert not ended["active"]
    http.error("GET", path, 404)
    http.error("DELETE", "/v1/faults/x", 404)


def test_all_faults_are_ended(http: HttpClient) -> None:
    for group in ("a", "b"):
        http.post("/v1/faults", {"kind": "loading", "group": group})
    assert len(http.delete("/v1/faults")["faults"]) == 2
    assert http.get("/v1/faults") == {"faults": []}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({}, "kind is missing"),
        ({"kind": "start"}, "there is no fault 'start'"),
        ({"kind": "reply"}, "missing"),
        ({"kind": "reply", "api": "OffsetComit", "error": "NONE"}, "OffsetCommit"),
        ({"kind": "reply", "api": "Fetch", "error": "NO"}, "no error code"),
        ({"kind": "delay", "api": "Fetch", "ms": "long"}, "ms='long'"),
        ({"kind": "delay", "api": "Fetch", "ms": 1, "required": True}, "required"),
        ({"kind": "fence", "group": "g", "member": "m"}, "no member"),
    ],
)
def test_wrong_faults_are_refused(http: HttpClient, body: Any, error: str) -> None:
    assert error in http.error("POST", "/v1/faults", 400, body)["error"]


def test_requests_are_recorded_and_filtered(http: HttpClient) -> None:
    with wire(http) as client:
        client.call(LOST, 4)
        client.call(m.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    found = http.get("/v1/requests?api=Heartbeat&group=g&count=1&client_id=app")
    [request] = found["requests"]
    assert request["errors"] == ["UNKNOWN_MEMBER_ID"]
    assert found["dropped"] == 0
    assert http.get("/v1/requests?errors=NOT_COORDINATOR")["requests"] == []
    http.error("GET", "/v1/requests?count=2&api=Heartbeat&timeout_ms=1", 409)
    http.error("GET", "/v1/requests?api=Nothing", 400)
    http.error("GET", "/v1/requests?count=x", 400)
    http.delete("/v1/requests")
    assert http.get("/v1/requests")["requests"] == []


def test_rebalances_are_recorded(http: HttpClient) -> None:
    assert http.get("/v1/rebalances?group=g") == {"rebalances": []}
    http.error("GET", "/v1/rebalances?count=1", 400)
    http.error("GET", "/v1/rebalances?count=1&group=g&timeout_ms=1", 409)
    assert http.delete("/v1/rebalances") == {}


def test_a_killed_server_restarts_with_its_topics(http: HttpClient) -> None:
    http.post("/v1/topics", {"name": "orders"})
    bootstrap = http.get("/v1/status")["bootstrap_servers"]
    assert http.post("/v1/server/kill")["state"] == "stopped"
    assert http.post("/v1/server/kill")["bootstrap_servers"] is None
    for path, body in (
        ("/v1/topics", {}),
        ("/v1/faults", {"kind": "loading"}),
        ("/v1/clock/advance", {"days": 1}),
        ("/v1/server/pause", {}),
    ):
        error = http.error("POST", path, 409, body)
        assert "POST /v1/server/restart" in error["fix"]
    again = http.post("/v1/server/restart")
    assert (again["state"], again["bootstrap_servers"]) == ("running", bootstrap)
    assert http.get("/v1/topics")["topics"] == [{"name": "orders", "partitions": 1}]


def test_a_paused_server_responds_when_it_is_resumed(http: HttpClient) -> None:
    with wire(http) as client:
        client.call(LOST, 4)
        assert http.post("/v1/server/pause")["state"] == "paused"
        client.send(LOST, 4)
        assert "resume" in http.error("GET", "/v1/topics", 409)["fix"]
        assert http.post("/v1/server/resume")["state"] == "running"
        assert client.receive().error_code == 25


def test_a_reset_leaves_nothing(http: HttpClient) -> None:
    http.post("/v1/topics", {"name": "orders"})
    http.post("/v1/faults", {"kind": "loading"})
    bootstrap = http.get("/v1/status")["bootstrap_servers"]
    http.post("/v1/server/kill")
    assert http.post("/v1/reset")["bootstrap_servers"] == bootstrap
    assert http.get("/v1/topics") == {"topics": []}
    assert http.get("/v1/faults") == {"faults": []}


@pytest.mark.slow
def test_a_log_on_disk_is_not_reset(tmp_path: Path) -> None:
    with Controlled(tmp_path / "data") as http:
        http.post("/v1/topics", {"name": "orders"})
        assert "--memory" in http.error("POST", "/v1/reset", 409)["fix"]
        http.post("/v1/server/kill")
        http.post("/v1/server/restart")
        assert len(http.get("/v1/topics")["topics"]) == 1


def test_the_advertised_address_survives_a_restart(http: HttpClient) -> None:
    body = {"host": "mapped.example", "port": 32_768}
    http.send("PUT", "/v1/advertised", body)
    assert http.post("/v1/server/restart")["nodes"] == [{"id": 1, **body}]
    assert http.post("/v1/reset")["bootstrap_servers"] == "mapped.example:32768"
    http.error("PUT", "/v1/advertised", 400, {"host": "mapped.example", "port": 0})
    http.error("PUT", "/v1/advertised", 400, {"host": "mapped.example"})


@pytest.mark.slow
def test_resets_take_turns_and_other_requests_are_answered(http: HttpClient) -> None:
    statuses: set[int] = set()

    def reset() -> None:
        for _ in range(5):
            statuses.add(http.raw("POST", "/v1/reset", None, {})[0])
            statuses.add(http.raw("GET", "/v1/status", None, {})[0])

    threads = [threading.Thread(target=reset) for _ in range(4)]
    for each in threads:
        each.start()
    found = {http.raw("GET", "/v1/topics", None, {})[0] for _ in range(20)}
    for each in threads:
        each.join()
    assert statuses == {200}
    assert found <= {200, 409}
    assert http.get("/v1/status")["state"] == "running"
