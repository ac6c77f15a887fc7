"""The pipeline's sources as tables of Spark, after `register(spark)`:

- `kafka_groups_log`: the records of `__consumer_offsets`;
- `kafka_partition_ends`: samples of the start and end offsets of topic partitions.

Both are for `spark.read` and `spark.readStream`. docs/pipeline-sources.md has examples.

Checkpoints of `kafka_groups_log` have `{"v": 1, "offsets": {"LOG PARTITION": NEXT
OFFSET}}`; log partitions without an offset begin at 0. Offsets depend on the log alone,
so a restarted query reads the same records for the same offsets.

Checkpoints of `kafka_partition_ends` have `{"v": 1, "us": TIME}`, the time of the last
sample in us since 1970. A store has past samples, so a repeated micro-batch has the
same times, and a sample of each partition at its end; a cluster returns the current
ends only, so the rows differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from coterie.errors import LogError, SettingError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.partition_ends import (
    LastSamples,
    read_samples,
    sample_partition_ends,
)
from coterie.pipeline.sources.planning import limit_heads, plan
from coterie.pipeline.sources.source import (
    Head,
    OffsetRange,
    Rows,
    Source,
    source_of_options,
)
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.bronze import RECORDS
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.pipeline.tables.silver import LOG_GAPS, QUARANTINE
from coterie.pipeline.tables.table import Layer

GROUPS_LOG: Final = "kafka_groups_log"
PARTITION_ENDS: Final = "kafka_partition_ends"
_TASK_BYTES: Final = 16 * 1024 * 1024
"""Small ranges share a task up to this size."""
_RECORD_BYTES: Final = 100
"""The estimate for ranges of sources without known sizes."""
_CHECKPOINT_VERSION: Final = 1
_BEFORE_ALL: Final = -1
_US: Final = 1_000_000
_INTERVAL_S: Final = 60
_INTERVAL_S_MAX: Final = 366 * 86_400
Positions = dict[int, int]
"""The next offset of each log partition."""


def register(spark: SparkSession) -> None:
    """Register both formats in a session. Workers must be able to import coterie."""
    spark.dataSource.register(GroupsLog)
    spark.dataSource.register(PartitionEnds)


class GroupsLog(DataSource):
    """The records of `__consumer_offsets`. Option names are not case-sensitive:

    | option | means |
    |---|---|
    | `source` | the source, as in `coterie pipeline run --from`: `segments:DIR_OR_URI`, `store:DIR`, `kafka:HOST:PORT`; the same as `load(PATH)` |
    | `table` | `records` (the default) or a silver table, decoded in the workers: `offset_commits`, `classic_group_records`, `consumer_group_records`, `tombstones`, `quarantine`, `log_gaps` |
    | `logPartitions` | the log partitions to read, like `0,7,49`; all by default |
    | `startingOffsets` | where a new query begins: `earliest` (the default), `latest`, or JSON: `{"0": 1200}`, other partitions at 0. A restarted streaming query continues from its checkpoint |
    | `maxRecordsPerTrigger` | streams only: the approximate number of records in a micro-batch; record batches are not divided |
    | `source.NAME` | an option of the source, such as `source.security.protocol` |
    """  # noqa: E501 - a table

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        return GROUPS_LOG

    def schema(self) -> StructType:
        return from_arrow_schema(TABLES[_table_name(self.options)].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _LogReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _LogStreamReader(self.options, schema)


class _LogTable:
    """A table of the log: the base class of batch and streaming readers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.name = _table_name(options)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.source: Source = source_of_options(options)
        self.only: frozenset[int] | None = None
        if (text := options.get("logPartitions")) is not None:
            try:
                self.only = frozenset(int(each) for each in text.split(","))
            except ValueError:
                raise SettingError(
                    f"logPartitions: {text!r} is not like 0,7,49"
                ) from None

    def heads(self, since: Positions) -> Mapping[int, Head]:
        """Return the heads of the selected log partitions."""
        heads = self.source.heads(since)
        if self.only is None:
            return heads
        return {each: heads[each] for each in sorted(self.only) if each in heads}

    def rows(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the Arrow batches of a task, with the types of the Spark schema."""
        for part in partition.value or ():
            for rows in self.source.read(part):
                for batch in _batches(self.name, rows):
                    if len(batch):
                        yield batch.cast(self.schema)


class _LogReader(DataSourceReader):
    """The reader of a batch query, up to the stable offsets at the time of its
    planning.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._table = _LogTable(options, schema)
        self._start = options.get("startingOffsets", "earliest")

    def partitions(self) -> Sequence[InputPartition]:
        positions = _starting_positions(self._start, self._table)
        return _tasks(plan(self._table.heads(positions), positions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._table.rows(partition)


class _LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a streaming query. Workers call `read`; one process of the driver
    calls all other methods.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._table = _LogTable(options, schema)
        self._start = options.get("startingOffsets", "earliest")
        self._max_records: int | None = None
        if (text := options.get("maxRecordsPerTrigger")) is not None:
            if not text.isdecimal() or not int(text):
                raise SettingError(
                    f"maxRecordsPerTrigger: {text!r} is not a number from 1 on"
                )
            self._max_records = int(text)
        self._newest: Positions | None = None
        self._is_available_now = False
        self._target: Positions | None = None
        """The end of a query with the trigger availableNow."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _encode(_starting_positions(self._start, self._table))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._max_records is None:
            return ReadAllAvailable()
        return ReadMaxRows(self._max_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Set the end of the query to the current end of the log."""
        # latestOffset reads the end, because it receives the position: a scan of the
        # whole log from its start may take long.
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next micro-batch."""
        positions = _decode(start)
        heads = self._table.heads(positions)
        self._newest = {each: head.stable_offset for each, head in heads.items()}
        if self._is_available_now:
            if self._target is None:
                self._target = self._newest
            heads = limit_heads(heads, self._target)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        for part in plan(heads, positions, max_records=rows):
            positions[part.log_partition] = part.until_offset
        return _encode(positions)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the log, from which Spark computes the backlog in the
        query's progress.
        """
        return None if self._newest is None else _encode(self._newest)

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        positions, ends = _decode(start), _decode(end)
        heads = self._table.heads(positions)
        for partition, until in ends.items():
            stable = heads[partition].stable_offset if partition in heads else 0
            if stable < until:
                raise LogError(
                    f"{self._table.source.describe()}: log partition {partition} ends"
                    f" at offset {stable}, and this query's checkpoint is at {until}:"
                    " for another log use a new checkpoint"
                )
        return _tasks(plan(limit_heads(heads, ends), positions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._table.rows(partition)


def _batches(table: str, rows: Rows) -> Iterator[Any]:
    if table == RECORDS.name:
        yield rows.records
    elif table == LOG_GAPS.name:
        yield rows.gaps
    else:
        if table == QUARANTINE.name:
            yield rows.faults
        yield decode(rows.records)[table]


def _tasks(ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    """Group ranges into tasks in order: several small ones, or one large one."""
    tasks: list[list[OffsetRange]] = []
    free = 0
    for part in ranges:
        offsets = part.until_offset - part.from_offset
        size = int((part.hint or {}).get("size_bytes", offsets * _RECORD_BYTES))
        if not tasks or size > free:
            tasks.append([])
            free = _TASK_BYTES
        tasks[-1].append(part)
        free -= size
    return [InputPartition(tuple(task)) for task in tasks]


def _encode(positions: Positions) -> dict[str, Any]:
    # Sorted, because Spark compares checkpoints as strings.
    offsets = {str(each): offset for each, offset in sorted(positions.items())}
    return {"v": _CHECKPOINT_VERSION, "offsets": offsets}


def _decode(offset: Mapping[str, Any]) -> Positions:
    _check_version(offset)
    return {int(each): int(at) for each, at in offset["offsets"].items()}


def _check_version(offset: Mapping[str, Any]) -> None:
    if offset.get("v") != _CHECKPOINT_VERSION:
        raise SettingError(
            f"the checkpoint has version {offset.get('v')}, and this Coterie supports"
            f" version {_CHECKPOINT_VERSION}: use the Coterie that wrote it, or a new"
            " checkpoint"
        )


def _starting_positions(text: str, table: _LogTable) -> Positions:
    if text == "earliest":
        return {}
    if text == "latest":
        return {each: head.stable_offset for each, head in table.heads({}).items()}
    try:
        return {int(each): int(offset) for each, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise SettingError(
            f"startingOffsets: {text!r} is not earliest, latest or JSON like"
            ' {"0": 1200}'
        ) from None


def _table_name(options: Mapping[str, str]) -> str:
    name = options.get("table", RECORDS.name)
    if name not in TABLES or TABLES[name].layer is Layer.GOLD:
        known = [each.name for each in TABLES.values() if each.layer is not Layer.GOLD]
        raise SettingError(f"table: {name!r} is not one of {', '.join(known)}")
    return name


class PartitionEnds(DataSource):
    """Samples of the start and end offsets of topic partitions. Option names are not
    case-sensitive:

    | option | means |
    |---|---|
    | `source` | the source to sample: `kafka:HOST:PORT` or `store:DIR`; the same as `load(PATH)` |
    | `source.NAME` | an option of the source, such as `source.security.protocol` |
    | `samples` | instead of a source: a file of samples as JSON lines, which every worker can read |
    | `intervalSeconds` | streams only: the time between two samples, 60 by default |
    """  # noqa: E501 - a table

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        return PARTITION_ENDS

    def schema(self) -> StructType:
        return from_arrow_schema(PARTITION_END_SAMPLES.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _EndsReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _EndsStreamReader(self.options, schema)


class _EndsReader(DataSourceReader):
    """The reader of a batch query: one sample of each partition of a cluster, or all
    samples of a store.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        file = options.get("samples")
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._file = None if file is None else Path(file)
        self._source = source_of_options(options) if file is None else None

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition((_BEFORE_ALL, _now_us()))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the Arrow batches of the samples in an interval; for a cluster, one
        current sample of each partition.
        """
        since_us, until_us = partition.value
        if self._file is not None:
            empty = PARTITION_END_SAMPLES.schema.empty_table()
            table = pa.concat_tables([empty, *read_samples(self._file)])
        else:
            assert self._source is not None
            last = LastSamples(max(since_us, 0))
            until = datetime.fromtimestamp(until_us / _US, UTC)
            table = sample_partition_ends(self._source, last, until, is_until=True)
        if not isinstance(self._source, ClusterSource):
            times = pc.cast(table["sample_ts"], pa.int64())
            is_new = pc.and_(
                pc.greater(times, since_us), pc.less_equal(times, until_us)
            )
            table = table.filter(is_new)
        yield from table.cast(self._schema).to_batches()


class _EndsStreamReader(DataSourceStreamReader):
    """The reader of a streaming query. Workers call `read`; one process of the driver
    calls all other methods.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._reader = _EndsReader(options, schema)
        self._interval_us = int(_interval_s(options) * _US)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return _encode_time(_BEFORE_ALL)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the current time when the next sample is due, else `start`."""
        now_us = _now_us()
        is_due = now_us >= _decode_time(start) + self._interval_us
        return _encode_time(now_us) if is_due else start

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        return [InputPartition((_decode_time(start), _decode_time(end)))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)


def _now_us() -> int:
    return time.time_ns() // 1_000


def _encode_time(at_us: int) -> dict[str, Any]:
    return {"v": _CHECKPOINT_VERSION, "us": at_us}


def _decode_time(offset: Mapping[str, Any]) -> int:
    _check_version(offset)
    return int(offset["us"])


def _interval_s(options: Mapping[str, str]) -> float:
    text = options.get("intervalSeconds", str(_INTERVAL_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < _INTERVAL_S_MAX:
        raise SettingError(f"intervalSeconds: {text!r} is not a number of seconds")
    return seconds
