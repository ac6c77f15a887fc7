"""Ingestion into bronze and silver: in one step, in several, and after kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.errors import LogError
from coterie.pipeline.gold.settings import LogHead
from coterie.pipeline.jobs.ingest import (
    INGESTED_TABLES,
    StepLimits,
    Task,
    read_heads,
    run_task,
    split,
)
from coterie.pipeline.jobs.run import read_log
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Head, OffsetRange
from tests.pipeline.jobs.lakes import IN_PROCESS, job, tables_of
from tests.testing.log_generator.generated_log import read_truth

KILLED = -9


@pytest.fixture(scope="module")
def whole(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake that was ingested in one step."""
    one = job(tmp_path_factory.mktemp("whole") / "lake", log)
    read_log(one)
    return one.lake


@pytest.fixture(scope="module")
def expected(whole: Lake) -> dict[str, list[str]]:
    return tables_of(whole, INGESTED_TABLES)


def test_every_committed_offset_of_the_log_is_ingested(whole: Lake, log: Path) -> None:
    held = {each.log_partition: each.next_offset for each in whole.version.heads}
    told = {
        (each["log_partition"], each["log_offset"], each["group_id"], each["offset"])
        for each in read_truth(log, "commits")
        if each["outcome"] in {"plain", "committed"}
        and each["log_offset"] < held[each["log_partition"]]
    }
    names = ["log_partition", "log_offset", "group_id", "committed_offset"]
    found = whole.read("offset_commits", names).to_pydict()
    assert set(zip(*(found[name] for name in names), strict=True)) == told


def test_a_version_records_its_positions_and_times(whole: Lake) -> None:
    version = whole.version
    records = whole.read("records", ["log_partition", "log_offset", "append_ts"])
    for head in version.heads:
        mine = records.filter(pc.field("log_partition") == head.log_partition)
        assert pc.max(mine["log_offset"]).as_py() == head.next_offset - 1
        assert head.next_offset == head.stable_offset <= head.end_offset
    assert version.as_of_ts == pc.max(records["append_ts"]).as_py()
    assert version.history_from_ts == pc.min(records["append_ts"]).as_py()
    assert version.of("records").rows == records.num_rows


@settings(max_examples=8)
@given(
    steps=st.lists(st.integers(1, 2_000), min_size=1, max_size=4),
    tasks=st.integers(1, 5),
)
@pytest.mark.slow
def test_any_number_of_steps_ingests_the_same_tables(
    steps: list[int],
    tasks: int,
    log: Path,
    expected: dict[str, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("split") / "lake"
    for records in steps:
        read_log(job(folder, log, max_records=records))
    rest = job(folder, log, limits=IN_PROCESS._replace(tasks=tasks))
    read_log(rest)
    assert tables_of(rest.lake, INGESTED_TABLES) == expected


def test_a_run_without_new_records_commits_no_version(log: Path, whole: Lake) -> None:
    before = whole.version
    again = job(Path(whole.storage.root), log)
    assert read_log(again) == 0
    assert again.lake.version == before


@pytest.mark.slow
def test_the_files_of_a_repeated_task_are_not_counted_twice(
    log: Path, tmp_path: Path, expected: dict[str, list[str]]
) -> None:
    one = job(tmp_path / "lake", log)
    stray = Task(
        one.source,
        str(one.lake.storage),
        1,
        tuple(plan(read_heads(one.lake, one.source), {})),
    )
    assert run_task(stray).files
    read_log(one)
    assert tables_of(one.lake, INGESTED_TABLES) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment", ["writing", "written", "decided", "applied", "committed"]
)
def test_a_run_continues_after_killed_runs(
    moment: str, log: Path, tmp_path: Path, expected: dict[str, list[str]]
) -> None:
    folder = tmp_path / "lake"
    for _ in range(3):
        command = [sys.executable, "-m", "tests.pipeline.jobs.killed_run", moment]
        done = subprocess.run([*command, folder, log], check=False, timeout=300)
        assert done.returncode == KILLED
    rest = job(folder, log)
    is_lost = moment in {"writing", "written"}
    assert rest.lake.version.number == (0 if is_lost else 3)
    read_log(rest)
    assert tables_of(rest.lake, INGESTED_TABLES) == expected


@pytest.mark.slow
class _Shorter:
    """A source of a log that was deleted and created again."""

    def heads(self, _: object) -> dict[int, Head]:
        return {0: Head(0, 5, 5)}

    def describe(self) -> str:
        return "segments:/new"


def test_a_log_shorter_than_the_position_is_refused(log: Path, tmp_path: Path) -> None:
    one = job(tmp_path / "lake", log)
    heads = (LogHead(0, 9, 0, 9, 9),)
    one.lake.version = msgspec.structs.replace(one.lake.version, heads=heads)
    shorter: Any = _Shorter()
    with pytest.raises(
        LogError,
        match=r"segments:/new ends at offset 5, but the lake was read up to offset 9",
    ):
        read_heads(one.lake, shorter)


class _Broken:
    """A source that fails after its first rows."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, part: OffsetRange) -> Any:
        yield next(iter(self._source.read(part)))
        raise LogError("disk failure")


def test_an_error_of_a_worker_is_raised_and_leaves_no_files(
    log: Path, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log)
    one.source = _Broken(one.source)
    with pytest.raises(LogError, match="disk failure"):
        read_log(one)
    assert one.lake.version.number == 0
    assert not [e for e in one.lake.storage.entries("") if "parquet" in e.path]


def test_ranges_are_divided_evenly_and_in_order() -> None:
    ranges = [OffsetRange(0, at, at + 10) for at in range(0, 100, 10)]
    parts = split(ranges, 3)
    assert [each for part in parts for each in part] == ranges
    assert [len(part) for part in parts] == [4, 3, 3]
    assert split([], 3) == []
    assert StepLimits().tasks == 2
