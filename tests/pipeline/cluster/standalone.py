"""A standalone Spark cluster on loopback: a master and workers, each a process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from coterie.pipeline.session.java import cache_directory, find_java

SOURCE = Path(__file__).parents[3] / "src"
_READY_S = 120
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ROLE = "org.apache.spark.deploy"


@dataclass(frozen=True)
class SparkCluster:
    """A running one."""

    master: str
    workers: tuple[Path, ...]
    """Where each worker keeps what its executors say."""

    def said(self, worker: Path) -> str:
        """What the executors of a worker said."""
        return "".join(each.read_text() for each in worker.glob("app-*/*/stderr"))


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int) -> Iterator[SparkCluster]:
    """Start one, with a core for each worker, and end it."""
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    places = tuple(folder / f"worker-{number}" for number in range(workers))
    with contextlib.ExitStack() as stack:
        asked = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        log = stack.enter_context(_process(folder / "master", "master.Master", *asked))
        _wait_for(log, "I have been elected leader")
        for place in places:
            asked = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g")
            where = ("--webui-port", "0", "--work-dir", str(place), master)
            log = stack.enter_context(_process(place, "worker.Worker", *asked, *where))
            _wait_for(log, "Successfully registered with master")
        yield SparkCluster(master, places)


@contextlib.contextmanager
def _process(folder: Path, role: str, *arguments: str) -> Iterator[Path]:
    folder.mkdir(parents=True)
    log = folder / "log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [_SPARK_CLASS, f"{_ROLE}.{role}", *arguments],
            stdout=said,
            stderr=said,
            env=environment(),
            start_new_session=True,
        )
    try:
        yield log
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def environment() -> dict[str, str]:
    """Of a machine of the cluster: Python and Java, and no Coterie on its path."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return kept | {
        "JAVA_HOME": str(find_java(os.environ, cache_directory(os.environ))),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def packed(folder: Path) -> Path:
    """Coterie as `--py-files` takes it."""
    path = folder / "coterie.zip"
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(SOURCE.rglob("*")):
            if each.suffix in {".py", ".properties"}:
                file.write(each, each.relative_to(SOURCE))
    return path


def _wait_for(log: Path, words: str) -> None:
    until = time.monotonic() + _READY_S
    while words not in log.read_text():
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port: int = some.getsockname()[1]
    return port
