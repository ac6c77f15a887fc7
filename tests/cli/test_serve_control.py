"""`coterie serve --control` as a process, and its usage errors."""

from __future__ import annotations

import argparse
import re
import stat
from pathlib import Path

import pytest

from coterie.cli.main import main
from coterie.cli.serve import parse_advertised
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually
from tests.testing.control.http_client import HttpClient

CONTROL = re.compile(r"coterie control on http://(\S+)\n")
ARGUMENTS = ("--memory", "--control", "127.0.0.1:0")


def control(server: ServerProcess) -> HttpClient:
    """Return a client of the address in the second line of a server's output."""
    eventually(lambda: CONTROL.search(server.output), expected="the control address")
    match = CONTROL.search(server.output)
    assert match
    return HttpClient(match[1])


@pytest.mark.slow
def test_a_server_is_controlled_until_a_signal_stops_it() -> None:
    with ServerProcess(*ARGUMENTS, "--nodes", "2") as server:
        http = control(server)
        status = http.get("/v1/status")
        assert status["bootstrap_servers"] == server.bootstrap
        assert [each["id"] for each in status["nodes"]] == [1, 2]
        http.post("/v1/server/pause")  # which does not keep it from stopping
        server.stop()


@pytest.mark.slow
def test_a_token_of_the_environment_guards_every_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COTERIE_CONTROL_TOKEN", "secret")
    arguments = (
        "--memory",
        "--control",
        "0.0.0.0:0",
        "--advertised",
        "kafka.example:9",
    )
    with ServerProcess(*arguments) as server:
        assert server.bootstrap == "kafka.example:9"
        http = HttpClient(control(server).address.replace("0.0.0.0", "127.0.0.1"))
        assert http.raw("GET", "/v1/status", None, {})[0] == 401
        token = {"Authorization": "Bearer secret"}
        status, content = http.raw("GET", "/v1/status", None, token)
        assert (status, content["bootstrap_servers"]) == (200, "kafka.example:9")


def test_another_address_needs_a_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("COTERIE_CONTROL_TOKEN", raising=False)
    empty = tmp_path / "token"
    empty.write_text("\n")
    empty.chmod(stat.S_IRUSR)
    for more in ([], ["--control-token-file", str(empty)]):
        assert main(["serve", "--memory", "--control", "0.0.0.0:0", *more]) == 2
        assert "set COTERIE_CONTROL_TOKEN" in capsys.readouterr().err


def test_a_missing_token_file_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = str(tmp_path / "token")
    arguments = ["serve", *ARGUMENTS, "--control-token-file", path]
    assert main(arguments) == 1
    assert path in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("kafka.example", ("kafka.example", None)),
        ("kafka.example:19092", ("kafka.example", 19_092)),
        ("::1", ("::1", None)),
        ("[::1]", ("::1", None)),
        ("[::1]:9092", ("::1", 9_092)),
    ],
)
def test_an_advertised_address_may_have_a_port(
    text: str, address: tuple[str, int | None]
) -> None:
    assert parse_advertised(text) == address


def test_a_wrong_advertised_port_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="HOST:PORT"):
        parse_advertised("kafka.example:port")
