"""The examples of schedules: the wrapper for cron, and the files of job schedulers."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

import pytest

SCHEDULES = Path(__file__).parents[2] / "examples" / "schedules"
# It prints its arguments, and ends with the code of the option --exit.
_FAKE = """#!/bin/sh
echo "$@"
[ "$3" = "--exit" ] && exit "$4"
exit 0
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a command `coterie` that does nothing."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "coterie"
    command.write_text(_FAKE)
    command.chmod(0o755)
    return f"{command.parent}:/usr/bin:/bin"


def run_wrapper(path: str, *arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [SCHEDULES / "run-pipeline.sh", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path},
    )
    return done.returncode, done.stdout + done.stderr


def test_the_wrapper_runs_the_pipeline_with_its_options(
    tmp_path: Path, path: str
) -> None:
    ran = run_wrapper(path, tmp_path / "lock", "--from", "a b", "--to", "lake")
    assert ran == (0, "pipeline run --from a b --to lake\n")


@pytest.mark.parametrize("code", [1, 2, 130])
def test_the_wrapper_returns_the_exit_code_of_the_run(
    tmp_path: Path, path: str, code: int
) -> None:
    ran = run_wrapper(path, tmp_path / "lock", "--exit", str(code))
    assert ran[0] == code


def test_the_wrapper_skips_a_run_while_another_one_holds_the_lock(
    tmp_path: Path, path: str
) -> None:
    lock = tmp_path / "lock"
    holder = ["flock", str(lock), "sh", "-c", "echo locked; read -r line"]
    with subprocess.Popen(
        holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        code, output = run_wrapper(path, lock, "--from", "log")
        other.communicate(b"\n")
    assert (code, output) == (0, f"skipped: the previous run still holds {lock}\n")


def test_the_dag_runs_the_pipeline_and_then_the_report() -> None:
    """Airflow is not a dependency; docs/pipeline-cluster.md says how it was tried."""
    text = (SCHEDULES / "airflow_dag.py").read_text("utf-8")
    texts = [
        part.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.JoinedStr)
        for part in node.values
        if isinstance(part, ast.Constant)
    ]
    assert texts[0] == "coterie pipeline run --from "
    assert "coterie pipeline report --lake " in texts


def test_the_job_of_databricks_runs_one_update_at_a_time() -> None:
    job = json.loads((SCHEDULES / "databricks_job.json").read_text("utf-8"))
    assert job["max_concurrent_runs"] == 1
    [update] = job["tasks"]
    assert update["spark_python_task"]["python_file"].endswith("/pipeline_job.py")
    clusters = {each["job_cluster_key"] for each in job["job_clusters"]}
    assert update["job_cluster_key"] in clusters
