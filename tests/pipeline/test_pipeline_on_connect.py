"""A run through a Spark Connect server gives the tables of a local run.

docs/pipeline-cluster.md describes the same steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from coterie.pipeline.lake.lake import Lake
from tests.pipeline.cluster.connect import connect_server
from tests.pipeline.cluster.standalone import zip_coterie
from tests.pipeline.jobs.conftest import whole
from tests.pipeline.jobs.lakes import log, tables_of

__all__ = ["log", "whole"]
pytest.importorskip("grpc_status", reason="grpcio-status is not installed")
TOP = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_run_through_spark_connect_writes_the_tables_of_a_local_run(
    log: Path, tmp_path: Path, whole: Lake
) -> None:
    lake, ends = tmp_path / "lake", log / "truth" / "ends.jsonl"
    command = [sys.executable, "-m", "coterie.cli.main", "pipeline", "run"]
    where = ["--from", str(log), "--to", str(lake), "--samples", str(ends)]
    # Without a usable Java, the client cannot start a Spark of its own.
    no_java = os.environ | {"PYTHONPATH": f"{TOP / 'src'}", "JAVA_HOME": "/nowhere"}
    package = f"--conf=spark.submit.pyFiles={zip_coterie(tmp_path)}"
    with connect_server(tmp_path) as address:
        done = subprocess.run(
            [*command, *where, "--remote", address, package],
            env=no_java,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert tables_of(Lake.open(lake)) == tables_of(whole)
