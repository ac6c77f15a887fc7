"""Tests for the log as a batch source and as a stream source of Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from coterie.errors import LogError, SettingError
from coterie.pipeline.sources.segments import open_segments
from tests.pipeline.sources.logs import (
    marker,
    of_transaction,
    plain,
    read_all,
    write,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from coterie.pipeline.sources.data_source import _LogStreamReader

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # PySpark's use of pandas warns
]
TOP = Path(__file__).parents[3]


def first_log(folder: Path) -> Path:
    """Write two log partitions, one with an open transaction."""
    write(folder, {0: [plain(0, 3), plain(3, 2)], 5: [plain(5), plain(6, 4)]}, 0)
    log = [of_transaction(0, 7, 2), marker(2, 7, commit=False)]
    return write(folder, {0: [*log, plain(3, 5), of_transaction(8, 7)]}, 3)


def grow(folder: Path) -> None:
    """Append to the log, and add a log partition."""
    for partition, first, batches in (
        (3, 0, [marker(9, 7, commit=True), plain(10)]),
        (0, 5, [plain(at) for at in range(10, 20)]),
        (4, 0, [plain(0, 4)]),
    ):
        of_partition = folder / f"__consumer_offsets-{partition}"
        of_partition.mkdir(exist_ok=True)
        with (of_partition / f"{first:020d}.log").open("ab") as file:
            file.write(b"".join(batches))


def table(spark: SparkSession, log: Path, **options: Any) -> DataFrame:
    from coterie.pipeline.sources.data_source import GROUPS_LOG, register

    register(spark)
    return spark.read.format(GROUPS_LOG).options(**options).load(str(log))


def run(spark: SparkSession, log: Path, to: Path, **options: Any) -> list[int]:
    """Stream new rows into Parquet; return the number of rows of each micro-batch."""
    from pyspark.errors import StreamingQueryException

    from coterie.pipeline.sources.data_source import GROUPS_LOG, register

    register(spark)
    stream = spark.readStream.format(GROUPS_LOG).options(**options).load(str(log))
    writer = stream.writeStream.format("parquet").option("path", str(to / "out"))
    writer = writer.option("checkpointLocation", str(to / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    while True:
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            # Spark gives the worker of a stream 10 s to start, whatever the load. It
            # fails before anything is read.
            if "failed to connect back" not in str(error) or query.recentProgress:
                raise
            query = writer.start()
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]


def written(to: Path) -> list[tuple[int, int, str | None]]:
    """Return the rows of the files that the sink has committed."""
    files = set()
    for log in (to / "out" / "_spark_metadata").glob("[0-9]*"):
        for line in log.read_text().splitlines()[1:]:
            files.add(json.loads(line)["path"].removeprefix("file://"))
    names = ["log_partition", "log_offset", "outcome"]
    rows = [row for each in files for row in pq.read_table(each).to_pylist()]
    return sorted(tuple(row[name] for name in names) for row in rows)


def expected(log: Path) -> list[tuple[int, int, str | None]]:
    return sorted(
        (each["log_partition"], each["log_offset"], each["outcome"])
        for each in read_all(open_segments(str(log))).records
    )


@pytest.mark.slow
def test_a_batch_has_the_rows_of_the_source(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = first_log(tmp_path)
    rows = [row.asDict(recursive=True) for row in table(spark, log).collect()]
    for row in rows:
        row["append_ts"] = row["append_ts"].timestamp()
        row["key"], row["value"] = bytes(row["key"]), bytes(row["value"])
    wanted = read_all(open_segments(str(log))).records
    for row in wanted:
        row["append_ts"] = row["append_ts"].timestamp()
    assert sorted(rows, key=place) == sorted(wanted, key=place)
    faults = table(spark, log, table="quarantine", logPartitions="3,9")
    found = faults.groupBy("log_partition", "reason").count().collect()
    assert [tuple(row) for row in found] == [(3, "unknown_type", 5)], (
        "not the aborted ones"
    )


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["log_partition"], row["log_offset"]


@pytest.mark.slow
def test_a_restarted_stream_returns_each_record_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, to = first_log(tmp_path / "log"), tmp_path / "to"
    sizes = run(spark, log, to, maxRecordsPerTrigger=6)
    assert (sum(sizes), len(sizes)) == (18, 3)
    assert written(to) == expected(log)
    grow(log)
    assert run(spark, log, to, maxRecordsPerTrigger=100) == [17]
    assert written(to) == expected(log)
    # Without its commit file, the last micro-batch is planned and not finished.
    (to / "checkpoint" / "commits" / "3").unlink()
    (to / "checkpoint" / "commits" / ".3.crc").unlink()
    run(spark, log, to)
    assert written(to) == expected(log)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_stream_continues_from_its_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, to = first_log(tmp_path / "log"), tmp_path / "to"
    grow(log)
    command = [sys.executable, "-m", "tests.pipeline.sources.killed_stream"]
    places = [str(each) for each in (log, to / "out", to / "checkpoint")]
    ended = subprocess.run(
        [*command, *places, "2"],
        cwd=TOP,
        start_new_session=True,
        check=False,
        capture_output=True,
        timeout=300,
    )
    assert ended.returncode == -9, ended.stderr
    assert len(list((to / "checkpoint" / "commits").glob("[0-9]*"))) >= 2
    assert 0 < len(written(to)) <= len(expected(log))
    run(spark, log, to)
    assert written(to) == expected(log)


def stream(log: Path, **options: str) -> _LogStreamReader:
    from coterie.pipeline.sources.data_source import GroupsLog

    source = GroupsLog({"source": str(log), **options})
    reader: Any = source.streamReader(source.schema())
    return reader


def test_checkpoint_offsets_are_versioned_and_sorted(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    log = first_log(tmp_path)
    grow(log)
    reader = stream(log, maxRecordsPerTrigger="5")
    assert reader.getDefaultReadLimit() == ReadMaxRows(5)
    start = reader.initialOffset()
    assert start == {"v": 1, "offsets": {}}
    end = reader.latestOffset(start, ReadAllAvailable())
    assert json.dumps(end) == '{"v": 1, "offsets": {"0": 20, "3": 11, "4": 4}}'
    assert reader.reportLatestOffset() == end
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert reader.partitions(end, end) == []
    with pytest.raises(SettingError, match="has version 2, and this Coterie"):
        reader.latestOffset({"v": 2}, ReadAllAvailable())
    with pytest.raises(LogError, match="ends at offset 20, and this query"):
        reader.partitions(start, {"v": 1, "offsets": {"0": 21}})


def test_availablenow_ends_at_the_log_end_of_the_start(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    log = first_log(tmp_path)
    reader = stream(log)
    reader.prepareForTriggerAvailableNow()
    some = reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    grow(log)
    end = reader.latestOffset(some, ReadAllAvailable())
    assert end == {"v": 1, "offsets": {"0": 10, "3": 8}}
    assert reader.reportLatestOffset() == {
        "v": 1,
        "offsets": {"0": 20, "3": 11, "4": 4},
    }


def test_a_new_query_begins_at_its_starting_offsets(tmp_path: Path) -> None:
    log = first_log(tmp_path)
    begun = stream(log, startingOffsets="latest").initialOffset()
    assert begun == {"v": 1, "offsets": {"0": 10, "3": 8}}
    begun = stream(log, startingOffsets='{"3": 3}').initialOffset()
    assert begun == {"v": 1, "offsets": {"3": 3}}


def test_small_ranges_share_a_task(tmp_path: Path) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = stream(first_log(tmp_path))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    (task,) = reader.partitions(start, end)
    assert [each[:3] for each in task.value] == [(0, 0, 10), (3, 0, 8)]
    assert sum(len(batch) for batch in reader.read(task)) == 18


def test_the_documentation_of_sources_contains_all_options() -> None:
    from coterie.pipeline.sources.data_source import GroupsLog

    page = (TOP / "docs" / "pipeline-sources.md").read_text()
    options = re.findall(r"^ *\| `([\w.]+)` \|", GroupsLog.__doc__ or "", re.MULTILINE)
    assert len(options) == 6
    assert [each for each in options if f"| `{each}` |" not in page] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": ""}, "no source is given"),
        ({"table": "current_offsets"}, "is not one of records, offset_commits"),
        ({"logPartitions": "a"}, "is not like 0,7,49"),
        ({"maxRecordsPerTrigger": "0"}, "is not a number from 1 on"),
        ({"source.log_partition": "x"}, "is not a number from 0 on"),
    ],
)
def test_invalid_options_of_a_source_are_refused(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        stream(first_log(tmp_path), **options)


def test_invalid_starting_offsets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is not earliest, latest or JSON"):
        stream(first_log(tmp_path), startingOffsets="soon").initialOffset()
