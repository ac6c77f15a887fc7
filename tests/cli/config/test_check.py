"""`coterie config check`: every broker is tried, and said as whom."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.types import SecurityProtocol
from tests.cli.connect.world import World
from tests.server.harness import ThreadServer
from tests.server.secured import USERS, make_certificates, users_file


@pytest.fixture(scope="module")
def servers() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=3) as running:
        yield running


def bootstrap(server: ThreadServer, node: int = 0) -> str:
    return "{}:{}".format(*server.addresses[node])


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["config", "check", "-o", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_every_broker_is_tried_at_the_address_it_advertises(
    servers: ThreadServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code, envelope = checked(capsys, "--bootstrap-server", bootstrap(servers))
    assert code == 0
    assert envelope["cluster_id"]
    assert [each["node_id"] for each in envelope["items"]] == [1, 2, 3]
    for node, item in enumerate(envelope["items"]):
        assert item["address"] == bootstrap(servers, node)
        assert item["round_trip_ms"] > 0
        assert (item["authenticated_as"], item["encrypted_by"]) == (None, None)
        assert item["error"] is None


def test_a_broker_that_is_not_reached_is_a_row_and_exit_code_1(
    servers: ThreadServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(servers.server.nodes[2], "port", 1)
    code, envelope = checked(capsys, "--bootstrap-server", bootstrap(servers))
    assert code == 1
    assert [bool(each["error"]) for each in envelope["items"]] == [False, False, True]
    assert "127.0.0.1:1 cannot be reached" in envelope["items"][2]["error"]["message"]
    assert envelope["summary"]["failed"] == 1


def test_a_cluster_that_is_not_reached_is_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, envelope = checked(capsys, "--bootstrap-server", "127.0.0.1:1")
    assert (code, envelope["items"]) == (1, [])
    assert "cannot be reached" in envelope["errors"][0]["message"]


@pytest.mark.parametrize("address", ["nowhere", "a:1,b"])
def test_an_address_that_is_none_is_exit_code_2(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", "--bootstrap-server", address]) == 2
    assert "say HOST:PORT" in capsys.readouterr().err


@pytest.mark.slow
def test_it_says_as_whom_and_what_encrypts(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_certificates(world.folder / "certificates")
    world.profiles(
        f"""
        [default]
        security.protocol = "SASL_SSL"
        sasl.mechanism = "SCRAM-SHA-512"
        sasl.username = "alice"
        sasl.password = "{USERS["alice"]}"
        ssl.ca.location = "{made.authority}"
        """
    )
    with ThreadServer(
        protocol=SecurityProtocol.SASL_SSL,
        sasl_users_file=str(users_file(world.folder)),
        ssl_keystore_location=str(made.server),
    ) as server:
        named = ["--bootstrap-server", bootstrap(server)]
        assert main(["config", "check", *named]) == 0
        said = capsys.readouterr()
        assert "alice by SCRAM-SHA-512" in said.out
        assert "TLSv1.3" in said.out
        assert said.err.startswith("cluster ")
        assert main(["config", "check", *named, "-X", "sasl.username=bob"]) == 1
        said = capsys.readouterr()
        assert "refuses SCRAM-SHA-512" in said.err
        assert USERS["alice"] not in said.out + said.err
