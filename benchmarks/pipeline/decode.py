"""Measure the decoding of log records to rows of committed offsets.

The vectorized decoder is compared with straightforward code: in memory with a loop over
records that uses `struct` and fills lists, in Spark with a Python UDF, whose rows are
pickled. All decoders return the same columns. Measured is the CPU time of all
processes; the sides alternate. About 1 in 100 records of a log is a group record; a
second figure includes such records.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.cpu import tree_cpu_of
from benchmarks.harness.figures import Figure, Rounds, Skipped, alternate, median_ratio
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from coterie.broker.coordinator.result import Record
from coterie.errors import SettingError
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.tables.ingested import OFFSET_COMMITS, RECORDS

RECORDS_IN_MEMORY = 200_000
RECORDS_IN_SPARK = 600_000
BATCH_ROWS = 50_000
KEYS = 29_000
GROUPS = 1_000
MEMORY_BAR, SPARK_BAR, PARQUET_BAR = 12.0, 8.0, 5.0

_HEAD = struct.Struct(">hqih")
_OLD_HEAD = struct.Struct(">hqh")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def log(count: int, *, groups: bool) -> list[Any]:
    """Return batches of the table `records`.

    With `groups`, every hundredth record is a group record.
    """
    rng = Random(1)
    keys = [_key(number) for number in range(KEYS)]
    group = _group() if groups else None
    rows = []
    for at in range(count):
        if group is not None and at % 100 == 0:
            rows.append(group)
            continue
        value = None if at % 200 == 1 else _value(rng, at)
        rows.append((rng.choice(keys), value))
    return [_batch(rows, at) for at in range(0, count, BATCH_ROWS)]


def _key(number: int) -> bytes:
    group = b"billing-loader-%04d" % (number % GROUPS)
    topic = b"orders.events-%03d" % (number % 97)
    names = (_INT16.pack(len(name)) + name for name in (group, topic))
    return b"\0\1" + b"".join(names) + _INT32.pack(number % 12)


def _value(rng: Random, at: int) -> bytes:
    metadata = b"host-%04d" % (at % 999) if rng.random() < 0.03 else b""
    tail = metadata + _INT64.pack(1_767_225_600_000 + at)
    if rng.random() < 0.02:
        return _OLD_HEAD.pack(1, at, len(metadata)) + tail + _INT64.pack(-1)
    return _HEAD.pack(3, at, rng.choice((-1, 7)), len(metadata)) + tail


def _group() -> tuple[bytes, bytes | None]:
    members = [
        MemberMetadata(member_id=f"m-{at}", client_id="c", client_host="/10.0.0.1")
        for at in range(4)
    ]
    value = GroupMetadataValue(
        protocol_type="consumer", protocol="range", leader="m-0", members=members
    )
    return encode_record(Record(GroupMetadataKey(group="billing"), value, 3))


def _batch(rows: list[tuple[bytes, bytes | None]], begin: int) -> Any:
    some = rows[begin : begin + BATCH_ROWS]
    same: dict[str, object] = {
        "log_partition": 0,
        "append_ts": 1_767_225_600_000_000,
        "size_bytes": 80,
        "is_append_time": False,
        "headers": [],
        "leader_epoch": 0,
        "producer_id": -1,
        "producer_epoch": -1,
        "is_transactional": False,
        "is_control": False,
        "outcome": None,
    }
    offsets = list(range(begin, begin + len(some)))
    own: dict[str, list[Any]] = {
        "log_offset": offsets,
        "base_offset": offsets,
        "key": [key for key, _ in some],
        "value": [value for _, value in some],
    }
    columns = [
        pa.array(own.get(each.name) or [same[each.name]] * len(some), each.type)
        for each in RECORDS.schema
    ]
    return pa.record_batch(columns, schema=RECORDS.schema)


Decoded = tuple[str, str, int, int, int | None, str, int | None, int | None, None, int]
DECODED = OFFSET_COMMITS.schema.names[5:-2]


def decode_row(key: bytes, value: bytes | None) -> Decoded | None:
    """Decode one record with `struct`; None unless it is a committed offset."""
    if value is None or key[:2] != b"\0\1":
        return None
    (size,) = _INT16.unpack_from(key, 2)
    at = 4 + size
    group = key[4:at].decode()
    (size,) = _INT16.unpack_from(key, at)
    topic = key[at + 2 : at + 2 + size].decode()
    (partition,) = _INT32.unpack_from(key, at + 2 + size)
    (version,) = _INT16.unpack_from(value)
    epoch: int | None
    if version == 3:
        _, offset, epoch, size = _HEAD.unpack_from(value)
        at = _HEAD.size
    else:
        _, offset, size = _OLD_HEAD.unpack_from(value)
        epoch, at = -1, _OLD_HEAD.size
    metadata = value[at : at + size].decode()
    (commit_ms,) = _INT64.unpack_from(value, at + size)
    expire_ms = -1
    if version == 1:
        (expire_ms,) = _INT64.unpack_from(value, at + size + 8)
    return (
        *(group, topic, partition, offset, None if epoch == -1 else epoch),
        *(metadata, None if commit_ms < 0 else commit_ms * 1000),
        *(None if expire_ms < 0 else expire_ms * 1000, None, version),
    )


def loop(batch: Any) -> Any:
    """Decode a batch with `decode_row` to rows of offset_commits."""
    decoded: list[Decoded] = []
    row_numbers: list[int] = []
    keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
    for at, (key, value) in enumerate(zip(keys, values, strict=True)):
        row = decode_row(key, value)
        if row is not None:
            decoded.append(row)
            row_numbers.append(at)
    decoded_columns = dict(zip(DECODED, zip(*decoded, strict=True), strict=True))
    rows = pa.array(row_numbers)
    columns = [
        pa.array(decoded_columns[each.name], each.type)
        if each.name in decoded_columns
        else pa.nulls(len(decoded), each.type)
        if each.name == "producer_id"
        else batch[each.name].take(rows)
        for each in OFFSET_COMMITS.schema
    ]
    return pa.record_batch(columns, schema=OFFSET_COMMITS.schema)


def seconds(work: Callable[[Any], object], batches: Iterable[Any]) -> float:
    """Return the CPU time for decoding all batches, the shortest of three runs."""
    took = []
    for _ in range(3):
        start = time.process_time()
        for each in batches:
            work(each)
        took.append(time.process_time() - start)
    return min(took)


def vectors(batch: Any) -> Any:
    """Decode a batch with the vectorized decoder."""
    return decode(batch)[OFFSET_COMMITS.name]


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure the decoders in memory, then in Spark."""
    yield from _in_memory(rounds)
    try:
        yield from _in_spark(rounds)
    except SettingError as error:
        raise Skipped(str(error)) from None


def _in_memory(rounds: Rounds) -> Iterator[Figure]:
    batches = log(RECORDS_IN_MEMORY, groups=False)
    assert all(loop(each).equals(vectors(each)) for each in batches)
    pairs = alternate(
        rounds, partial(seconds, vectors, batches), partial(seconds, loop, batches)
    )
    us, them = pairs[-1]
    yield Figure(
        name="decode in memory: speed relative to a struct loop",
        value=median_ratio([(them, us) for us, them in pairs]),
        bar=MEMORY_BAR,
        detail=_rates(RECORDS_IN_MEMORY, us, them),
    )
    mixed = log(RECORDS_IN_MEMORY, groups=True)
    pairs = alternate(
        rounds, partial(seconds, vectors, mixed), partial(seconds, loop, mixed)
    )
    us, them = pairs[-1]
    yield Figure(
        name="... with 1 % group records, which only Coterie decodes",
        value=median_ratio([(them, us) for us, them in pairs]),
        detail=_rates(RECORDS_IN_MEMORY, us, them),
    )


def _rates(count: int, us: float, them: float) -> str:
    return (
        f"M records a CPU second: us {count / us / 1e6:.2f} | {count / them / 1e6:.3f}"
    )


def _in_spark(rounds: Rounds) -> Iterator[Figure]:
    from coterie.pipeline.spark_session import Engine, start_session

    # Workers import this module to call `decode_row`.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    )
    spark = start_session(Engine(memory="2g", shuffle_partitions=2))
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/bronze.parquet"
            batches = log(RECORDS_IN_SPARK, groups=False)
            pq.write_table(
                pa.Table.from_batches(batches), path, row_group_size=BATCH_ROWS
            )
            bronze = spark.read.parquet(path)
            ours, theirs = _by_vectors(bronze), _by_rows(bronze)
            for name, sink, bar in (
                ("no sink", _discard, SPARK_BAR),
                ("to Parquet", partial(_to_parquet, folder), PARQUET_BAR),
            ):
                for warm in (ours, theirs, ours, ours):
                    sink(warm)
                pairs = alternate(
                    rounds,
                    partial(tree_cpu_of, partial(sink, ours)),
                    partial(tree_cpu_of, partial(sink, theirs)),
                )
                us, them = pairs[-1]
                yield Figure(
                    name=f"decode in Spark, {name}: speed relative to a Python UDF",
                    value=median_ratio([(them, us) for us, them in pairs]),
                    bar=bar,
                    detail=_rates(RECORDS_IN_SPARK, us, them),
                )
    finally:
        spark.stop()


def _discard(rows: Any) -> None:
    rows.write.format("noop").mode("overwrite").save()


def _to_parquet(folder: str, rows: Any) -> None:
    rows.write.option("compression", "zstd").mode("overwrite").parquet(f"{folder}/out")


def _each(batches: Iterable[Any]) -> Iterator[Any]:
    for each in batches:
        yield vectors(each)


def _by_vectors(bronze: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    bronze = bronze.drop("headers", "leader_epoch", "producer_epoch", "is_append_time")
    return bronze.mapInArrow(_each, from_arrow_schema(OFFSET_COMMITS.schema))


def _by_rows(bronze: Any) -> Any:
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import LongType, StructField, StructType

    whole = from_arrow_schema(OFFSET_COMMITS.schema)
    decoded = StructType(
        [
            StructField(
                name, LongType() if name.endswith("_ts") else whole[name].dataType
            )
            for name in DECODED
        ]
    )
    one = F.udf(decode_row, decoded, useArrow=False)
    rows = bronze.withColumn("decoded", one("key", "value")).where(
        "decoded is not null"
    )
    columns = {
        name: F.timestamp_micros(f"decoded.{name}")
        if name.endswith("_ts")
        else F.col(f"decoded.{name}")
        for name in DECODED
    }
    columns["producer_id"] = F.lit(None).cast("bigint")
    return rows.select(
        *(columns.get(name, F.col(name)).alias(name) for name in whole.names)
    )
