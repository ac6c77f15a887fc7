"""A run on a cluster of two workers gives what a run here gives;
docs/pipeline-cluster.md is the same as a recipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from coterie.pipeline.jobs.run import read_log
from coterie.pipeline.jobs.worker import LANDED
from coterie.pipeline.lake.lake import Lake
from tests.pipeline.cluster.standalone import environment, packed, spark_cluster
from tests.pipeline.generator.reading import truth_of
from tests.pipeline.jobs.lakes import job, log, tables_of

__all__ = ["log"]
TOP = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_workers_write_what_one_process_writes(log: Path, tmp_path: Path) -> None:
    package = packed(tmp_path)
    with spark_cluster(tmp_path / "spark", workers=2) as cluster:
        driver = [sys.executable, "-m", "tests.pipeline.cluster.on_cluster"]
        done = subprocess.run(
            [*driver, cluster.master, package, tmp_path / "lake", log],
            env=environment() | {"PYTHONPATH": f"{TOP / 'src'}:{TOP}"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said = [cluster.said(each) for each in cluster.workers]
    assert all("Finished task" in each for each in said)
    assert "coterie.zip/coterie/__init__.py" in done.stdout
    lake = Lake.open(tmp_path / "lake")
    here = job(tmp_path / "here", log)
    read_log(here)
    assert tables_of(lake, LANDED) == tables_of(here.lake, LANDED)
    found = lake.read("current_offsets", ["group_id", "topic", "partition"])
    held = {each.log_partition: each.next_offset for each in lake.version.heads}
    assert found.num_rows
    assert found.num_rows <= len(truth_of(log, "current_offsets")) + len(held)
