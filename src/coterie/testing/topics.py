"""Topics of a test server: create them, write records and read them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import count
from typing import Final, Literal, TypeAlias
from uuid import uuid4

from coterie.testing.in_process import InProcess, check
from coterie.types import LogOffset, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.murmur2 import murmur2
from coterie.wire.record_batch import (
    BatchHeader,
    LogRecord,
    decode_marker,
    decode_records,
    encode_batch,
    split_batches,
)

Text: TypeAlias = str | bytes | None
"""Bytes, or a str that is encoded as UTF-8, or null."""
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]

_ISOLATION: Final[Sequence[Isolation]] = ("read_uncommitted", "read_committed")
_ALL_REPLICAS: Final = -1
_BYTES_MAX: Final = 2**31 - 1
# The newest versions that have topics by name.
_PRODUCE_VERSION: Final = 12
_FETCH_VERSION: Final = 12


class Position(IntEnum):
    """The ends of a log, with the timestamps of ListOffsets that stand for them."""

    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic. A null key or value is None."""

    topic: TopicName
    partition: int
    offset: LogOffset
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


class TopicMethods(InProcess):
    """The methods of a test server that concern topics."""

    def topic(
        self,
        name: TopicName | None = None,
        *,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> TopicName:
        """Create a topic and return its name, which is a new one without `name`.

        `config` are Kafka's topic configurations, as in {"retention.ms": 1000}.

        Raises ApiError, as when the topic exists already or a configuration is invalid.
        """
        name = name or f"topic-{uuid4().hex[:12]}"
        configs = [
            m.CreatableTopicConfig(name=key, value=_config(value))
            for key, value in (config or {}).items()
        ]
        topic = m.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=-1, configs=configs
        )
        request = m.CreateTopicsRequest(topics=[topic])
        (created,) = self.request(request, m.CreateTopicsResponse).topics
        check(created.error_code, f"topic {name}", created.error_message)
        return name

    def produce(
        self,
        topic: TopicName,
        records: Iterable[Text | tuple[Text, Text]],
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[Record]:
        """Append records, each a value or (key, value), and return them.

        Without `partition`, records with a key go to the partition that the Java
        client's default partitioner selects, and those without to all in turn.
        `timestamp_ms` is the server's time by default.

        Raises ApiError, as when the topic does not exist.
        """
        if timestamp_ms is None:
            timestamp_ms = self.call(lambda s: s.assembly.broker.data.wall_clock())
        partition_count = self._partition_count(topic)
        turns = count()
        batches: dict[int, list[Record]] = {}
        places: list[tuple[int, int]] = []
        for each in records:
            key, value = map(_bytes, each if isinstance(each, tuple) else (None, each))
            index = partition
            if index is None:
                turn = next(turns) if key is None else murmur2(key)
                index = turn % partition_count
            batch = batches.setdefault(index, [])
            places.append((index, len(batch)))
            batch.append(
                Record(topic, index, -1, key, value, tuple(headers), timestamp_ms)
            )
        stored = {
            index: self._append(topic, index, batch) for index, batch in batches.items()
        }
        return [stored[partition][index] for partition, index in places]

    def records(
        self,
        topic: TopicName,
        *,
        partition: int | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> list[Record]:
        """Return the records of a topic, or of one partition of it, in the order of
        their partitions and offsets.

        With the isolation "read_committed", records of aborted and open transactions
        are left out.

        Raises ApiError, as when the topic does not exist.
        """
        partitions: Iterable[int] = (
            range(self._partition_count(topic)) if partition is None else (partition,)
        )
        level = _ISOLATION.index(isolation)
        return [
            record
            for index in partitions
            for record in self._read(TopicPartition(topic, index), level)
        ]

    def log_offset(
        self, topic: TopicName, partition: int, position: Position
    ) -> LogOffset:
        """Return the first offset of a partition, or the one after its last record.

        Raises ApiError.
        """
        part = m.ListOffsetsPartition(partition_index=partition, timestamp=position)
        request = m.ListOffsetsRequest(
            replica_id=-1, topics=[m.ListOffsetsTopic(name=topic, partitions=[part])]
        )
        response = self.request(request, m.ListOffsetsResponse, partition=partition)
        (found,) = response.topics[0].partitions
        check(found.error_code, f"{topic}-{partition}")
        return found.offset

    def partitions_of(self, topic: TopicName) -> list[TopicPartition]:
        """Return the partitions of a topic. Raises ApiError."""
        return [
            TopicPartition(topic, index)
            for index in range(self._partition_count(topic))
        ]

    def _partition_count(self, topic: TopicName) -> int:
        request = m.MetadataRequest(
            topics=[m.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        (described,) = self.request(request, m.MetadataResponse).topics
        check(described.error_code, f"topic {topic}")
        return len(described.partitions)

    def _append(
        self, topic: TopicName, partition: int, records: Sequence[Record]
    ) -> list[Record]:
        """Append one batch; return its records with their offsets."""
        batch = encode_batch(
            [
                LogRecord(
                    index, record.timestamp_ms, record.key, record.value, record.headers
                )
                for index, record in enumerate(records)
            ]
        )
        part = m.PartitionProduceData(index=partition, records=batch)
        request = m.ProduceRequest(
            acks=_ALL_REPLICAS,
            timeout_ms=30_000,
            topic_data=[m.TopicProduceData(name=topic, partition_data=[part])],
        )
        response = self.request(
            request, m.ProduceResponse, version=_PRODUCE_VERSION, partition=partition
        )
        (appended,) = response.responses[0].partition_responses
        check(appended.error_code, f"{topic}-{partition}", appended.error_message)
        append_ms = appended.log_append_time_ms
        return [
            replace(
                record,
                offset=appended.base_offset + index,
                timestamp_ms=append_ms if append_ms >= 0 else record.timestamp_ms,
            )
            for index, record in enumerate(records)
        ]

    def _read(self, where: TopicPartition, level: int) -> Iterator[Record]:
        offset = self.log_offset(*where, Position.EARLIEST)
        while True:
            data = self._fetch(where, offset, level)
            last = offset
            for header, record in visible_records(data):
                last = header.last_offset + 1
                if record is not None and record.offset >= offset:
                    yield Record(
                        *where,
                        record.offset,
                        record.key,
                        record.value,
                        record.headers,
                        record.timestamp_ms,
                    )
            if last == offset:
                return
            offset = last

    def _fetch(
        self, where: TopicPartition, offset: LogOffset, level: int
    ) -> m.PartitionData:
        part = m.FetchPartition(
            partition=where.partition,
            fetch_offset=offset,
            partition_max_bytes=_BYTES_MAX,
        )
        request = m.FetchRequest(
            isolation_level=level,
            topics=[m.FetchTopic(topic=where.topic, partitions=[part])],
        )
        response = self.request(
            request, m.FetchResponse, version=_FETCH_VERSION, partition=where.partition
        )
        (data,) = response.responses[0].partitions
        check(data.error_code, f"{where.topic}-{where.partition}")
        return data


def visible_records(
    data: m.PartitionData,
) -> Iterator[tuple[BatchHeader, LogRecord | None]]:
    """Yield the records of a fetched partition that a consumer delivers.

    As a consumer does, this leaves out transaction markers, and the records of the
    aborted transactions that the response lists. A batch without such records has
    None.
    """
    aborted = sorted(data.aborted_transactions or (), key=_first_offset, reverse=True)
    aborting: set[int] = set()
    for header, batch in split_batches(data.records or b""):
        while aborted and aborted[-1].first_offset <= header.last_offset:
            aborting.add(aborted.pop().producer_id)
        records = decode_records(batch, header)
        if header.is_control:
            marker = decode_marker(records[0]) if records else None
            if marker is not None and not marker.commit:
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield from ((header, record) for record in records)
            continue
        yield header, None


def _first_offset(aborted: m.AbortedTransaction) -> LogOffset:
    return aborted.first_offset


def _config(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
