"""Spark reads the Delta tables of a lake with Delta's own reader.

There is no Delta release for Spark 4.3 yet, so `make spark42` runs this test, with
PySpark 4.2 and the jars from Maven Central.
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyspark
import pytest

from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.cluster.standalone import environment
from tests.pipeline.lakes import AS_OF, Rows, commit_rows, make_lake, table_of

TOP = Path(__file__).parents[2]
JARS = sorted((TOP / "build" / "delta-spark").glob("*.jar"))
NAMES = ("current_offsets", "offset_commits", "log_gaps")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not pyspark.__version__.startswith("4.2."),
    reason="Delta's newest release is for Spark 4.2: make spark42 runs this test",
)
@pytest.mark.skipif(not JARS, reason="Delta's jars are not in build/delta-spark")
def test_spark_reads_the_tables_of_a_lake_and_their_earlier_versions(
    tmp_path: Path,
) -> None:
    commits = [{"append_ts": AS_OF - timedelta(days=day)} for day in range(3)]
    rows: Rows = {"offset_commits": commits, "current_offsets": [{}, {}]}
    lake = Lake.open_to_write(make_lake(tmp_path / "lake", rows))
    later: dict[str, list[Any]] = {
        "offset_commits": commits[:1],
        "current_offsets": [{}],
    }
    commit_rows(lake, {name: table_of(name, later[name]) for name in later})
    folders = {name: f"{TABLES[name].layer.value}/{name}" for name in NAMES}
    reader = [sys.executable, "-m", "tests.pipeline.cluster.delta_reader"]
    jars = ",".join(map(str, JARS))
    done = subprocess.run(
        [*reader, jars, str(tmp_path / "lake"), *folders.values()],
        env=environment() | {"PYTHONPATH": f"{TOP / 'src'}:{TOP}"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout)
    for name, folder in folders.items():
        assert found[folder]["rows"] == lake.rows(name), name
        assert set(TABLES[name].schema.names) <= set(found[folder]["columns"])
        # No file is older than a week, so Delta keeps the files of all versions.
        assert not found[folder]["unused"]
    assert sorted(found["silver/offset_commits"]["rows_at"].values())[-2:] == [1, 3]
