"""Run tests against a copy of src in which one file is changed.

Each process of the pool has its own copy. It has imported pytest and the libraries that
most tests need, and forks for each run of tests, so that a run imports only coterie and
the tests. Bytecode goes to the temporary folder: the checkout stays as it is.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures import as_completed as completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

ROOT: Final = Path(__file__).parent.parent
SRC: Final = ROOT / "src"
PRELOADED: Final = (
    *("asyncio", "cramjam", "crc32c", "google.protobuf", "hypothesis", "msgspec"),
    *("prometheus_client", "pytest", "pytest_asyncio", "pytest_timeout", "re2"),
    *("rich.table", "scramp", "xxhash", "_pytest.fixtures", "_pytest.assertion"),
    *("kafka", "kio.index"),
)
ADDRESS_OF_KAFKA: Final = "COTERIE_TEST_KAFKA_AT_"
"""Start of the variables that name a node of Apache Kafka (tests/interop/node.py)."""
OPTIONS: Final = (
    *("-q", "--no-header", "-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-p", "no:xdist", "--hypothesis-seed=7"),
    # Warnings about the plugins that the process of the pool imported before pytest.
    *("-W", "ignore:Slow code in plugin", "-W", "ignore:Module already imported"),
)

Work = TypeVar("Work")
Answer = TypeVar("Answer")


class Edit(NamedTuple):
    """The changed text of one file; `path` is relative to the root."""

    path: str
    text: str


class Report(NamedTuple):
    """The end of one run of tests.

    `failed` has the tests that failed, `seconds` the duration of each test. A run that
    was killed at its time limit has `hung`. `unusable` is the output of a run that
    could not import or collect its tests.
    """

    failed: tuple[str, ...] = ()
    seconds: Mapping[str, float] = {}
    hung: bool = False
    unusable: str = ""

    @property
    def passed(self) -> bool:
        """Whether all tests ran and none failed."""
        return not (self.failed or self.hung or self.unusable)


class Plugin(Protocol):
    """A pytest plugin with a result that JSON can hold."""

    def result(self) -> Any:
        """Return what the run recorded."""


# Without __eq__, because pytest keeps plugins in sets.
@dataclass(slots=True, eq=False)
class Recorder:
    """A pytest plugin: runs chosen tests in a given order and records outcomes.

    It deselects all others of their files, because pytest fails as a whole when one of
    the names in its arguments leads to no test.
    """

    chosen: frozenset[str]
    order: Mapping[str, float]
    failed: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.chosen:
            items[:] = [item for item in items if item.nodeid in self.chosen]
        items.sort(key=lambda item: self.order.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        before = self.seconds.get(report.nodeid, 0.0)
        self.seconds[report.nodeid] = round(before + report.duration, 3)
        if report.outcome == "failed" and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def result(self) -> Any:
        """Return the failed tests and the seconds of each."""
        return {"failed": self.failed, "seconds": self.seconds}


class Sandbox:
    """A copy of src in a temporary folder, with processes that run tests on it."""

    def __init__(self, folder: Path) -> None:
        folder = folder.resolve()  # as coverage names files
        self._folder = folder
        self._edits = 0
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(SRC, folder / "src", ignore=ignored)

    def run_tests(
        self,
        tests: Iterable[str],
        *,
        edit: Edit | None = None,
        limit_s: float = 600.0,
        order: Mapping[str, float] | None = None,
        to_the_end: bool = False,
        timeout_s: float = 120.0,
    ) -> Report:
        """Run files or tests in their `order`, up to the first failure. A test that
        takes longer than `timeout_s` fails.
        """
        named = [*tests]
        chosen = frozenset(named if any("::" in test for test in named) else ())
        files = list(dict.fromkeys(test.partition("::")[0] for test in named))
        arguments = [*files, f"--timeout={timeout_s:.0f}"]
        arguments += [] if to_the_end else ["-x"]
        with self.changed(edit):
            recorder = Recorder(chosen, order or {})
            ended = self.pytest(arguments, recorder, limit_s)
        if ended is None:
            return Report(hung=True)
        code, result, output = ended
        seconds, failed = result["seconds"], tuple(result["failed"])
        unusable = output if code and not failed else ""
        return Report(failed, seconds, unusable=unusable)

    @property
    def source(self) -> Path:
        """The folder of the copy of src."""
        return self._folder / "src"

    def environment(self) -> dict[str, str]:
        """Return the variables for a process that imports the copy, without a node of
        Apache Kafka.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(ADDRESS_OF_KAFKA)
        }
        path = os.pathsep.join((str(self.source), str(ROOT)))
        hypothesis = str(self._folder / "hypothesis")
        return {
            **kept,
            "PYTHONPATH": path,
            "HYPOTHESIS_STORAGE_DIRECTORY": hypothesis,
        }

    @contextlib.contextmanager
    def changed(self, edit: Edit | None) -> Iterator[None]:
        """Change one file of the copy for the duration of the context."""
        if edit is None:
            yield
            return
        path = self._folder / edit.path
        before, times = path.read_bytes(), path.stat()
        path.write_text(edit.text, encoding="utf-8")
        # Python compiles a file again only if its size or its second differs.
        self._edits += 1
        second = times.st_mtime + self._edits
        os.utime(path, (second, second))
        try:
            yield
        finally:
            path.write_bytes(before)
            os.utime(path, (times.st_atime, times.st_mtime))

    def pytest(
        self, arguments: list[str], plugin: Plugin, limit_s: float
    ) -> tuple[int, Any, str] | None:
        """Run pytest in a forked process. Return its exit code, the plugin's result and
        the end of its output; None when it was killed at the time limit.
        """
        report = self._folder / "report.json"
        output = self._folder / "output.txt"
        report.unlink(missing_ok=True)
        forked = multiprocessing.get_context("fork").Process(
            target=self._child, args=(arguments, plugin, report, output)
        )
        forked.start()
        assert forked.pid is not None
        try:
            forked.join(limit_s)
        finally:
            # Tests may leave servers behind, which belong to the session of the child.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(forked.pid, signal.SIGKILL)
        hung = forked.exitcode is None
        forked.join()
        if hung:
            return None
        text = output.read_text(encoding="utf-8", errors="replace")[-2_000:]
        if not report.exists():
            return 1, {"failed": ["the process of the tests"], "seconds": {}}, text
        code, result = json.loads(report.read_text(encoding="utf-8"))
        return code, result, text

    def _child(
        self, arguments: list[str], plugin: Plugin, report: Path, output: Path
    ) -> None:
        os.setsid()
        target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        os.chdir(ROOT)
        sys.path[:0] = [str(self.source), str(ROOT)]
        environment = self.environment()
        os.environ.clear()
        os.environ.update(environment)
        temporary = self._folder / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        wanted = [*OPTIONS, f"--basetemp={temporary}", *arguments]
        code = int(importlib.import_module("pytest").main(wanted, plugins=[plugin]))
        report.write_text(json.dumps([code, plugin.result()]), encoding="utf-8")
        sys.stdout.flush()
        os._exit(0)


_own: list[Sandbox] = []
"""The sandbox of a process of the pool."""


def own_sandbox() -> Sandbox:
    """Return the sandbox of this process of the pool."""
    return _own[0]


@contextlib.contextmanager
def pool_of_sandboxes(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes that have a sandbox each."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        pool = ProcessPoolExecutor(
            processes,
            # A process that has imported neither coterie nor tests.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_initialize,
            initargs=(Path(folder),),
        )
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _initialize(folder: Path) -> None:
    bytecode = str(folder / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = bytecode
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    own = folder / str(os.getpid())
    own.mkdir()
    _own.append(Sandbox(own))


def each_done(
    pool: ProcessPoolExecutor,
    function: Callable[[Work], Answer],
    work: Iterable[Work],
) -> Iterator[tuple[Work, Answer]]:
    """Yield each piece of work and its answer, as they end."""
    futures: dict[Future[Answer], Work] = {
        pool.submit(function, each): each for each in work
    }
    for future in completed(futures):
        yield futures[future], future.result()
