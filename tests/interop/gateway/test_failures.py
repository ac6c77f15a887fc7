"""A node and a broker fail under load: one of each, as many as CI has time for.

`python -m tests.interop.gateway.failures` repeats them as often as it is told.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from tests.interop.gateway.failures.world import run
from tests.interop.kafka import JARS


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(JARS not in os.environ, reason="it needs Kafka's jars")
def test_failures_lose_no_commit_and_give_no_partition_two_owners(
    tmp_path: Path,
) -> None:
    counts = {"kill_nodes": 1, "stop_nodes": 1, "pause_nodes": 1, "kill_brokers": 1}
    jars = Path(os.environ[JARS])
    assert asyncio.run(run(jars, tmp_path, counts, groups=12, random=Random(1))) == 0
