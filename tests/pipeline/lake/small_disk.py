"""Runs on a disk that grows: small_disk.py MOUNT LOG.

The lake is in a file system of memory, which is a little larger in each run, until one
run is complete. Run it in a namespace of mounts.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from coterie.cli.main import main
from coterie.cli.pipeline import run as command
from coterie.pipeline.jobs import run as job
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.spark_session import Engine, start_session
from coterie.pipeline.tables.all_tables import needed
from tests.pipeline.conftest import SMALL_JOBS
from tests.pipeline.jobs.lakes import tables_of

RUNS_MIN = 10
BUILT = needed("current_offsets")
"""All gold tables take minutes."""


def resize(mount: Path, size_kb: int, *, is_new: bool = False) -> None:
    how = f"{'' if is_new else 'remount,'}size={size_kb}k"
    line = ["mount", "-t", "tmpfs", "-o", how, "tmpfs", str(mount)]
    if subprocess.run(line, check=False).returncode:
        sys.exit("mount failed")


def run(lake: Path, log: Path) -> tuple[int, str]:
    """Return the exit code and what was written to stderr."""
    samples = str(log / "truth" / "ends.jsonl")
    words = ["--from", str(log), "--to", str(lake), "--samples", samples]
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        code = main(["pipeline", "run", *words])
    return code, error.getvalue()


def play(mount: Path, log: Path) -> None:
    vars(command)["start_spark"] = lambda _: start_session(
        Engine(memory="1g", shuffle_partitions=2, java_options=SMALL_JOBS)
    )
    build = job.run_once
    vars(job)["run_once"] = lambda one: build(replace(one, gold=BUILT))
    whole = mount.with_name("whole")
    assert run(whole, log) == (0, "")
    expected = tables_of(Lake.open(whole))
    size_kb = int(subprocess.check_output(["du", "-sk", whole]).split()[0])
    step_kb = size_kb // (2 * RUNS_MIN)
    resize(mount, step_kb, is_new=True)
    said = []
    while True:
        code, error = run(mount / "lake", log)
        if code == 0:
            break
        assert code == 1, error
        [line] = error.splitlines()
        assert "no space is left on the disk of" in line, line
        said.append(line)
        if (mount / "lake" / "lake.json").exists():
            lake = Lake.open(mount / "lake")
            partly = tables_of(lake, lake.version.tables)
            assert all(set(rows) <= set(expected[n]) for n, rows in partly.items())
        resize(mount, step_kb * (len(said) + 1))
    assert len(said) >= RUNS_MIN, said
    lake = Lake.open(mount / "lake")
    assert {each.name for each in BUILT} <= lake.version.tables.keys()
    assert tables_of(lake) == expected
    unused = len(list((mount / "lake").rglob("*.parquet"))) - sum(
        len(lake.files(name)) for name in lake.version.tables
    )
    assert not unused, f"{unused} files are in no table"


if __name__ == "__main__":
    play(Path(sys.argv[1]), Path(sys.argv[2]))
