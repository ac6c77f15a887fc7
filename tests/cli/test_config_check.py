"""`coterie config check`: a connection to every broker, and the principal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.types import SecurityProtocol
from tests.broker.server.harness import ThreadServer
from tests.broker.server.secured import USERS, make_certificates, users_file
from tests.cli.settings_home import SettingsHome

pytestmark = pytest.mark.usefixtures("home_in_environment")


@pytest.fixture(scope="module")
def servers() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=3) as running:
        yield running


def bootstrap(server: ThreadServer, node: int = 0) -> str:
    return "{}:{}".format(*server.addresses[node])


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["config", "check", "-o", "json", *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_every_broker_is_tested_at_its_advertised_address(
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


def test_an_unreachable_broker_is_a_failed_row_and_returns_exit_code_1(
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


def test_an_unreachable_cluster_returns_exit_code_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, envelope = checked(capsys, "--bootstrap-server", "127.0.0.1:1")
    assert (code, envelope["items"]) == (1, [])
    assert "cannot be reached" in envelope["errors"][0]["message"]


@pytest.mark.parametrize("address", ["nowhere", "a:1,b"])
def test_an_invalid_address_returns_exit_code_2(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", "--bootstrap-server", address]) == 2
    assert "write HOST:PORT" in capsys.readouterr().err


@pytest.mark.slow
def test_the_principal_and_the_tls_version_are_shown(
    home: SettingsHome, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_certificates(home.folder / "certificates")
    home.profiles(
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
        sasl_users_file=str(users_file(home.folder)),
        ssl_keystore_location=str(made.server),
    ) as server:
        named = ["--bootstrap-server", bootstrap(server)]
        assert main(["config", "check", *named]) == 0
        captured = capsys.readouterr()
        assert "alice by SCRAM-SHA-512" in captured.out
        assert "TLSv1.3" in captured.out
        assert captured.err.startswith("cluster ")
        assert main(["config", "check", *named, "-X", "sasl.username=bob"]) == 1
        captured = capsys.readouterr()
        assert "rejects SCRAM-SHA-512" in captured.err
        assert USERS["alice"] not in captured.out + captured.err
