"""Samples of partitions' ends as a table of Spark:
`spark.read.format("kafka_partition_ends")` and the same with `readStream`, after
`register(spark)`.

A batch is one look. A stream looks at an interval; offsets in its checkpoint are
`{"v": 1, "us": THE TIME OF THE LAST LOOK}`, in us since 1970. A store tells of the
past, so that a micro-batch that is done again gives the same rows; a cluster is asked
how it is now, and then gives another look.
"""

from __future__ import annotations

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
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from coterie.errors import SettingError
from coterie.pipeline.sources.cluster import ClusterSource
from coterie.pipeline.sources.ends.of_file import read_samples
from coterie.pipeline.sources.ends.sampling import sample
from coterie.pipeline.sources.options import source_of
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES

NAME: Final = "kafka_partition_ends"
_VERSION: Final = 1
_EVER: Final = -1
_US: Final = 1_000_000
_INTERVAL_S: Final = 60


def register(spark: SparkSession) -> None:
    """Let a session know the format. Workers must be able to import this package."""
    spark.dataSource.register(PartitionEnds)


class PartitionEnds(DataSource):
    """Where partitions of topics begin and end. Options, upper or lower case alike:

    | option | means |
    |---|---|
    | `source` | whom to ask: `kafka:HOST:PORT`, or `store:DIR`; `load(PATH)` says the same |
    | `source.NAME` | an option of the source, such as `source.security.protocol` |
    | `samples` | instead: a file of samples, as JSON lines, that every worker can read |
    | `intervalSeconds` | of streams: the time between two looks, 60 by default |
    """  # noqa: E501 - a table

    options: MutableMapping[str, str]

    @classmethod
    def name(cls) -> str:
        """The format."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table."""
        return from_arrow_schema(PARTITION_END_SAMPLES.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """One look."""
        return _Reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A look at an interval."""
        return _StreamReader(self.options, schema)


class _Looks:
    """What both readers do in workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        file = options.get("samples")
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self.file = None if file is None else Path(file)
        self.source = source_of(options) if file is None else None

    def rows(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of a look: samples after the first time of a span, and of
        what tells of the past up to its end."""
        since_us, until_us = partition.value
        if self.file is not None:
            table = read_samples(self.file)
        else:
            assert self.source is not None
            since = datetime.fromtimestamp(max(since_us, 0) / _US, UTC)
            table = sample(self.source, None if since_us == _EVER else since)
        if not isinstance(self.source, ClusterSource):
            times = pc.cast(table["sample_ts"], pa.int64())
            is_new = pc.and_(
                pc.greater(times, since_us), pc.less_equal(times, until_us)
            )
            table = table.filter(is_new)
        yield from table.cast(self.schema).to_batches()


class _Reader(DataSourceReader):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._looks = _Looks(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """One task."""
        return [InputPartition((_EVER, _now_us()))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows."""
        return self._looks.rows(partition)


class _StreamReader(DataSourceStreamReader):
    """`read` is called in workers, the rest in one process of the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._looks = _Looks(options, schema)
        self._interval_us = int(_interval_s(options) * _US)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Before all samples."""
        return _encode(_EVER)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Now, when it is time for another look."""
        now_us = _now_us()
        is_due = now_us >= _decode(start) + self._interval_us
        return _encode(now_us) if is_due else start

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """One task."""
        return [InputPartition((_decode(start), _decode(end)))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows."""
        return self._looks.rows(partition)


def _now_us() -> int:
    return time.time_ns() // 1_000


def _encode(at_us: int) -> dict[str, Any]:
    return {"v": _VERSION, "us": at_us}


def _decode(offset: Mapping[str, Any]) -> int:
    if offset.get("v") != _VERSION:
        raise SettingError(
            f"the checkpoint has offsets of version {offset.get('v')}, and this Coterie"
            f" knows {_VERSION}: use the version that wrote it, or a new checkpoint"
        )
    return int(offset["us"])


def _interval_s(options: Mapping[str, str]) -> float:
    text = options.get("intervalSeconds", str(_INTERVAL_S))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 86_400 * 366:
        raise SettingError(f"intervalSeconds: {text!r} is no number of seconds")
    return seconds
