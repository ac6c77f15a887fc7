"""The log of any Kafka cluster as a source, read by our own client.

    open_source("kafka:broker-1:9092")
    open_source("kafka:broker-1:9093", **{"security.protocol": "SSL", ...})

Options are settings of a connection by Kafka's names or librdkafka's. The principal
needs ACL bindings for the operations Describe and Read on the topic
`__consumer_offsets`, and for Describe on every topic whose ends are sampled.

Brokers return whole batches, transaction markers included, up to the last stable
offset, and list the aborted transactions (KIP-98). So outcomes are known without
reading ahead (K-08).

A connection is opened where it is used, in the worker, and closed with the range.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Self, TypeVar

import numpy as np
import pyarrow as pa

from coterie.client.admin.brokers import Brokers
from coterie.client.admin.configs import ConfigResource, Configs
from coterie.client.admin.fetch import AbortedTxn, FetchResult, fetch_log
from coterie.client.admin.log_offsets import EARLIEST, LATEST, Logs
from coterie.client.admin.topics import Topics
from coterie.client.cluster import Cluster
from coterie.client.settings.portable import PortableSettings
from coterie.errors import ApiError, ClientError, CoterieError, MalformedFrame, code_of
from coterie.loop_thread import LoopThread
from coterie.pipeline.segments.batches import BatchHeaders
from coterie.pipeline.segments.transactions import FetchedOutcomes
from coterie.pipeline.sources.row_builder import BatchRun, RowBuilder
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES
from coterie.types import OFFSETS_TOPIC, LogOffset, TopicPartition
from coterie.wire.configs import ConfigResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import crc_matches, whole_batches

T = TypeVar("T")

_RETENTION: Final = "offsets.retention.minutes"
_EMPTY_FETCHES_MAX: Final = 5
"""After so many responses without a batch, the range counts as empty: compaction
removed all.
"""
_US: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def open_cluster(where: str, **options: Any) -> ClusterSource:
    """Open the cluster with brokers at HOST:PORT,... `options` are settings of the
    connection, or `settings`, a `PortableSettings` with all of them.

    Raises SettingError.
    """
    settings = options.pop("settings", None)
    if settings is None:
        texts = {**options, "bootstrap.servers": where}
        settings = PortableSettings.of_texts(texts)
    return ClusterSource(where, settings)


class ClusterConnection:
    """Connections to a cluster, for callers without an event loop."""

    def __init__(self, settings: PortableSettings) -> None:
        bootstrap, options, _, _ = settings.target()
        # A job that runs for hours must not fail when a leader changes. The timeout for
        # a leader is shorter than the whole timeout, so that the error includes the
        # reason.
        wait_ms = options.api_timeout_ms * 3 // 4
        self.cluster = Cluster(bootstrap, replace(options, leader_wait_ms=wait_ms))
        self._thread = LoopThread()

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        return self._thread.wait(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.wait(self.cluster.close())
        self._thread.close()


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A source that reads the log from a cluster. See the module's docstring."""

    where: str
    settings: PortableSettings

    def describe(self) -> str:
        return f"kafka:{self.where}"

    def cluster_id(self) -> str | None:
        """Return the cluster id. Raises ClientError."""
        with ClusterConnection(self.settings) as connection:
            return connection.wait(Brokers(connection.cluster).describe()).cluster_id

    def check(self) -> None:
        """Check that the cluster can be reached and its offsets topic be described.

        A cluster without groups has no such topic yet. Raises ClientError.
        """
        self.heads()

    def retention_ms(self) -> int | None:
        """Return `offsets.retention.minutes` of one broker, in ms, which should be the
        same on all; None when it may not be read. Raises ClientError."""
        with ClusterConnection(self.settings) as connection:
            return connection.wait(_fetch_retention_ms(connection.cluster))

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """Return the head of each log partition; an empty mapping if the topic does not
        exist.
        """
        with ClusterConnection(self.settings) as connection:
            return connection.wait(_fetch_heads(connection.cluster))

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """Read a range in order of offset. Raises ClientError."""
        with ClusterConnection(self.settings) as connection:
            yield from _RangeReader(self.describe(), connection, part).rows()

    def sample_ends(self, after: datetime | None = None) -> Any:
        """Return the current ends of all partitions of all topics, as rows of
        `partition_end_samples`.

        Their time is the current time, or `after` if that is later: the time of the
        newest record that was read. Raises ClientError.
        """
        after_us = 0 if after is None else (after - _EPOCH) // timedelta(microseconds=1)
        with ClusterConnection(self.settings) as connection:
            return connection.wait(sample_cluster(connection.cluster, after_us))


async def _fetch_retention_ms(cluster: Cluster) -> int | None:
    nodes = (await Brokers(cluster).describe()).nodes
    broker = ConfigResource(ConfigResourceType.BROKER, str(nodes[0].node_id))
    described = await Configs(cluster).describe([broker], names=[_RETENTION])
    # Reading it takes the permission DescribeConfigs on the cluster.
    entries = described.values.get(broker, ())
    values = [entry.value for entry in entries if entry.name == _RETENTION]
    return int(values[0]) * 60_000 if values and values[0] else None


async def _fetch_heads(cluster: Cluster) -> dict[int, Head]:
    topics = await Topics(cluster).describe([OFFSETS_TOPIC])
    error = topics.errors.get(OFFSETS_TOPIC)
    if code_of(error) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return {}
    if error is not None:
        raise _with_remedy(error)
    partitions = topics.one(OFFSETS_TOPIC).all_partitions
    try:
        # In this order no offset is higher than one that is fetched after it.
        earliest = dict.fromkeys(partitions, EARLIEST)
        latest = dict.fromkeys(partitions, LATEST)
        starts = (await Logs(cluster).list_offsets(earliest)).all()
        stables = (await Logs(cluster).list_offsets(latest, committed_only=True)).all()
        ends = (await Logs(cluster).list_offsets(latest)).all()
    except CoterieError as refused:
        raise _with_remedy(refused) from refused
    return {
        each.partition: Head(
            starts[each].offset, stables[each].offset, ends[each].offset
        )
        for each in partitions
    }


def _with_remedy(error: CoterieError) -> CoterieError:
    """Return the error; for a denied authorization, an error with the missing
    operation.
    """
    if code_of(error) is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return ClientError(
            f"not authorized to read {OFFSETS_TOPIC}: allow the operations DESCRIBE and"
            f" READ on the topic {OFFSETS_TOPIC} (coterie acls add), or use another"
            " principal"
        )
    return error


class _RangeReader:
    """A reader of the batches and gaps of one range."""

    def __init__(
        self, source: str, connection: ClusterConnection, part: OffsetRange
    ) -> None:
        self._source = source
        self._connection = connection
        self._range = part
        self._partition = TopicPartition(OFFSETS_TOPIC, part.log_partition)
        self._prefetch: tuple[LogOffset, asyncio.Task[FetchResult]] | None = None
        self._outcomes = FetchedOutcomes()
        self._builder = RowBuilder(
            part.log_partition, part.from_offset, self._outcomes.outcome
        )
        self._begins_log = False

    def rows(self) -> Iterator[Rows]:
        until, at = self._range.until_offset, self._range.from_offset
        next_base: int | None = None
        while at < until and next_base is None:
            fetched = self._read(at)
            ends = fetched.headers.last_offset + 1
            count = int((ends <= until).sum())
            if count:
                run = self._batch_run(slice(0, count), fetched)
                yield from self._builder.rows(run)
                self._begins_log = False
                at = int(ends[count - 1])
            if count < len(ends):
                next_base = int(fetched.headers.base_offset[count])
            elif not count:
                break
        if self._builder.position < until or until == self._range.from_offset:
            reason = "log_start" if self._begins_log else "missing"
            yield from self._builder.finish(until, next_base, reason)

    def _read(self, at: LogOffset) -> _FetchedBatches:
        """Read the batches from an offset, or from the log start offset if that is
        higher.
        """
        try:
            return self._connection.wait(self._fetch_batches(at))
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise _with_remedy(error) from error
            specs = {self._partition: EARLIEST}
            starts = self._connection.wait(
                Logs(self._connection.cluster).list_offsets(specs)
            )
            start = starts.one(self._partition).offset
            if start <= at:
                raise ClientError(
                    f"{self._partition.topic}-{self._partition.partition} ends before"
                    f" offset {at}, up to which it was read: the topic was created"
                    " again, or its brokers lost records; use a new lake for it"
                ) from error
        self._begins_log = True
        return self._connection.wait(self._fetch_batches(start))

    async def _fetch_batches(self, offset: LogOffset) -> _FetchedBatches:
        """Return the batches from the one that contains `offset`, and prefetch those
        after them, if they are in the range, while the caller decodes these. The result
        is empty if no batch follows below the stable offset.

        Raises the errors of `fetch_log`, and ClientError for a malformed response.
        """
        for _ in range(_EMPTY_FETCHES_MAX):
            prefetch, self._prefetch = self._prefetch, None
            if prefetch is not None and prefetch[0] == offset:
                fetched = await prefetch[1]
            else:
                fetched = await self._fetch(offset)
            if fetched.data:
                break
        headers = _whole_batches(fetched.data)
        if fetched.data and not len(headers):
            raise ClientError(
                f"partition {self._partition.topic}-{self._partition.partition}: the "
                f"leader's data at offset {offset} is no record batch"
            )
        after = int(headers.last_offset[-1]) + 1 if len(headers) else offset
        if offset < after < self._range.until_offset:
            task = asyncio.get_running_loop().create_task(self._fetch(after))
            # asyncio must not report the exception if the caller stops reading.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._prefetch = (after, task)
        return _FetchedBatches(fetched.data, headers, fetched.aborted)

    async def _fetch(self, offset: LogOffset) -> FetchResult:
        return await fetch_log(
            self._connection.cluster, self._partition, offset, committed_only=True
        )

    def _batch_run(self, part: slice, fetched: _FetchedBatches) -> BatchRun:
        self._outcomes.set_aborted(fetched.aborted)
        headers = fetched.headers.select(part)
        spans = zip(
            headers.position.tolist(),
            (headers.position + headers.size_bytes).tolist(),
            strict=True,
        )
        view = memoryview(fetched.data)
        is_bad = [not crc_matches(view[begin:end]) for begin, end in spans]
        bases = headers.base_offset
        return BatchRun(
            source=self._source,
            data=fetched.data,
            headers=headers,
            is_bad=np.array(is_bad, np.bool_),
            bases=bases,
            ends=headers.last_offset + 1,
            places=bases,
            # A range may begin within its first batch, which then belongs to the range
            # as a whole.
            position=int(bases[0]),
            begins_log=self._begins_log,
        )


class _FetchedBatches(NamedTuple):
    """The whole batches of a Fetch response."""

    data: bytes
    headers: BatchHeaders
    aborted: Sequence[AbortedTxn]


def _whole_batches(data: bytes) -> BatchHeaders:
    """Return the headers of the batches of a response, without a last one that is
    truncated. The data may end with bytes that are no batch."""
    positions = []
    at = 0
    with suppress(MalformedFrame):
        for header, _ in whole_batches(data):
            positions.append(at)
            at += header.size_bytes
    return BatchHeaders.read(data, np.array(positions, np.int64))


async def sample_cluster(cluster: Cluster, from_us: int = 0) -> Any:
    """Return a sample for each partition of all topics that are not internal, as rows
    of `partition_end_samples`. Partitions without a leader are left out.

    For each kind of offset one request is sent to each leader, so the end offsets of a
    leader's partitions are from the same time. `sample_ts` is that time, and
    `round_trip_ms` is its uncertainty. If the clock of this machine is behind
    `from_us`, that is the time. Raises ClientError.
    """
    topics = [
        topic
        for topic in (await Topics(cluster).describe()).values.values()
        if not topic.is_internal
    ]
    partitions = [each for topic in topics for each in topic.all_partitions]
    latest = dict.fromkeys(partitions, LATEST)
    starts, stables = await asyncio.gather(
        Logs(cluster).list_offsets(dict.fromkeys(partitions, EARLIEST)),
        Logs(cluster).list_offsets(latest, committed_only=True),
    )
    # End offsets are fetched last, so that no start offset and no stable offset is
    # higher.
    at_us, before_s = max(int(time.time() * _US), from_us), time.monotonic()
    ends = await Logs(cluster).list_offsets(latest)
    round_trip_ms = int((time.monotonic() - before_s) * 1_000)
    rows = []
    for topic in topics:
        for description in topic.partitions:
            each = TopicPartition(topic.name, description.partition)
            if each not in starts.values or each not in ends.values:
                continue
            end, stable = ends.values[each], stables.values.get(each)
            rows.append(
                {
                    "topic": topic.name,
                    "topic_id": topic.topic_id.hex() if topic.topic_id else None,
                    "partition": each.partition,
                    "sample_ts": at_us,
                    "log_start_offset": min(starts.values[each].offset, end.offset),
                    "high_watermark": end.offset,
                    # Brokers before 0.11 have no last stable offset.
                    "last_stable_offset": None if stable is None else stable.offset,
                    "leader_id": description.leader_id,
                    "leader_epoch": end.leader_epoch,
                    "partition_count": len(topic.partitions),
                    "round_trip_ms": round_trip_ms,
                }
            )
    return pa.Table.from_pylist(rows, schema=PARTITION_END_SAMPLES.schema)
