"""Measure decoding and encoding, compared with other codecs in Python.

Each codec does the work of a server: decode the header and body of a request, and
encode the response with header and size. All codecs give the same bytes. kio decodes in
a native module and encodes in Python; kafka-python generates code from schemas, as
Coterie does. The response to an OffsetFetch is encoded twice: from objects, and from
offsets cached as wire bytes, as the server does. Bars: a KIP-848 heartbeat at 3 times
kio's speed, the cached response at 10 times kafka-python's.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import kafka.protocol.consumer as kafka_python
import kio.index
from kio.serial import entity_reader, entity_writer

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.framing import (
    RequestHeaderV0,
    read_client_id,
    read_header_v0,
    write_request,
    write_response,
)
from coterie.wire.primitives import EncodedArray
from coterie.wire.schema import Message

CORRELATION_ID = 7
BATCH = 50
SECONDS_MAX = 0.3
HEARTBEAT_BAR, OFFSET_FETCH_BAR = 3.0, 10.0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request to decode and the response to encode."""

    name: str
    version: int
    request: Message
    response: Message


def exchanges() -> Iterable[Exchange]:
    """Yield heartbeats, a commit of ten partitions and an OffsetFetch of 300."""
    member = "consumer-1-5f0c2b1e-4a3d-4a54-9d2e-0a1b2c3d4e5f"
    heartbeat = m.HeartbeatRequest(group_id="orders", generation_id=5, member_id=member)
    yield Exchange("classic heartbeat v4", 4, heartbeat, m.HeartbeatResponse())
    steady = m.ConsumerGroupHeartbeatRequest(
        group_id="orders", member_id=member, member_epoch=5
    )
    beat = m.ConsumerGroupHeartbeatResponse(
        member_id=member, member_epoch=5, heartbeat_interval_ms=5000
    )
    yield Exchange("heartbeat v1", 1, steady, beat)
    partitions = [
        m.OffsetCommitRequestPartition(partition_index=index, committed_offset=10**6)
        for index in range(10)
    ]
    topic = m.OffsetCommitRequestTopic(name="orders", partitions=partitions)
    commit = m.OffsetCommitRequest(group_id="orders", member_id=member, topics=[topic])
    results = [m.OffsetCommitResponsePartition(partition_index=i) for i in range(10)]
    committed = m.OffsetCommitResponseTopic(name="orders", partitions=results)
    answer = m.OffsetCommitResponse(topics=[committed])
    yield Exchange("commit v9 of 10", 9, commit, answer)
    yield _offset_fetch()


def cached_response(exchange: Exchange) -> m.OffsetFetchResponse:
    """Return the response of an OffsetFetch with its partitions as wire bytes."""
    answer = exchange.response
    assert isinstance(answer, m.OffsetFetchResponse)
    partition = answer.groups[0].topics[0].partitions[0]
    bare = encode(m.OffsetFetchResponse(groups=[_group_of([])]), exchange.version)
    one = encode(
        m.OffsetFetchResponse(groups=[_group_of([partition])]), exchange.version
    )
    size = len(one) - len(bare)
    start = next(at for at in range(len(bare)) if bare[at] != one[at]) + 1
    body = one[start : start + size] * 100
    topics = [
        m.OffsetFetchResponseTopics(name=topic.name, partitions=EncodedArray(100, body))  # type: ignore[arg-type]
        for topic in answer.groups[0].topics
    ]
    group = m.OffsetFetchResponseGroup(group_id="orders", topics=topics)
    return m.OffsetFetchResponse(groups=[group])


def _group_of(
    partitions: list[m.OffsetFetchResponsePartitions],
) -> m.OffsetFetchResponseGroup:
    topic = m.OffsetFetchResponseTopics(name="t0", partitions=partitions)
    return m.OffsetFetchResponseGroup(group_id="orders", topics=[topic])


def _offset_fetch() -> Exchange:
    requested = [
        m.OffsetFetchRequestTopics(name=f"t{number}", partition_indexes=[*range(100)])
        for number in range(3)
    ]
    group = m.OffsetFetchRequestGroup(group_id="orders", topics=requested)
    results = [
        m.OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                m.OffsetFetchResponsePartitions(
                    partition_index=index, committed_offset=10**6, metadata=""
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in requested
    ]
    answer = m.OffsetFetchResponseGroup(group_id="orders", topics=results)
    return Exchange(
        "offset fetch v8 of 300",
        8,
        m.OffsetFetchRequest(groups=[group]),
        m.OffsetFetchResponse(groups=[answer]),
    )


Work = Callable[[], object]


def request_frame(exchange: Exchange) -> bytes:
    """Return the request frame without its size."""
    request, version = exchange.request, exchange.version
    front = RequestHeaderV0(request.API_KEY, version, CORRELATION_ID)
    flexible = version in request.FLEXIBLE
    body = encode(request, version)
    return write_request(front, "bench", body, flexible=flexible)[4:]


def ours(exchange: Exchange) -> tuple[Work, Work]:
    """Return functions that decode the request and encode the response with Coterie."""
    cls, version, answer = type(exchange.request), exchange.version, exchange.response
    flexible = version in cls.FLEXIBLE
    frame = request_frame(exchange)

    def read() -> object:
        read_header_v0(frame)
        _, at = read_client_id(frame, flexible=flexible)
        return decode(cls, version, frame, at)

    def write() -> bytes:
        return write_response(CORRELATION_ID, encode(answer, version), tagged=flexible)

    return read, write


def kio_side(exchange: Exchange) -> tuple[Work, Work]:
    """Return functions that decode the request and encode the response with kio."""
    key, version = exchange.request.API_KEY, exchange.version
    request: Any = kio.index.load_request_schema(key, version)
    response: Any = kio.index.load_response_schema(key, version)
    read_header, read_body = (
        entity_reader(schema) for schema in (request.__header_schema__, request)
    )
    frame = request_frame(exchange)

    def read() -> object:
        _, at = read_header(frame, 0)
        return read_body(frame, at)

    write_header: Any = entity_writer(response.__header_schema__)
    write_body: Any = entity_writer(response)
    answer, _ = entity_reader(response)(encode(exchange.response, version), 0)

    def write() -> bytes:
        buffer = io.BytesIO()
        write_header(buffer, response.__header_schema__(correlation_id=CORRELATION_ID))
        write_body(buffer, answer)
        body = buffer.getvalue()
        return len(body).to_bytes(4, "big") + body

    assert write() == ours(exchange)[1]()
    return read, write


def kafka_python_side(exchange: Exchange) -> tuple[Work, Work]:
    """Return functions that decode the request and encode the response with
    kafka-python.
    """
    version = exchange.version
    request: Any = getattr(kafka_python, type(exchange.request).__name__)
    response: Any = getattr(kafka_python, type(exchange.response).__name__)
    answer = response[version].decode(encode(exchange.response, version))
    answer.with_header(correlation_id=CORRELATION_ID)
    write = partial(answer.encode, header=True, framed=True)
    assert write() == ours(exchange)[1]()
    frame = request_frame(exchange)
    return partial(request.decode, frame, version=version, header=True), write


def seconds_each(work: Work, rounds: Rounds) -> float:
    """Return the mean time of one call, measured for a fraction of a second."""
    work()
    calls = 0
    start = time.perf_counter()
    deadline = start + min(rounds.seconds, SECONDS_MAX)
    while (now := time.perf_counter()) < deadline:
        for _ in range(BATCH):
            work()
        calls += BATCH
    return (now - start) / calls


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Return Coterie's speed relative to each other codec, for each exchange."""
    sides = {"kio": kio_side, "kafka-python": kafka_python_side}
    for exchange in exchanges():
        bar = HEARTBEAT_BAR if exchange.name == "heartbeat v1" else None
        for name, side in sides.items():
            if exchange.name == "heartbeat v1" and name != "kio":
                continue  # no KIP-848 in kafka-python
            yield _both(exchange, name, side(exchange), rounds, bar)
    yield _from_cached_bytes(exchange, rounds)


def _both(
    exchange: Exchange,
    name: str,
    theirs: tuple[Work, Work],
    rounds: Rounds,
    bar: float | None,
) -> Figure:
    mine = ours(exchange)

    def parts(works: tuple[Work, Work]) -> tuple[float, float]:
        return seconds_each(works[0], rounds), seconds_each(works[1], rounds)

    pairs = alternate(rounds, partial(parts, mine), partial(parts, theirs))
    (read, write), (their_read, their_write) = pairs[-1]
    return Figure(
        name=f"{exchange.name}, request and response: speed relative to {name}",
        value=median_ratio([(sum(them), sum(us)) for us, them in pairs]),
        bar=bar,
        detail=f"us read/write {read * 1e6:.2f}/{write * 1e6:.2f} | "
        f"{their_read * 1e6:.2f}/{their_write * 1e6:.2f}",
    )


def _from_cached_bytes(exchange: Exchange, rounds: Rounds) -> Figure:
    write = partial(encode, cached_response(exchange), exchange.version)
    _, their_write = kafka_python_side(exchange)
    pairs = alternate(
        rounds,
        partial(seconds_each, write, rounds),
        partial(seconds_each, their_write, rounds),
    )
    return Figure(
        name=f"{exchange.name}, cached response: speed relative to kafka-python",
        value=median_ratio([(them, us) for us, them in pairs]),
        bar=OFFSET_FETCH_BAR,
        detail=f"us {pairs[-1][0] * 1e6:.2f} | {pairs[-1][1] * 1e6:.2f}",
    )
