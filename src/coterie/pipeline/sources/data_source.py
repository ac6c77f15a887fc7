"""The log of groups as a table of Spark: `spark.read.format("kafka_groups_log")` and
`spark.readStream.format("kafka_groups_log")`, after `register(spark)`.

Offsets in a checkpoint are `{"v": 1, "offsets": {"LOG PARTITION": NEXT OFFSET}}`; what
is not there begins at 0. They follow from the log alone, so a query that starts again
gets the same records for the same offsets.

docs/pipeline-sources.md has examples.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

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
from coterie.pipeline.sources.options import source_of
from coterie.pipeline.sources.planning import plan, up_to
from coterie.pipeline.sources.source import (
    Head,
    OffsetRange,
    Rows,
    Source,
)
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.quarantine import QUARANTINE
from coterie.pipeline.tables.records import RECORDS
from coterie.pipeline.tables.table import Layer

NAME: Final = "kafka_groups_log"
_TASK_BYTES: Final = 16 * 1024 * 1024
"""Small ranges share a task until they are so many bytes together."""
_RECORD_BYTES: Final = 100
"""About, where a range does not know its bytes."""
_VERSION: Final = 1
Positions = dict[int, int]


def register(spark: SparkSession) -> None:
    """Let a session know the format. Workers must be able to import this package."""
    spark.dataSource.register(GroupsLog)


class GroupsLog(DataSource):
    """The log of groups. Options, upper or lower case alike:

    | option | means |
    |---|---|
    | `source` | what to read, as `coterie pipeline run --from` takes it: `segments:DIR_OR_URI`, `store:DIR`, `kafka:HOST:PORT`; `load(PATH)` says the same |
    | `table` | `records` (as they are; the default) or a silver table, decoded where it is read: `offset_commits`, `classic_group_records`, `consumer_group_records`, `tombstones`, `quarantine`, `log_gaps` |
    | `logPartitions` | only these: `0,7,49` |
    | `startingOffsets` | where a new query begins: `earliest` (the default), `latest`, or JSON: `{"0": 1200}`, the others at 0. A streaming query that started before goes by its checkpoint |
    | `maxRecordsPerTrigger` | of streams: about so many records in a micro-batch; batches of the log are not divided |
    | `source.NAME` | an option of the source, such as `source.security.protocol` |
    """  # noqa: E501 - a table

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        """The format."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table."""
        return from_arrow_schema(TABLES[_table(self.options)].schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads all that is stable now."""
        return _Reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Reads on as the log grows."""
        return _StreamReader(self.options, schema)


class _Task(InputPartition):
    """Ranges that one task reads, one after the other."""

    def __init__(self, ranges: Sequence[OffsetRange]) -> None:
        super().__init__(tuple(ranges))


class _Tables:
    """What both readers do in workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.table = _table(options)
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.source: Source = source_of(options)
        self.only = _log_partitions(options)

    def heads(self, since: Positions) -> Mapping[int, Head]:
        """The heads of the log partitions that are wanted."""
        heads = self.source.heads(since)
        if self.only is None:
            return heads
        return {each: heads[each] for each in sorted(self.only) if each in heads}

    def rows(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of a task, as Spark wants their types."""
        for part in partition.value or ():
            for rows in self.source.read(part):
                for batch in _batches(self.table, rows):
                    if len(batch):
                        yield batch.cast(self.schema)


class _Reader(DataSourceReader):
    """A batch: what is stable when it is planned."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._tables = _Tables(options, schema)
        self._start = options.get("startingOffsets", "earliest")

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        positions = _starting(self._start, self._tables)
        return _tasks(plan(self._tables.heads(positions), positions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task."""
        return self._tables.rows(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches. `read` is called in workers, the rest in one process of the
    driver, which remembers the last look at the log."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._tables = _Tables(options, schema)
        self._start = options.get("startingOffsets", "earliest")
        self._max_records = _max_records(options)
        self._newest: Positions | None = None
        self._is_available_now = False
        self._target: Positions | None = None
        """Where a query with availableNow ends."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query begins."""
        return _encode(_starting(self._start, self._tables))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """By `maxRecordsPerTrigger`."""
        if self._max_records is None:
            return ReadAllAvailable()
        return ReadMaxRows(self._max_records)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """End where the log is now. It is looked at when it is known from where on: a
        look at all of it may take long."""
        self._is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends."""
        positions = _decode(start)
        heads = self._tables.heads(positions)
        self._newest = {each: head.stable_offset for each, head in heads.items()}
        if self._is_available_now:
            if self._target is None:
                self._target = self._newest
            heads = up_to(heads, self._target)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        for part in plan(heads, positions, max_records=rows):
            positions[part.log_partition] = part.until_offset
        return _encode(positions)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the log goes, so that progress shows what is still to be read."""
        return None if self._newest is None else _encode(self._newest)

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """The tasks of a micro-batch; the same records whenever it is asked."""
        positions, ends = _decode(start), _decode(end)
        heads = self._tables.heads(positions)
        for partition, until in ends.items():
            stable = heads[partition].stable_offset if partition in heads else 0
            if stable < until:
                raise LogError(
                    f"{self._tables.source.describe()}: log partition {partition} goes"
                    f" to offset {stable}, and the checkpoint of this query to {until}:"
                    " is it another log? Give the query a new checkpoint"
                )
        return _tasks(plan(up_to(heads, ends), positions))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task."""
        return self._tables.rows(partition)


def _batches(table: str, rows: Rows) -> Iterator[Any]:
    """The rows of a table."""
    if table == RECORDS.name:
        yield rows.records
    elif table == LOG_GAPS.name:
        yield rows.gaps
    else:
        if table == QUARANTINE.name:
            yield rows.faults
        yield decode(rows.records)[table]


def _tasks(ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    """Small ranges together, large ones alone; in order."""
    tasks: list[list[OffsetRange]] = []
    room = 0
    for part in ranges:
        offsets = part.until_offset - part.from_offset
        size = int((part.hint or {}).get("size_bytes", offsets * _RECORD_BYTES))
        if not tasks or size > room:
            tasks.append([])
            room = _TASK_BYTES
        tasks[-1].append(part)
        room -= size
    return [_Task(task) for task in tasks]


def _encode(positions: Positions) -> dict[str, Any]:
    """As it stands in a checkpoint: always in the same order, as texts are compared."""
    offsets = {str(each): offset for each, offset in sorted(positions.items())}
    return {"v": _VERSION, "offsets": offsets}


def _decode(offset: Mapping[str, Any]) -> Positions:
    if offset.get("v") != _VERSION:
        raise SettingError(
            f"the checkpoint has offsets of version {offset.get('v')}, and this Coterie"
            f" knows {_VERSION}: use the version that wrote it, or a new checkpoint"
        )
    return {int(each): int(at) for each, at in offset["offsets"].items()}


def _starting(text: str, tables: _Tables) -> Positions:
    if text == "earliest":
        return {}
    if text == "latest":
        return {each: head.stable_offset for each, head in tables.heads({}).items()}
    try:
        return {int(each): int(offset) for each, offset in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        raise SettingError(
            f"startingOffsets: {text!r} is not earliest, latest or JSON like"
            ' {"0": 1200}'
        ) from None


def _table(options: Mapping[str, str]) -> str:
    name = options.get("table", RECORDS.name)
    if name not in TABLES or TABLES[name].layer is Layer.GOLD:
        known = [each.name for each in TABLES.values() if each.layer is not Layer.GOLD]
        raise SettingError(f"table: {name!r} is none of {', '.join(known)}")
    return name


def _log_partitions(options: Mapping[str, str]) -> frozenset[int] | None:
    text = options.get("logPartitions")
    if text is None:
        return None
    try:
        return frozenset(int(each) for each in text.split(","))
    except ValueError:
        raise SettingError(f"logPartitions: {text!r} is not like 0,7,49") from None


def _max_records(options: Mapping[str, str]) -> int | None:
    text = options.get("maxRecordsPerTrigger")
    if text is None:
        return None
    if not text.isdecimal() or not int(text):
        raise SettingError(f"maxRecordsPerTrigger: {text!r} is no number from 1 on")
    return int(text)
