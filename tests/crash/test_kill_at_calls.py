"""SIGKILL at each call to the disk in turn, checkpoints and recoveries included: no
acknowledged write is lost.

COTERIE_TEST_KILL_STRIDE is the distance between two such calls; 1 kills at each.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.crash.fault_layer import KILL, FaultLayer
from tests.crash.load import Ledger, check
from tests.crash.test_disk_faults import SETTINGS, Cycle, create
from tests.support.server_process import STOP_S, start_server

STRIDE = int(os.environ.get("COTERIE_TEST_KILL_STRIDE", "29"))
START_STRIDE = max(1, STRIDE // 2)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_kill_at_any_call_loses_no_acknowledged_write(
    tmp_path: Path, record_property: Any
) -> None:
    data = tmp_path / "data"
    layer, ledger = FaultLayer(tmp_path, str(data)), Ledger()
    at, kills, is_over = 1, 0, False
    while not is_over:
        with layer.preloaded(), start_server(data=data, settings=SETTINGS) as server:
            create(server)
            check(ledger, server)
            layer.arm(at, KILL)
            with suppress(OSError, EOFError):  # it was killed
                Cycle(server, ledger).run(bulk=True)
                server.process.terminate()
            server.process.wait(STOP_S)
            is_over = server.return_code == 0
            layer.disarm()
            server.kill()
        kills, at = kills + (not is_over), at + STRIDE
    with start_server(data=data, settings=SETTINGS) as server:
        check(ledger, server)
    record_property("kills", kills)
    assert kills > 0
    assert ledger.acknowledged > 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("before", ["new", "killed"])
def test_a_start_killed_at_any_call_is_repeated(
    tmp_path: Path, before: str, record_property: Any
) -> None:
    """Create or recover a store, and kill the server meanwhile."""
    old, data = tmp_path / "old", tmp_path / "data"
    layer, ledger = FaultLayer(tmp_path, str(data)), Ledger()
    old.mkdir()
    if before == "killed":
        with start_server(data=old, settings=SETTINGS) as server:
            create(server)
            for bulk in (True, False):
                Cycle(server, ledger).run(bulk=bulk)
            server.kill()
    at, kills, is_over = 1, 0, False
    while not is_over:
        shutil.copytree(old, data)
        failures = layer.failures
        layer.arm(at, KILL)
        with layer.preloaded(), suppress(AssertionError):  # it did not start
            start_server(data=data, settings=SETTINGS).kill()
        is_over = layer.failures == failures
        layer.disarm()
        with start_server(data=data, settings=SETTINGS) as server:
            create(server)
            check(ledger, server)
        shutil.rmtree(data)
        kills, at = kills + (not is_over), at + START_STRIDE
    record_property("kills", kills)
    assert kills > 0
