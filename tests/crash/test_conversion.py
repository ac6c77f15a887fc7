"""A server converts a directory of `log.store=sqlite` once, with all its content.

test_kill_at_calls.py kills it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.crash import requests
from tests.crash.load import Ledger, Load, check
from tests.support.server_process import ServerProcess, start_server

SETTINGS = {"offsets.topic.num.partitions": 4}
SQLITE = {**SETTINGS, "log.store": "sqlite"}


def start(data: Path, settings: Mapping[str, object] = SETTINGS) -> ServerProcess:
    return start_server(data=data, settings=settings)


@pytest.mark.slow
def test_a_killed_store_is_converted_with_every_acknowledged_write(
    tmp_path: Path,
) -> None:
    ledger = Ledger()
    with start(tmp_path, SQLITE) as server:
        with server.client() as client:
            requests.create_topics(client)
        load = Load(ledger, server)
        load.warm.wait()
        server.kill()
        load.join()
    with start(tmp_path) as server:
        check(ledger, server)
        assert f"{tmp_path}: converted" in server.log
        server.stop()
    with start(tmp_path) as server:
        check(ledger, server)
        assert "converted" not in server.log


@pytest.mark.slow
def test_a_converted_directory_is_refused_with_the_sqlite_store(
    tmp_path: Path,
) -> None:
    start(tmp_path, SQLITE).stop()
    start(tmp_path).stop()
    with pytest.raises(AssertionError, match=r"start the server with log\.store=j"):
        start(tmp_path, SQLITE)
    start(tmp_path).stop()
