"""`coterie cluster`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pytest

from coterie.cli import connect
from coterie.cli.main import main
from coterie.client.admin.configs import ConfigEntry, ConfigResource
from coterie.client.admin.groups import ClusterDescription, Node
from coterie.client.admin.results import Results
from coterie.client.admin.topics import PartitionDescription, TopicDescription
from coterie.errors import ApiError, ConnectionLost
from coterie.wire.configs import ConfigSource
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.broker.server.harness import ThreadServer
from tests.cli.server_shell import ServerShell
from tests.support.flat_calls import FlatCalls


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    with ThreadServer() as server:
        yield server


@pytest.fixture
def shell(server: ThreadServer, capsys: pytest.CaptureFixture[str]) -> ServerShell:
    return ServerShell("cluster", server, capsys)


@pytest.mark.slow
def test_brokers_are_described_with_their_release(shell: ServerShell) -> None:
    (item,) = shell.items("describe")
    assert (item["controller"], item["release"], item["error"]) == (True, "4.4", None)
    assert shell("describe").splitlines()[0].split()[:3] == ["NODE", "HOST", "PORT"]
    assert shell.error.startswith("cluster ")


def test_the_versions_of_each_api_are_listed(shell: ServerShell) -> None:
    (produce,) = [
        each
        for each in shell.items("describe --api-versions")
        if each["api"] == "PRODUCE"
    ]
    assert (produce["api_key"], produce["max_version"]) == (0, 13)


def test_features_have_finalized_and_supported_levels(shell: ServerShell) -> None:
    found = {each["feature"]: each for each in shell.items("features")}
    group = found["group.version"]
    assert (group["finalized_level"], group["min_supported_level"]) == (1, 0)
    assert group["max_supported_level"] >= 1


def test_a_healthy_cluster_has_no_rows(shell: ServerShell) -> None:
    assert shell("health") == ""
    assert shell.error.startswith("healthy: 1 broker, ")


class FakeAdmin(FlatCalls):
    """An admin client of two brokers, one of which cannot be reached, and a topic."""

    def __init__(self, *partitions: PartitionDescription) -> None:
        self.topic = TopicDescription(
            "t", None, is_internal=False, partitions=partitions
        )
        self.controller_id = 1

    async def __aenter__(self) -> FakeAdmin:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def describe_cluster(self) -> ClusterDescription:
        nodes = (Node(1, "a", 9092, "rack-1"), Node(2, "b", 9092))
        return ClusterDescription("c", self.controller_id, nodes)

    async def describe_api_versions(self, _: Iterable[int]) -> Results[int, Any]:
        return Results({1: {3: Versions(0, 13)}}, {2: ConnectionLost("b is down")})

    async def describe_topics(self) -> Results[str, TopicDescription]:
        error = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, "topic u has no leader")
        return Results({"t": self.topic}, {"u": error})

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str],
        **_: object,
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        (name,) = names
        entry = ConfigEntry(name, "2", ConfigSource.DEFAULT)
        return Results(dict.fromkeys(resources, (entry,)))


def run(
    admin: FakeAdmin,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capture: pytest.CaptureFixture[str],
) -> Any:
    def open_admin(_: argparse.Namespace) -> FakeAdmin:
        return admin

    monkeypatch.setattr(connect, "open_admin", open_admin)
    assert main(["cluster", *line.split(), "--output", "json"]) == 1
    return json.loads(capture.readouterr().out)


def test_each_problem_has_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = FakeAdmin(
        PartitionDescription(0, 1, (1, 2, 7), (1, 2, 7)),
        PartitionDescription(1, -1, (2,), ()),
        PartitionDescription(2, 1, (1, 2, 7), (1,)),
        PartitionDescription(3, 1, (1, 2, 7), (1, 2)),
    )
    admin.controller_id = -1
    document = run(admin, "health", monkeypatch, capsys)
    assert [
        (each["problem"], each["node_id"], each["partition"])
        for each in document["items"]
    ] == [
        ("no-controller", None, None),
        ("broker-unreachable", 2, None),
        ("broker-missing", 7, None),
        ("offline", None, 1),
        ("under-min-isr", None, 2),
        ("under-replicated", None, 3),
    ]
    assert [each["id"] for each in document["errors"]] == ["u"]
    assert document["summary"]["healthy"] is False
    assert document["items"][4]["error"]["code"] == "UNDER_MIN_ISR"


def test_an_unreachable_broker_is_described(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reached, lost = run(FakeAdmin(), "describe", monkeypatch, capsys)["items"]
    assert (reached["rack"], reached["controller"]) == ("rack-1", True)
    assert (lost["release"], lost["error"]["message"]) == (None, "b is down")
