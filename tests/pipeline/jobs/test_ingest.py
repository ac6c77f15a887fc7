"""Reading a log into bronze and silver: once, in any steps, killed in between."""

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
from coterie.pipeline.jobs.ingest import Step, add_samples, divided, look
from coterie.pipeline.jobs.run import read_log, take_samples
from coterie.pipeline.jobs.worker import LANDED, Task, do
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Head, OffsetRange
from tests.pipeline.generator.reading import truth_of
from tests.pipeline.jobs.lakes import ALONE, job, tables_of

KILLED = -9


@pytest.fixture(scope="module")
def whole(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Read in one step."""
    one = job(tmp_path_factory.mktemp("whole") / "lake", log)
    read_log(one)
    return one.lake


@pytest.fixture(scope="module")
def expected(whole: Lake) -> dict[str, list[str]]:
    return tables_of(whole, LANDED)


def test_every_commit_of_truth_that_counts_is_there(whole: Lake, log: Path) -> None:
    held = {each.log_partition: each.next_offset for each in whole.version.heads}
    told = {
        (each["log_partition"], each["log_offset"], each["group_id"], each["offset"])
        for each in truth_of(log, "commits")
        if each["outcome"] in {"plain", "committed"}
        and each["log_offset"] < held[each["log_partition"]]
    }
    names = ["log_partition", "log_offset", "group_id", "committed_offset"]
    found = whole.read("offset_commits", names).to_pydict()
    assert set(zip(*(found[name] for name in names), strict=True)) == told


def test_a_version_tells_how_far_it_goes_in_offsets_and_times(whole: Lake) -> None:
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
def test_any_steps_give_the_same_tables(
    steps: list[int],
    tasks: int,
    log: Path,
    expected: dict[str, list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("split") / "lake"
    for records in steps:
        read_log(job(folder, log, max_records=records))
    rest = job(folder, log, step=ALONE._replace(tasks=tasks))
    read_log(rest)
    assert tables_of(rest.lake, LANDED) == expected


def test_nothing_new_is_no_new_version(log: Path, whole: Lake) -> None:
    before = whole.version
    again = job(Path(whole.storage.root), log)
    assert read_log(again) == 0
    assert again.lake.version == before


@pytest.mark.slow
def test_a_task_that_is_done_twice_counts_once(
    log: Path, tmp_path: Path, expected: dict[str, list[str]]
) -> None:
    one = job(tmp_path / "lake", log)
    stray = Task(
        one.source,
        str(one.lake.storage),
        1,
        tuple(plan(look(one.lake, one.source), {})),
    )
    for name in LANDED:
        one.lake.storage.make(f"bronze/{name}")
        one.lake.storage.make(f"silver/{name}")
    assert do(stray).files
    read_log(one)
    assert tables_of(one.lake, LANDED) == expected


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["writing", "written", "committed"])
def test_a_run_that_is_killed_is_gone_on_with(
    moment: str, log: Path, tmp_path: Path, expected: dict[str, list[str]]
) -> None:
    folder = tmp_path / "lake"
    for _ in range(3):
        command = [sys.executable, "-m", "tests.pipeline.jobs.dying", moment]
        done = subprocess.run([*command, folder, log], check=False, timeout=100)
        assert done.returncode == KILLED
    rest = job(folder, log)
    assert rest.lake.version.number == (3 if moment == "committed" else 0)
    read_log(rest)
    assert tables_of(rest.lake, LANDED) == expected


@pytest.mark.slow
def test_samples_are_added_once(log: Path, tmp_path: Path) -> None:
    one = job(tmp_path / "lake", log)
    count = take_samples(one)
    truth = truth_of(log, "ends")
    assert count == len({(e["topic"], e["partition"], e["at_ms"]) for e in truth})
    assert take_samples(one) == 0
    first = one.lake.read("partition_end_samples").slice(0, 1)
    assert add_samples(one.lake, first) == 0
    assert one.lake.version.number == 1


class _Shorter:
    """A source whose log was made anew."""

    def heads(self, _: object) -> dict[int, Head]:
        return {0: Head(0, 5, 5)}

    def describe(self) -> str:
        return "store:/new"


def test_a_log_that_is_shorter_than_what_was_read_is_another_one(
    log: Path, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log)
    heads = (LogHead(0, 9, 0, 9, 9),)
    one.lake.version = msgspec.structs.replace(one.lake.version, heads=heads)
    shorter: Any = _Shorter()
    with pytest.raises(LogError, match=r"store:/new ends at 5, and was read to 9 "):
        look(one.lake, shorter)


class _Broken:
    """A source whose bytes cannot be read."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, part: OffsetRange) -> Any:
        yield next(iter(self._source.read(part)))
        raise LogError("the disk is on fire")


def test_what_a_worker_cannot_read_is_told_and_leaves_nothing(
    log: Path, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log)
    one.source = _Broken(one.source)
    with pytest.raises(LogError, match="the disk is on fire"):
        read_log(one)
    assert one.lake.version.number == 0
    assert not [e for e in one.lake.storage.entries("") if "parquet" in e.path]


def test_ranges_are_divided_evenly_and_in_order() -> None:
    ranges = [OffsetRange(0, at, at + 10) for at in range(0, 100, 10)]
    parts = divided(ranges, 3)
    assert [each for part in parts for each in part] == ranges
    assert [len(part) for part in parts] == [4, 3, 3]
    assert divided([], 3) == []
    assert Step().tasks == 2
