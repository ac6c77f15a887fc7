"""The log of any Kafka cluster, read over the wire by our own client.

    open_source("kafka:broker-1:9092")
    open_source("kafka:broker-1:9093", **{"security.protocol": "SSL", ...})

Options are settings of a connection by Kafka's names or librdkafka's. It takes the
rights to describe and read the topic `__consumer_offsets`, and to describe other topics
for samples of their ends.

Brokers give whole batches, markers of transactions among them, up to the last stable
offset; and they say which transactions were aborted (KIP-98). So what counts is known
at once, without looking ahead for markers (K-08).

Rules of this file: a connection is opened by who reads, in the worker, and closed when
the range is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from coterie.client.admin.describe_cluster import describe_cluster
from coterie.client.admin.log_offsets import list_offsets
from coterie.client.admin.offset_values import EARLIEST, LATEST
from coterie.client.admin.topics import describe_topics
from coterie.client.cluster import Cluster
from coterie.client.log_fetch import Fetched
from coterie.client.settings.carried import Carried
from coterie.errors import ApiError, ClientError, CoterieError
from coterie.pipeline.sources.batch_rows import Part, RowMaker
from coterie.pipeline.sources.ends.of_cluster import sample_cluster
from coterie.pipeline.sources.source import Head, OffsetRange, Rows
from coterie.pipeline.sources.told import ToldOutcomes
from coterie.pipeline.sources.wire import Reader, Wire, WireBatch, opened
from coterie.types import LogOffset, TopicPartition
from coterie.wire.error_codes import ErrorCode

OFFSETS_TOPIC: Final = "__consumer_offsets"
_SERVERS: Final = "bootstrap.servers"


def open_it(where: str, **options: Any) -> ClusterSource:
    """The cluster with brokers at HOST:PORT,... Options are settings of the connection.

    `settings`: a `Carried` that has them all. Raises SettingError.
    """
    settings = options.pop("settings", None)
    if settings is None:
        settings = Carried.of_texts({**options, _SERVERS: where})
    return ClusterSource(where, settings)


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """See the module's docstring."""

    where: str
    settings: Carried

    def describe(self) -> str:
        """What it is, as `open_source` takes it."""
        return f"kafka:{self.where}"

    def cluster_id(self) -> str | None:
        """What the cluster calls itself. Raises ClientError."""
        with opened(self.settings) as wire:
            return wire.wait(describe_cluster(wire.cluster)).cluster_id

    def heads(self, since: Mapping[int, int] | None = None) -> Mapping[int, Head]:
        """How far each log partition goes now; none where no group was ever kept."""
        with opened(self.settings) as wire:
            return wire.wait(_heads(wire.cluster))

    def read(self, part: OffsetRange) -> Iterator[Rows]:
        """The rows of a range in order of offset, in a worker."""
        with opened(self.settings) as wire:
            yield from _RangeReader(self.describe(), wire, part).rows()

    def sample_ends(self, after_ts: datetime | None = None) -> Any:
        """Where every partition of every topic begins and ends now."""
        with opened(self.settings) as wire:
            return wire.wait(sample_cluster(wire.cluster))


async def _heads(cluster: Cluster) -> dict[int, Head]:
    topics = await describe_topics(cluster, [OFFSETS_TOPIC])
    error = topics.errors.get(OFFSETS_TOPIC)
    if isinstance(error, ApiError) and error.code is _UNKNOWN:
        return {}
    if error is not None:
        raise _explained(error)
    wanted = topics.one(OFFSETS_TOPIC).all_partitions
    try:
        # In this order: none lies beyond the one that is asked for after it.
        starts = (await list_offsets(cluster, dict.fromkeys(wanted, EARLIEST))).all()
        specs = dict.fromkeys(wanted, LATEST)
        stables = (await list_offsets(cluster, specs, committed_only=True)).all()
        ends = (await list_offsets(cluster, specs)).all()
    except CoterieError as refused:
        raise _explained(refused) from refused
    return {
        each.partition: Head(
            starts[each].offset, stables[each].offset, ends[each].offset
        )
        for each in wanted
    }


_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _explained(error: CoterieError) -> CoterieError:
    """The error, with what to do where rights are missing."""
    if isinstance(error, ApiError) and error.code is _REFUSED:
        return ClientError(
            f"{OFFSETS_TOPIC} may not be read: allow the operations DESCRIBE and READ "
            f"on the topic {OFFSETS_TOPIC} (coterie acls add), or name another user"
        )
    return error


class _RangeReader:
    """Reads one range: which batches are its own, and where the log has none."""

    def __init__(self, source: str, wire: Wire, part: OffsetRange) -> None:
        self._source = source
        self._wire = wire
        self._part = part
        self._partition = TopicPartition(OFFSETS_TOPIC, part.log_partition)
        self._reader = Reader(wire.cluster, self._partition)
        self._outcomes = ToldOutcomes()
        self._maker = RowMaker(part.log_partition, part.from_offset, self._outcomes)
        self._begins_log = False

    def rows(self) -> Iterator[Rows]:
        """The rows. Raises ClientError."""
        until, at = self._part.until_offset, self._part.from_offset
        following: int | None = None
        while at < until and following is None:
            batches, fetched = self._read(at)
            own = [each for each in batches if each.next_offset <= until]
            if own:
                yield from self._maker.rows(self._made(own, fetched))
                self._begins_log = False
                at = own[-1].next_offset
            if len(own) < len(batches):
                following = batches[len(own)].base_offset
            elif not batches:
                break
        if self._maker.position < until or until == self._part.from_offset:
            reason = "log_start" if self._begins_log else "missing"
            yield from self._maker.finish(until, following, reason)

    def _read(self, at: LogOffset) -> tuple[list[WireBatch], Fetched]:
        """What is there from an offset on, or from the log's start if that is later."""
        until = self._part.until_offset
        try:
            return self._wire.wait(self._reader.read(at, until))
        except ApiError as error:
            if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise _explained(error) from error
            start = self._start_offset()
            if start <= at:
                raise self._shrunk(at) from error
        self._begins_log = True
        return self._wire.wait(self._reader.read(start, until))

    def _start_offset(self) -> LogOffset:
        wanted = {self._partition: EARLIEST}
        found = self._wire.wait(list_offsets(self._wire.cluster, wanted))
        return found.one(self._partition).offset

    def _shrunk(self, at: LogOffset) -> ClientError:
        return ClientError(
            f"{self._partition.topic}-{self._partition.partition} ends before offset "
            f"{at}, up to which it was read: it was made anew, or its brokers lost "
            "records; begin a new lake for what it is now"
        )

    def _made(self, own: list[WireBatch], fetched: Fetched) -> Part:
        self._outcomes.told(fetched.aborted)
        # A range may begin within its first batch, which is all its own.
        self._maker.position = min(self._maker.position, own[0].base_offset)
        bases = np.array([each.base_offset for each in own], np.int64)
        return Part.of_blobs(
            self._source,
            [each.data for each in own],
            bases=bases,
            ends=np.array([each.next_offset for each in own], np.int64),
            positions=bases,
            begins_log=self._begins_log,
        )
