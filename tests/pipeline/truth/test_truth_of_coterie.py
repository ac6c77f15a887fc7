"""Tables of the pipeline against what real clients did on a Coterie server.

The same comparisons on Apache Kafka are in tests/interop.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.pipeline.jobs.run import run_once
from tests.pipeline.sources.logs import copy_log
from tests.pipeline.truth.checks import checks_of, committed_offsets
from tests.pipeline.truth.killed_run import CURRENT_OFFSETS, PART_RECORDS, job_of
from tests.pipeline.truth.lakes import Lakes, Recorded, recorded
from tests.pipeline.truth.readers import READERS, current_offsets
from tests.pipeline.truth.recording import SETTINGS
from tests.support.server_process import start_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
KILLED_S = 300


@pytest.fixture(scope="module")
def coterie(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recorded]:
    """A recorded server and its lakes."""
    folder = tmp_path_factory.mktemp("coterie")
    segments = folder / "segments"
    with start_server(data=folder / "data", settings=SETTINGS) as server:
        lakes = Lakes(
            folder / "lakes",
            spark,
            {
                "kafka": f"kafka:{server.bootstrap}",
                "segments": f"segments:{segments}",
            },
            frozenset({"kafka"}),
            lambda: copy_log(server.bootstrap, segments),
        )
        with recorded(server.bootstrap, lakes) as done:
            yield done


def test_the_pipeline_equals_what_real_clients_did(
    coterie: Recorded, subtests: pytest.Subtests, spark: SparkSession, tmp_path: Path
) -> None:
    """Compare all tables in one test, so that two workers do not record twice."""
    for source, tables in coterie.lakes.items():
        for check in checks_of(source):
            with subtests.test(source=source, check=check.__name__):
                check(tables, coterie.truth)
        for name, reader in READERS.items():
            with subtests.test(source=source, reader=name):
                found = current_offsets(reader, coterie.folder / source)
                assert found == committed_offsets(coterie.truth)
    with subtests.test("readers count right after runs that were killed"):
        check_killed_runs(coterie, spark, tmp_path / "lake")


def check_killed_runs(coterie: Recorded, spark: SparkSession, lake: Path) -> None:
    """Kill a run that reads and one that builds; count with other readers in between
    and at the end."""
    source = coterie.sources["segments"]
    kill_run("offset_commits", lake, source)
    run_once(job_of(lake, source, spark, max_records=PART_RECORDS))
    part = current_offsets(READERS["deltalake"], lake)
    assert len({row[:3] for row in part}) == len(part) > 0
    kill_run(CURRENT_OFFSETS, lake, source)
    for reader in READERS.values():
        assert current_offsets(reader, lake) == part
    run_once(job_of(lake, source, spark))
    for reader in READERS.values():
        assert current_offsets(reader, lake) == committed_offsets(coterie.truth)


def kill_run(table: str, lake: Path, source: str) -> None:
    """Run the pipeline in a process that dies when it commits a table."""
    module = "tests.pipeline.truth.killed_run"
    command = [sys.executable, "-m", module, table, str(lake), source]
    done = subprocess.run(command, capture_output=True, check=False, timeout=KILLED_S)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()[-2_000:]
