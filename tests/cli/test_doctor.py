"""`coterie doctor`, without a server and with a running one."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coterie.broker.runtime.shards import Phase
from coterie.cli.doctor import judge_health
from coterie.cli.main import main
from tests.broker.log.logs import open_small
from tests.broker.server.harness import ThreadServer


class Usage(NamedTuple):
    free: int


@pytest.fixture(autouse=True)
def _sound_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the limit of open files and the free space of this machine."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (65_536, 65_536))
    monkeypatch.setattr("shutil.disk_usage", lambda _: Usage(1 << 40))


def run(
    capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and the findings by check."""
    code = main(["doctor", "--json", *arguments])
    document = json.loads(capsys.readouterr().out)
    return code, {each["check"]: each for each in document["items"]}


def test_a_sound_directory_has_exit_code_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_small(tmp_path / "data").close()
    code, found = run(capsys, "--data", str(tmp_path / "data"))
    assert code == 0
    assert found["store"]["level"] == "ok"
    assert found["cluster"]["level"] == "note"


def test_an_unknown_setting_is_an_error_with_advice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(capsys, "--data", str(tmp_path), "--set", "num.partitons=3")
    assert code == 1
    assert "did you mean num.partitions?" in found["settings"]["message"]
    assert found["settings"]["advice"]


def test_a_table_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["doctor", "--data", str(tmp_path), "--set", "log.flush.sync=false"]
    assert main(line) == 1
    shown = capsys.readouterr().out
    assert "WHAT TO DO" in shown
    assert "remove the setting" in shown


def test_a_running_server_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadServer(metrics_port=0) as server:
        host, port = server.addresses[0]
        health = f"127.0.0.1:{server.server.metrics_port}"
        arguments = ("--data", str(tmp_path), "--bootstrap-server", f"{host}:{port}")
        _, found = run(capsys, *arguments, "--health", health)
        assert found["cluster"]["level"] == "ok"
        assert found["health"]["level"] == "ok"
        assert found["clock"]["level"] == "ok"
        assert found["ready"]["level"] == "ok"
        server.server.assembly.broker.runtime.shards[0].phase = Phase.STOPPED
        code, found = run(capsys, *arguments, "--health", health)
        assert code == 1
        assert found["ready"]["message"] == "49 of 50 shards are loaded"


def test_a_server_that_does_not_respond_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    address = f"127.0.0.1:{port}"
    code, found = run(
        capsys,
        "--data",
        str(tmp_path),
        "--bootstrap-server",
        address,
        "--timeout",
        "100",
        "--health",
        address,
    )
    assert code == 1
    assert found["cluster"]["level"] == "error"
    assert found["health"]["level"] == "error"


HEALTHY = {
    "status": "ok",
    "version": "1",
    "time_ms": 1_000_000,
    "clock_ms": 1_000_000,
    "event_loop_delay_max_ms": 1.5,
}


@pytest.mark.parametrize(
    ("changes", "check", "level"),
    [
        ({}, "clock", "ok"),
        ({"status": "the event loop was blocked"}, "health", "error"),
        ({"version": "0"}, "health", "note"),
        ({"event_loop_delay_max_ms": 300.0}, "event loop", "warning"),
        ({"clock_ms": 1_005_000}, "clock", "warning"),
        ({"time_ms": 900_000, "clock_ms": 900_000}, "clock", "warning"),
    ],
)
def test_the_health_of_a_server_is_judged(
    changes: dict[str, Any], check: str, level: str
) -> None:
    found = {
        each.check: each.level
        for each in judge_health(HEALTHY | changes, 1_000_000, "1")
    }
    assert found[check] == level


def test_another_servers_health_is_refused() -> None:
    with pytest.raises(ValueError, match="is not Coterie's"):
        list(judge_health({"status": "UP"}, 0, "1"))
