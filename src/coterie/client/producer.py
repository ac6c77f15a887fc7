"""A producer of records, for tools: one call sends many records and waits for all.

    producer = Producer(admin.cluster)
    appended = await producer.produce("orders", [NewRecord(b"value", key=b"key")])

A record with a key goes to the partition of Kafka's Java producer (murmur2), one
without a key to a partition that changes with each call. Batches of one partition are
sent one after the other, so records keep their order. A batch is sent again until
`api_timeout_ms`; an idempotent producer lets the broker drop duplicates (KIP-98).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from coterie.client.admin import routing
from coterie.client.admin.calls import broker_timeout_ms
from coterie.client.admin.results import api_error, partition_name
from coterie.client.cluster import Cluster, Deadline, backoff_s
from coterie.errors import ClientError, CoterieError, code_of
from coterie.types import LogOffset, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.compression import Codec
from coterie.wire.error_codes import ErrorCode
from coterie.wire.murmur2 import murmur2
from coterie.wire.record_batch import (
    INT32_MAX,
    NO_PRODUCER,
    LogRecord,
    encode_batch,
)
from coterie.wire.record_batch import (
    Producer as BatchProducer,
)
from coterie.wire.schema import Versions

_BY_NAME_UNTIL: Final = 12
"""Later versions name topics by id."""
_BATCHES_SINCE: Final = 3
_ZSTD_SINCE: Final = 7
_ALL_IN_SYNC: Final = -1
_LEADER_ONLY: Final = 1
_RECORD_OVERHEAD_BYTES: Final = 32
_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
)


class NewRecord(NamedTuple):
    """A record to produce. A value of None is a tombstone."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    """None means the partition of the key."""
    timestamp_ms: int | None = None
    """None means the time of the call."""

    @property
    def size_bytes(self) -> int:
        """About the size of the record in a batch that is not compressed."""
        texts = [self.key, self.value]
        for name, content in self.headers:
            texts += [name.encode(), content]
        return _RECORD_OVERHEAD_BYTES + sum(len(each) for each in texts if each)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerOptions:
    """Options of a producer."""

    codec: Codec = Codec.NONE
    """The compression; zstd needs Kafka 2.1."""
    needs_all_replicas: bool = True
    """Whether every in-sync replica must have the records (acks=all), or only the
    leader (acks=1)."""
    is_idempotent: bool = True
    """Whether brokers drop duplicates. It needs acks=all, and before Kafka 2.8 the
    right IDEMPOTENT_WRITE on the cluster."""
    batch_bytes_max: int = 900_000
    """The size of a batch before compression (bytes), less than message.max.bytes. A
    larger record is a batch of its own."""


@dataclass(slots=True)
class Appended:
    """The records of one call that were appended to a partition, and those that were
    not."""

    count: int = 0
    first_offset: LogOffset | None = None
    last_offset: LogOffset | None = None
    failed: int = 0
    """Records that were not appended, or whose response was lost."""
    error: CoterieError | None = None


class Producer:
    """A producer on the connections of a client. Calls must not overlap."""

    def __init__(
        self, cluster: Cluster, options: ProducerOptions | None = None
    ) -> None:
        self._cluster = cluster
        self._options = options or ProducerOptions()
        self._cache = routing.LeaderCache(wait_ms=cluster.options.api_timeout_ms)
        self._identity = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}
        # A random start: commands that produce one record each use all partitions.
        self._turn = secrets.randbelow(INT32_MAX)

    async def produce(
        self, topic: TopicName, records: Sequence[NewRecord]
    ) -> dict[TopicPartition, Appended]:
        """Append records to a topic; return the outcome of each partition.

        After an error of a partition, its later records are not sent. Raises ApiError
        for a topic that does not exist, and the errors of `AdminClient` when no broker
        is reached.
        """
        outcomes: dict[TopicPartition, Appended] = defaultdict(Appended)
        pending = await self._partitioned(topic, records, outcomes)
        if self._is_idempotent and not self._identity.producer_id >= 0:
            await self._initialize()
        queues = {key: list(self._batches(own)) for key, own in pending.items()}
        while queues:
            first = {key: batches[0] for key, batches in queues.items()}
            encoded = {key: self._encode(key, own) for key, own in first.items()}
            results = await routing.send_to_leaders(
                self._cluster, encoded, partial(self._send, encoded), cache=self._cache
            )
            for key, batch in first.items():
                error = results.errors.get(key)
                if error is None:
                    self._settle(outcomes[key], key, results.values[key], len(batch))
                    del queues[key][0]
                elif code_of(error) in _TOO_LARGE and len(batch) > 1:
                    half = len(batch) // 2
                    queues[key][:1] = [batch[:half], batch[half:]]
                else:
                    outcomes[key].error = error
                    outcomes[key].failed += sum(map(len, queues[key]))
                    queues[key] = []
                    # The sequence after a lost response is unknown: begin a new one.
                    self._identity = NO_PRODUCER
                    self._sequences.clear()
            queues = {key: batches for key, batches in queues.items() if batches}
            if self._is_idempotent and self._identity is NO_PRODUCER and queues:
                await self._initialize()
        return dict(outcomes)

    @property
    def _is_idempotent(self) -> bool:
        return self._options.is_idempotent and self._options.needs_all_replicas

    async def _partitioned(
        self,
        topic: TopicName,
        records: Sequence[NewRecord],
        outcomes: dict[TopicPartition, Appended],
    ) -> dict[TopicPartition, list[NewRecord]]:
        """Return the records of each partition; those of partitions that do not exist
        become outcomes."""
        metadata = await self._metadata(topic)
        indexes = sorted(each.partition_index for each in metadata.partitions)
        led = [
            each.partition_index for each in metadata.partitions if each.leader_id >= 0
        ]
        without_key = (led or indexes)[self._turn % len(led or indexes)]
        self._turn += 1
        count = len(indexes)
        owned: dict[TopicPartition, list[NewRecord]] = defaultdict(list)
        for record in records:
            index = record.partition
            if index is None:
                key = record.key
                index = without_key if key is None else murmur2(key) % count
            partition = TopicPartition(topic, index)
            if 0 <= index < count:
                owned[partition].append(record)
            else:
                outcomes[partition].failed += 1
                outcomes[partition].error = ClientError(
                    f"topic {topic} has no partition {index}: it has {count}"
                )
        return owned

    async def _metadata(self, topic: TopicName) -> m.MetadataResponseTopic:
        """Return the metadata of a topic. Raises ApiError when it does not exist.

        An unknown topic is requested again a few times: it may have been created just
        now.
        """
        known = self._cache.topics.get(topic)
        if known is not None and known.partitions and not known.error_code:
            return known
        deadline = Deadline(self._cluster.options)
        for attempt in range(routing.UNKNOWN_TRIES):
            if attempt:
                await asyncio.sleep(backoff_s(self._cluster.options, attempt))
            self._cache.topics |= await routing.topics_of(
                self._cluster, deadline, [topic]
            )
            known = self._cache.topics.get(topic)
            if known is not None and not ErrorCode.read(known.error_code).retriable:
                break
        code = known.error_code if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known is None or not known.partitions:
            code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise api_error(code, f"topic {topic}")
        return known

    def _batches(self, records: Sequence[NewRecord]) -> Iterator[list[LogRecord]]:
        """Yield the records in batches of limited size."""
        now_ms = time.time_ns() // 1_000_000
        batch: list[LogRecord] = []
        size = 0
        for record in records:
            size += record.size_bytes
            if batch and size > self._options.batch_bytes_max:
                yield batch
                batch, size = [], record.size_bytes
            at_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
            batch.append(
                LogRecord(len(batch), at_ms, record.key, record.value, record.headers)
            )
        if batch:
            yield batch

    def _encode(self, key: TopicPartition, records: Sequence[LogRecord]) -> bytes:
        first = records[0].offset
        if first:  # the second half of a batch that was too large
            records = [each._replace(offset=each.offset - first) for each in records]
        sequence = self._sequences.get(key, 0)
        identity = self._identity
        if identity.producer_id >= 0:
            identity = identity._replace(base_sequence=sequence)
        return encode_batch(records, producer=identity, codec=self._options.codec)

    async def _send(
        self,
        batches: Mapping[TopicPartition, bytes],
        node_id: int,
        keys: Sequence[TopicPartition],
    ) -> routing.Outcomes[TopicPartition, LogOffset]:
        """Send one request with a batch for each partition; return the offsets of their
        first records, -1 when a broker no longer knows that of a duplicate."""
        options = self._options
        topics: dict[TopicName, list[m.PartitionProduceData]] = defaultdict(list)
        for key in keys:
            topics[key.topic].append(
                m.PartitionProduceData(index=key.partition, records=batches[key])
            )
        request = m.ProduceRequest(
            acks=_ALL_IN_SYNC if options.needs_all_replicas else _LEADER_ONLY,
            timeout_ms=broker_timeout_ms(self._cluster.options),
            topic_data=[
                m.TopicProduceData(name=name, partition_data=data)
                for name, data in topics.items()
            ],
        )
        since = _ZSTD_SINCE if options.codec is Codec.ZSTD else _BATCHES_SINCE
        response = await self._cluster.call(
            request,
            m.ProduceResponse,
            node_id=node_id,
            wanted=Versions(since, _BY_NAME_UNTIL),
        )
        outcomes: dict[TopicPartition, LogOffset | CoterieError] = {}
        for topic in response.responses:
            for each in topic.partition_responses:
                key = TopicPartition(topic.name, each.index)
                name = partition_name(key)
                is_known = each.error_code in {0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
                outcomes[key] = (
                    each.base_offset
                    if is_known
                    else api_error(each.error_code, name, each.error_message)
                )
        return outcomes

    def _settle(
        self, outcome: Appended, key: TopicPartition, base: LogOffset, count: int
    ) -> None:
        """Add an appended batch to the outcome of its partition."""
        self._sequences[key] = (self._sequences.get(key, 0) + count) & INT32_MAX
        outcome.count += count
        if base < 0:
            return
        if outcome.first_offset is None:
            outcome.first_offset = base
        outcome.last_offset = base + count - 1

    async def _initialize(self) -> None:
        """Get a producer id. Raises ApiError."""
        request = m.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=INT32_MAX
        )
        subject = "a producer id"

        async def ask() -> m.InitProducerIdResponse:
            response = await self._cluster.call(
                request, m.InitProducerIdResponse, wanted=Versions(0, 5)
            )
            if response.error_code:
                raise api_error(response.error_code, subject)
            return response

        response = await self._cluster.retrying(ask)
        self._identity = BatchProducer(response.producer_id, response.producer_epoch, 0)
