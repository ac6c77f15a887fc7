"""`coterie ui` and `coterie serve --ui` as processes, and their usage errors."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import main
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

ADDRESS = re.compile(r"coterie ui on http://([^/\s]+)/(\S*)\n")
WAIT_S = 60.0


@contextmanager
def running_page(*words: str) -> Iterator[tuple[str, str]]:
    """Run `coterie ui` and yield its address and fragment; it must end with 0."""
    command = [sys.executable, "-m", "coterie.cli.main", "ui", *words]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None
            match = ADDRESS.fullmatch(process.stdout.readline())
            assert match, errors.seek(0) or errors.read()
            yield match[1], match[2]
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
            process.communicate()


def get(address: str, path: str, headers: dict[str, str] | None = None) -> Any:
    """Return the content of a response, or its status if it is an error."""
    connection = HTTPConnection(address, timeout=WAIT_S)
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        body = response.read()
        return json.loads(body) if response.status == 200 else response.status
    finally:
        connection.close()


@pytest.mark.slow
def test_a_page_serves_until_a_signal_stops_it() -> None:
    arguments = ("--bootstrap-server", "127.0.0.1:1", "--listen", "127.0.0.1:0")
    with running_page(*arguments) as (address, fragment):
        assert fragment == ""
        session = get(address, "/api/session")
        assert session["title"] == "127.0.0.1:1"
        assert session["allow_changes"] is False


@pytest.mark.slow
def test_changes_need_the_token_of_the_address() -> None:
    arguments = ("--bootstrap-server", "127.0.0.1:1", "--listen", "127.0.0.1:0")
    with running_page(*arguments, "--allow-changes") as (address, fragment):
        assert re.fullmatch(r"#token=[\w-]{32}", fragment)
        assert get(address, "/api/session") == 401


@pytest.mark.slow
def test_other_machines_need_the_token_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "ui.token"
    file.write_text("a-token-of-sixteen\n")
    arguments = ("--bootstrap-server", "127.0.0.1:1", "--listen", "0.0.0.0:0")
    names = ("--token-file", str(file), "--allowed-host", "ui.example")
    with running_page(*arguments, *names) as (address, fragment):
        assert fragment == "#token=a-token-of-sixteen"
        local = f"127.0.0.1:{address.rpartition(':')[2]}"
        assert get(local, "/api/session", {"Host": "ui.example"}) == 401
        assert get(local, "/api/session", {"Host": "evil.example"}) == 421


@pytest.mark.slow
def test_a_server_shows_its_own_groups_with_reasons_of_rebalances() -> None:
    from confluent_kafka import Consumer

    from tests.real_clients.confluent_admin import create_topic

    with ServerProcess("--memory", "--ui", "127.0.0.1:0") as server:
        eventually(lambda: ADDRESS.search(server.output), expected="the page's address")
        match = ADDRESS.search(server.output)
        assert match
        connection = HTTPConnection(match[1], timeout=WAIT_S)
        connection.request("GET", "/api/events")
        response = connection.getresponse()
        create_topic(server.bootstrap, "orders", partitions=1)
        settings = {"bootstrap.servers": server.bootstrap, "client.id": "reader"}
        consumer = Consumer({**settings, "group.id": "billing"})
        consumer.subscribe(["orders"])
        try:
            reasons: list[str] = []
            while not reasons:
                consumer.poll(0.1)
                line = response.readline()
                assert line, "the events ended"
                if line.startswith(b"data: "):
                    message = json.loads(line[6:])
                    for each in message.get("rebalances", []):
                        reasons += each["reasons"]
            assert any("joined" in each for each in reasons)
        finally:
            consumer.close()
            connection.close()
        server.stop()


def run(*words: str) -> int:
    return main(["ui", "--bootstrap-server", "127.0.0.1:1", *words])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--token-file", "missing"), "--token-file missing: No such file"),
        (("--token-file", "empty"), "--token-file empty: the file is empty"),
        (("--token-file", "short"), "the token has 6 characters: use 16 or more"),
    ],
)
def test_a_token_that_cannot_be_used_is_named(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    error: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "short").write_text("secret")
    assert run("--listen", "127.0.0.1:0", *words) == 2
    assert error in capsys.readouterr().err


def test_an_address_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert run("--listen", f"127.0.0.1:{port}") == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["0", "x", "1e9"])
def test_an_interval_has_bounds(
    capsys: pytest.CaptureFixture[str], interval: str
) -> None:
    with pytest.raises(SystemExit):
        run("--interval", interval)
    assert "is not a duration from 0.1 to 3600; use" in capsys.readouterr().err


def test_the_page_of_a_server_needs_plaintext_and_no_control(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listen = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0")
    assert main(["serve", "--memory", *listen, "--ui", "127.0.0.1:0"]) == 2
    assert "run coterie ui beside the server" in capsys.readouterr().err
    both = ("--control", "127.0.0.1:0", "--ui", "127.0.0.1:0")
    assert main(["serve", "--memory", *both]) == 2
    assert "run coterie ui beside the server" in capsys.readouterr().err
