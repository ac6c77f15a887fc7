"""The container recipe has a command line, ports and a health check that work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

CONTAINER = Path(__file__).parents[2] / "examples" / "container"
DOCKERFILE = (CONTAINER / "Dockerfile").read_text("utf-8").replace("\\\n", "")
TOKEN = "for-tests-only"


def words(instruction: str) -> list[str]:
    """Return the arguments of an instruction in exec form."""
    match = re.search(rf"{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert match, instruction
    found: list[str] = json.loads(match[1])
    return found


def test_the_entry_point_serves_on_the_exposed_ports() -> None:
    entry = [*words("ENTRYPOINT"), *words("\nCMD")]
    options = make_parser(find_command(["serve"])).parse_args(entry[1:])
    assert options.memory
    ports = f"{options.listen[2]} {options.control[1]}"
    assert f"EXPOSE {ports}\n" in DOCKERFILE
    compose = (CONTAINER / "compose.yaml").read_text("utf-8")
    assert re.findall(r'127\.0\.0\.1:\d+:(\d+)"', compose) == ports.split()


@pytest.mark.slow
def test_the_health_check_succeeds_only_with_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COTERIE_CONTROL_TOKEN", TOKEN)
    _, flag, code = words(r"HEALTHCHECK.* CMD")
    with ServerProcess("--memory", "--control", "127.0.0.1:0") as server:
        eventually(lambda: "control on" in server.output, expected="two lines")
        port = server.output.split()[-1].rpartition(":")[2]
        command = [sys.executable, flag, code.replace("9095", port)]
        subprocess.run(command, check=True, timeout=60)
        server.stop()
    done = subprocess.run(command, check=False, timeout=60, stderr=subprocess.PIPE)
    assert done.returncode != 0
