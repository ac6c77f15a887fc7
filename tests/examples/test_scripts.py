"""The short scripts of examples/ run against a server and a lake."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.server.harness import ThreadServer
from tests.pipeline.lakes import make_lake
from tests.pipeline.story import story

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadServer(offsets_topic_num_partitions=2) as server:
        yield "{}:{}".format(*server.addresses[0])


def run_example(name: str, argument: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), argument],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_group_reads_all_records_and_its_lag_is_zero(server: str) -> None:
    records = run_example("consumer_group.py", server).splitlines()
    assert {line.partition(": ")[2] for line in records} == {
        f"order {number}" for number in range(20)
    }
    assert run_example("group_lag.py", server) == "billing: 0 records behind\n"


@pytest.mark.slow
def test_the_rebalances_of_a_lake_are_counted_by_cause(tmp_path: Path) -> None:
    lines = run_example("query_lake.py", str(make_lake(tmp_path / "lake", story())))
    assert lines.startswith("as of 2026-11-21 10:00:00")
    assert "'billing': 1 times left" in lines


def test_the_scripts_are_short() -> None:
    for name in ("consumer_group.py", "group_lag.py", "query_lake.py"):
        assert len((EXAMPLES / name).read_text("utf-8").splitlines()) < 40, name
