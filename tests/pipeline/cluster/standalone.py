"""A standalone Spark cluster on loopback: a master and workers, each a process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from coterie.pipeline.java import cache_directory, find_java
from tests.support.ports import free_ports

SOURCE = Path(__file__).parents[3] / "src"
_MASTER_READY = "I have been elected leader"
_WORKER_READY = "Successfully registered with master"
SPARK_BIN = Path(pyspark.__file__).parent / "bin"
_ROLE = "org.apache.spark.deploy"


@dataclass(frozen=True)
class SparkCluster:
    """A running standalone Spark cluster."""

    master: str
    workers: tuple[Path, ...]
    """The work directories of the workers."""

    def executor_log(self, worker: Path) -> str:
        """Return the stderr of a worker's executors."""
        return "".join(each.read_text() for each in worker.glob("app-*/*/stderr"))


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[SparkCluster]:
    """Run a cluster with one core per worker."""
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    places = tuple(folder / f"worker-{number}" for number in range(workers))
    with contextlib.ExitStack() as stack:
        arguments = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        stack.enter_context(_process("master.Master", _MASTER_READY, *arguments))
        for place in places:
            arguments = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g")
            where = ("--webui-port", "0", "--work-dir", str(place), master)
            stack.enter_context(
                _process("worker.Worker", _WORKER_READY, *arguments, *where)
            )
        yield SparkCluster(master, places)


@contextlib.contextmanager
def _process(role: str, ready: str, *arguments: str) -> Iterator[None]:
    """Start a process, and enter the block when it is ready."""
    process = subprocess.Popen(
        [SPARK_BIN / "spark-class", f"{_ROLE}.{role}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    assert process.stdout is not None
    output = process.stdout
    rest = threading.Thread(target=deque, args=(output, 0))
    try:
        assert any(ready in line for line in output), f"{role} ended"
        rest.start()
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
        if rest.ident is not None:
            rest.join(60)
        output.close()


def environment() -> dict[str, str]:
    """Return the environment of a cluster machine: Python and Java, no Coterie."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {
        "JAVA_HOME": str(find_java(os.environ, cache_directory(os.environ))),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def zip_coterie(folder: Path) -> Path:
    """Return a zip file of Coterie for `--py-files`."""
    path = folder / "coterie.zip"
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(SOURCE.rglob("*")):
            if each.suffix in {".py", ".pyi", ".sql", ".properties"}:
                file.write(each, each.relative_to(SOURCE))
    return path
