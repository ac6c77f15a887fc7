"""Servers under test end with the benchmark, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.harness.processes import Server, cpu_clock_of, file_system
from tests.support.waiting import eventually

READY = "import os, time; print('x ready on', os.getpid(), flush=True); time.sleep(60)"
NEVER_READY = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
HOLDER = f"""
import sys, time
from pathlib import Path
from benchmarks.harness.processes import Server
server = Server([sys.executable, "-c", {READY!r}], Path(sys.argv[1]))
print(server.address, flush=True)
time.sleep(60)
"""


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_a_server_is_stopped_when_its_start_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids: list[int] = []

    def interrupted(server: Server) -> str:
        assert server._process.stdout is not None
        pids.append(int(server._process.stdout.readline()))
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "_wait_until_ready", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Server([sys.executable, "-c", NEVER_READY], tmp_path / "log")
    assert not is_running(pids[0])


@pytest.mark.slow
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_when_the_benchmark_is_killed(
    tmp_path: Path, sign: signal.Signals
) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        assert is_running(pid)
        holder.send_signal(sign)
    eventually(lambda: not is_running(pid), within_s=30, expected="no server")


@pytest.mark.slow
def test_a_server_gets_additional_environment_variables(tmp_path: Path) -> None:
    code = (
        "import os, time; print('x ready on', os.environ['ADDED'], flush=True);"
        " time.sleep(60)"
    )
    server = Server([sys.executable, "-c", code], tmp_path / "log", {"ADDED": "here"})
    server.stop()
    assert server.address == "here"
    assert "ADDED" not in os.environ


def test_a_file_system_is_that_of_the_longest_mount_point() -> None:
    mounts = "/dev/a / ext4 rw 0 0\ntmpfs /data tmpfs rw 0 0\n"
    assert file_system(Path("/data/x"), mounts) == "tmpfs (tmpfs)"
    assert file_system(Path("/other"), mounts) == "ext4 (/dev/a)"


def test_the_cpu_time_of_a_process_is_that_of_its_clock() -> None:
    before, ours = time.process_time(), time.clock_gettime(cpu_clock_of(os.getpid()))
    after = time.process_time()
    assert before <= ours <= after
