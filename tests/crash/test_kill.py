"""Repeated SIGKILL under load: no acknowledged write is lost.

COTERIE_TEST_KILLS sets the number of kills (50), COTERIE_TEST_SEED the seed.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.log.journal import JOURNAL_BYTES
from tests.crash import requests
from tests.crash.load import Ledger, Load, check
from tests.support.server_process import start_server
from tests.support.waiting import eventually

KILLS = int(os.environ.get("COTERIE_TEST_KILLS", "50"))
LIVES = max(5, KILLS // 10)
"""The number of tests that share the kills, so that they can run in parallel."""
SEED = int(os.environ.get("COTERIE_TEST_SEED", "20261121"))
LOAD_S_MAX = 0.25
SETTINGS = {"offsets.topic.num.partitions": 4}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("life", range(LIVES))
def test_acknowledged_writes_survive_kills_under_load(
    tmp_path: Path, life: int, record_property: Any
) -> None:
    # Every second journal is so small that there are checkpoints all the time.
    journal_bytes = (JOURNAL_BYTES, 65_536)[life % 2]
    settings = {**SETTINGS, "log.journal.bytes": journal_bytes}
    dice = random.Random(SEED + life)
    ledger = Ledger()
    with (
        start_server(data=tmp_path, settings=settings) as server,
        server.client() as client,
    ):
        requests.create_topics(client)
    kills = -(-KILLS // LIVES)
    for kill in range(1, kills + 1):
        with start_server(data=tmp_path, settings=settings) as server:
            check(ledger, server)
            load = Load(ledger, server)
            load.warm.wait()
            if kill == kills:
                eventually(
                    lambda: ledger.committed and ledger.aborted,
                    expected="transactions of both outcomes, even on a slow machine",
                )
            time.sleep(dice.uniform(0, LOAD_S_MAX))  # kill at a random time
            server.kill()
            load.join()
    with start_server(data=tmp_path, settings=settings) as server:
        check(ledger, server)
    record_property("kills", kills)
    record_property("acknowledged records", ledger.acknowledged)
    record_property("committed transactions", len(ledger.committed))
    assert ledger.acknowledged > 0
    assert ledger.commit_acknowledged > 0
    assert ledger.committed
    assert ledger.aborted
