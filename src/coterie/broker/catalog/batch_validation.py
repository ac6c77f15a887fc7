"""Validation of produced batches, and their conversion to the stored form.

The checks are Kafka's, in Kafka's order (ByteBufferLogInputStream, UnifiedLog,
ProduceRequest.validateRecords, LogValidator), with two differences. The lengths and
offset deltas of all records are compared with the header, but keys, values and headers
are decoded only for compacted topics, which require keys, and when the topic sets a
compression type. And a wrong offset delta is refused, where Kafka stores it in
uncompressed batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from coterie.broker.catalog.configs import TopicSettings
from coterie.broker.catalog.producer_state import ProducerBatch
from coterie.errors import ApiError, MalformedFrame
from coterie.wire.compression import Codec, DataTooLarge, NotDecompressed
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    INT32_MAX,
    LENGTH_END,
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    Producer,
    TimeRange,
    check_records,
    crc_matches,
    encode_batch,
    iterate_records,
    read_header,
    with_append_time,
    with_base_offset,
    with_max_timestamp,
)

NO_TIMESTAMP: Final = -1
INDEXES_MAX: Final = 1_000
"""Most invalid records of a batch that the response names."""
_MAGIC_AT: Final = 16
_MAGIC_V2: Final = 2
_SIZE_MIN: Final = 14
"""The least size field of a batch: that of Kafka's oldest format."""
_ZSTD_SINCE: Final = 7
_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@dataclass(frozen=True, slots=True)
class IncomingBatch:
    """A record batch to append to a partition."""

    data: bytes
    header: BatchHeader

    @property
    def producer(self) -> ProducerBatch | None:
        """The producer fields; None for a producer without idempotence."""
        return producer_batch(self.header)


class BatchLimits(NamedTuple):
    """The limits of one batch beside its size; compression makes them necessary."""

    records_max: int
    decompressed_bytes_max: int


class UnexpectedBatch(ApiError):
    """A batch whose codec is unknown, or whose records are not of it: Kafka does not
    handle the exception."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)


class DecompressedTooLarge(ApiError):
    """A batch that decompresses to more than `BatchLimits.decompressed_bytes_max`."""


class InvalidRecords(ApiError):
    """Invalid records in a batch; `indexes` are their positions."""

    def __init__(
        self,
        message: str,
        indexes: tuple[int, ...],
        code: ErrorCode = ErrorCode.INVALID_RECORD,
    ) -> None:
        super().__init__(code, message)
        self.indexes = indexes


def producer_batch(header: BatchHeader) -> ProducerBatch | None:
    """Return a batch's producer fields; None for a producer without idempotence."""
    if header.producer_id < 0:
        return None
    return ProducerBatch(
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        header.is_transactional,
    )


def read_batch(records: bytes | None, api_version: int) -> IncomingBatch:
    """Return the only batch of a partition in a Produce request.

    Bytes after it that are no whole batch are ignored, as in Kafka.

    Raises ApiError INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE or CORRUPT_MESSAGE, and
    UnexpectedBatch.
    """
    data = bytes(records or b"")
    size = _batch_size(data, 0)
    if size is None:
        raise _invalid("Produce requests must have at least one whole record batch")
    if data[_MAGIC_AT] != _MAGIC_V2:
        raise _invalid("Produce requests must have record batches of magic version 2")
    if _batch_size(data, size) is not None:
        raise _invalid("Produce requests must have exactly one record batch")
    data = data[:size]
    try:
        header = read_header(data)
    except MalformedFrame as error:
        raise _corrupt(str(error)) from None
    try:
        codec = header.codec
    except MalformedFrame as error:
        raise UnexpectedBatch(str(error)) from None
    if codec is Codec.ZSTD and api_version < _ZSTD_SINCE:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests of version {api_version} cannot use zstd",
        )
    return IncomingBatch(data, header)


def _batch_size(data: bytes, at: int) -> int | None:
    """Return the size of the batch at `at`; None if the data end before it does.

    Raises ApiError CORRUPT_MESSAGE, and UNKNOWN_SERVER_ERROR for a size that overflows
    32 bits, which Kafka does not expect.
    """
    left = len(data) - at
    if left < LENGTH_END:
        return None
    size = int.from_bytes(data[at + LENGTH_END - 4 : at + LENGTH_END], signed=True)
    if size < _SIZE_MIN:
        raise _corrupt(f"a batch has the size {size}, less than {_SIZE_MIN}")
    if left <= _MAGIC_AT:
        return None
    magic = data[at + _MAGIC_AT]
    if magic > _MAGIC_V2:
        raise _corrupt(f"a batch has the magic version {magic}")
    if size + LENGTH_END > INT32_MAX:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch has the size {size}")
    return size + LENGTH_END if size + LENGTH_END <= left else None


def validate_batch(
    batch: IncomingBatch, settings: TopicSettings, limits: BatchLimits, now_ms: int
) -> IncomingBatch:
    """Raise ApiError unless a topic with these settings accepts the batch.

    Return the batch with the greatest timestamp of its records in its header. Error
    codes: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP.
    """
    header = batch.header
    if header.base_offset != 0:
        raise _invalid(f"The batch has base offset {header.base_offset}, not 0")
    if header.size_bytes > settings.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size is {header.size_bytes} bytes which exceeds the "
            f"maximum configured value of {settings.max_message_bytes}.",
        )
    if not crc_matches(batch.data):
        raise _corrupt("The checksum of the batch is wrong")
    _check_header(header)
    times = _check_records(batch, limits)
    if settings.compact:
        _check_keys(batch)
    _check_time_type(batch, settings)
    if settings.log_append_time:
        return batch
    _check_timestamps(batch, times, settings, now_ms)
    latest_ms = max(times.latest_ms, NO_TIMESTAMP)
    if header.max_timestamp_ms == latest_ms and not header.is_log_append_time:
        return batch
    data = with_max_timestamp(batch.data, latest_ms)
    return IncomingBatch(data, read_header(data))


def assign_offsets(
    batch: IncomingBatch, base_offset: int, settings: TopicSettings, now_ms: int
) -> IncomingBatch:
    """Return the batch in its stored form, with offsets from `base_offset` on."""
    data = batch.data
    header = batch.header._replace(base_offset=base_offset, leader_epoch=0)
    codec = _CODECS.get(settings.compression_type)
    if codec is not None and codec is not header.codec:
        data = _recompressed(batch, codec)
        header = read_header(data)._replace(base_offset=base_offset)
    data = with_base_offset(data, base_offset)
    if settings.log_append_time:
        data = with_append_time(data, now_ms)
        header = read_header(data)
    return IncomingBatch(data, header)


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records")
    count = header.record_count
    if count <= 0 or header.last_offset_delta != count - 1:
        raise _invalid(
            f"The batch has {count} records but a last offset delta of "
            f"{header.last_offset_delta}"
        )
    if header.is_transactional and header.producer_id < 0:
        raise _invalid("A transactional batch must have a producer id")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(
            f"Invalid sequence number {header.base_sequence} in a batch of producer "
            f"{header.producer_id}"
        )


def _check_records(batch: IncomingBatch, limits: BatchLimits) -> TimeRange:
    """Compare the records with the header's count, which assigns the offsets."""
    header = batch.header
    # A producer in Java splits a batch that is too large and sends the parts.
    if header.record_count > limits.records_max:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {header.record_count} records, batch.records.max is "
            f"{limits.records_max}",
        )
    try:
        return check_records(batch.data, header, limits.decompressed_bytes_max)
    except DataTooLarge as too_large:
        raise DecompressedTooLarge(
            ErrorCode.MESSAGE_TOO_LARGE, str(too_large)
        ) from None
    except NotDecompressed as error:
        raise UnexpectedBatch(str(error)) from None
    except MalformedFrame as error:
        raise _invalid(f"Invalid records: {error}") from None


def _check_time_type(batch: IncomingBatch, settings: TopicSettings) -> None:
    """Refuse the attribute of log append time where Kafka does: it ignores it when the
    topic has the producer's timestamps and the batch has any."""
    header = batch.header
    if header.is_log_append_time and (
        settings.log_append_time or header.max_timestamp_ms == NO_TIMESTAMP
    ):
        raise InvalidRecords(
            "Only the broker may set the timestamp type to log append time",
            tuple(range(min(header.record_count, INDEXES_MAX))),
            ErrorCode.INVALID_TIMESTAMP,
        )


def _check_timestamps(
    batch: IncomingBatch, times: TimeRange, settings: TopicSettings, now_ms: int
) -> None:
    if times.earliest_ms == times.latest_ms == NO_TIMESTAMP:
        return
    latest = now_ms + settings.timestamp_after_max_ms
    earliest = now_ms - settings.timestamp_before_max_ms
    if earliest <= times.earliest_ms and times.latest_ms <= latest:
        return
    wrong = _indexes(
        batch,
        lambda record: (
            record.timestamp_ms != NO_TIMESTAMP
            and not earliest <= record.timestamp_ms <= latest
        ),
    )
    if wrong:
        raise InvalidRecords(
            f"Timestamps from {times.earliest_ms} to {times.latest_ms} are out of "
            f"range. They should be within [{earliest}, {latest}]",
            wrong,
            ErrorCode.INVALID_TIMESTAMP,
        )


def _check_keys(batch: IncomingBatch) -> None:
    missing = _indexes(batch, lambda record: record.key is None)
    if missing:
        raise InvalidRecords(
            "Compacted topic cannot accept message without key", missing
        )


def _recompressed(batch: IncomingBatch, codec: Codec) -> bytes:
    header = batch.header
    return encode_batch(
        list(_records(batch)),
        producer=Producer(
            header.producer_id, header.producer_epoch, header.base_sequence
        ),
        attributes=header.attributes & TRANSACTIONAL,
        codec=codec,
    )


def _indexes(
    batch: IncomingBatch, is_invalid: Callable[[LogRecord], bool]
) -> tuple[int, ...]:
    """Return the positions of the first `INDEXES_MAX` invalid records."""
    records = enumerate(_records(batch))
    return tuple(islice((at for at, each in records if is_invalid(each)), INDEXES_MAX))


def _records(batch: IncomingBatch) -> Iterator[LogRecord]:
    try:
        yield from iterate_records(batch.data, batch.header)
    except MalformedFrame as error:
        raise _invalid(f"Invalid records: {error}") from None


def _corrupt(message: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, message)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)
