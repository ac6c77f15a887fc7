"""A run on a cluster of two workers gives the tables of a local run.

docs/pipeline-cluster.md describes the same steps.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.pipeline.jobs.ingest import INGESTED_TABLES
from coterie.pipeline.jobs.run import read_log
from coterie.pipeline.lake.lake import Lake
from tests.pipeline.cluster.standalone import environment, spark_cluster, zip_coterie
from tests.pipeline.jobs.lakes import job, log, tables_of
from tests.testing.log_generator.generated_log import read_truth

__all__ = ["log"]
TOP = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_of_two_workers_writes_the_same_tables_as_one_process(
    log: Path, tmp_path: Path
) -> None:
    package = zip_coterie(tmp_path)
    with spark_cluster(tmp_path / "spark", workers=2) as cluster:
        driver = [sys.executable, "-m", "tests.pipeline.cluster.driver"]
        done = subprocess.run(
            [*driver, cluster.master, package, tmp_path / "lake", log],
            env=environment() | {"PYTHONPATH": f"{TOP / 'src'}:{TOP}"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        logs = [cluster.executor_log(each) for each in cluster.workers]
    assert all("Finished task" in each for each in logs)
    assert "coterie.zip/coterie/__init__.py" in done.stdout
    lake = Lake.open(tmp_path / "lake")
    local = job(tmp_path / "local", log)
    read_log(local)
    assert tables_of(lake, INGESTED_TABLES) == tables_of(local.lake, INGESTED_TABLES)
    found = lake.read("current_offsets", ["group_id", "topic", "partition"])
    held = {each.log_partition: each.next_offset for each in lake.version.heads}
    assert found.num_rows
    assert found.num_rows <= len(read_truth(log, "current_offsets")) + len(held)
