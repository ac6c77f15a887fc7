"""The fuzz targets: decoders that raise no error but MalformedFrame for any bytes.

The seeds of a target are valid inputs for the mutator.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from coterie.auth.sasl import PlainExchange, ScramExchange, mechanisms
from coterie.broker.coordinator.record_serde import TYPES, decode_record, encode_record
from coterie.broker.coordinator.result import Record
from coterie.broker.protocol.connection import Connection, Request
from coterie.broker.protocol.sasl import Authentication
from coterie.errors import ApiError, LogCorrupt, MalformedFrame
from coterie.records import SHARE_GROUP_TYPES
from coterie.types import ScramCredential, ScramMechanism
from coterie.wire import messages as m
from coterie.wire.api import IMPLEMENTED, Api, ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.compression import Codec, compress, decompress
from coterie.wire.framing import RequestHeaderV0, frame_of, write_request
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    decode_marker,
    decode_records,
    encode_batch,
    encode_marker,
    split_batches,
)
from coterie.wire.schema import Message
from fuzz.gateway_targets import gateway_targets
from fuzz.pipeline_targets import segment, silver
from fuzz.target import Target, full

FRAME_BYTES_MAX: Final = 100_000


def targets() -> Iterator[Target]:
    """Yield all decoders of bytes from peers and from logs."""
    yield from _messages()
    yield from _others()


def families() -> Iterator[Target]:
    """Yield the same decoders, with one target for all messages: two bytes of the input
    select the message.
    """
    messages = list(_messages())

    def run(data: bytes) -> None:
        messages[int.from_bytes(data[:2], "big") % len(messages)].run(data[2:])

    seeds = [
        index.to_bytes(2, "big") + seed
        for index, target in enumerate(messages)
        for seed in target.seeds
    ]
    yield Target("messages", run, seeds)
    yield from _others()


def _messages() -> Iterator[Target]:
    for api in _apis():
        for version in range(api.served.low, api.served.high + 1):
            yield _message(api.request, version)
            yield _message(api.response, version)
    for embedded in (m.ConsumerProtocolSubscription, m.ConsumerProtocolAssignment):
        for version in range(embedded.VERSIONS.high + 1):
            yield _message(embedded, version)


def _others() -> Iterator[Target]:
    yield from gateway_targets()
    yield Target("frames", _frames, [_frame(api) * 2 for api in _apis()])
    yield Target(
        "frames before authentication", _before_authentication, list(_sasl_seeds())
    )
    yield Target("PLAIN", _plain, [b"\0user\0pencil", b"user\0user\0pencil", b"\0a\0"])
    yield Target("SCRAM", _scram, [_SCRAM_FIRST + b"\n" + _SCRAM_LAST])
    yield Target("coordinator records", _record, list(_record_seeds(TYPES)))
    # There is no table of share groups.
    with_table = [key for key in TYPES if key not in SHARE_GROUP_TYPES]
    yield Target("silver rows", silver, list(_record_seeds(with_table)))
    yield Target("record batches", _batches, list(_batch_seeds()))
    yield Target("segments", segment, list(_batch_seeds()))
    for codec in Codec:
        if codec is not Codec.NONE:
            yield _compression(codec)


def _apis() -> list[Api]:
    return [api_of(key) for key in IMPLEMENTED]


def _message(cls: type[Message], version: int) -> Target:
    def run(data: bytes) -> None:
        value, end = decode(cls, version, data)
        assert end <= len(data)
        encoded = encode(value, version)
        again, end = decode(cls, version, encoded)
        # As text: a NaN is not equal to itself.
        assert (str(again), end) == (str(value), len(encoded))

    name = f"{cls.__name__} v{version}"
    return Target(name, run, [encode(cls(), version), encode(full(cls), version)])


def _frame(api: Api) -> bytes:
    version = api.served.high
    header = RequestHeaderV0(api.key, version, 1)
    body = encode(full(api.request), version)
    flexible = version in api.request.FLEXIBLE
    return write_request(header, "fuzz", body, flexible=flexible)


def _frames(data: bytes) -> None:
    """Feed a connection, whole and in two halves; it must stop with `failure` and never
    raise.
    """
    whole, halves = Connection(FRAME_BYTES_MAX), Connection(FRAME_BYTES_MAX)
    try:
        found = _received(whole, data)
        middle = len(data) // 2
        again = _received(halves, data[:middle]) + _received(halves, data[middle:])
    except MalformedFrame as error:
        raise AssertionError("the connection raised") from error
    assert [str(one.body) for one in found] == [str(one.body) for one in again]
    assert (whole.failure is None) == (halves.failure is None)


def _received(connection: Connection, data: bytes) -> list[Request]:
    """Feed bytes; return the requests, each of which gets no response."""
    connection.receive_data(data)
    requests = []
    while (request := connection.next_request()) is not None:
        requests.append(request)
        connection.respond(request, None)
    connection.data_to_send()  # refusals of unknown versions of ApiVersions
    assert connection.held_bytes == 0
    return requests


def _before_authentication(data: bytes) -> None:
    """Feed a connection before authentication, which must not complete."""
    sasl = Authentication(_MECHANISMS, session_ms=0, frame_bytes_max=FRAME_BYTES_MAX)
    connection = Connection(FRAME_BYTES_MAX, sasl=sasl)
    connection.receive_data(data)
    while (request := connection.next_request()) is not None:
        try:
            _answer(connection, sasl, request)
        except ApiError:
            return
        assert not sasl.is_complete


def _answer(connection: Connection, sasl: Authentication, request: Request) -> None:
    if request.api_key == ApiKey.SASL_HANDSHAKE:
        sasl.handshake(request.body.mechanism, request.api_version, now_ms=0)
        connection.respond(request, m.SaslHandshakeResponse())
    elif request.api_key == ApiKey.API_VERSIONS:
        connection.respond(request, m.ApiVersionsResponse())
    else:
        assert sasl.expects_token
        token = sasl.accept(sasl.respond(request.body.auth_bytes)(), now_ms=0).token
        connection.respond(request, m.SaslAuthenticateResponse(auth_bytes=token))


def _sasl_seeds() -> Iterator[bytes]:
    for version in (0, 1):
        hello = write_request(
            RequestHeaderV0(ApiKey.SASL_HANDSHAKE, version, 1),
            "fuzz",
            encode(m.SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), version),
            flexible=False,
        )
        token = write_request(
            RequestHeaderV0(ApiKey.SASL_AUTHENTICATE, 1, 2),
            "fuzz",
            encode(m.SaslAuthenticateRequest(auth_bytes=_SCRAM_FIRST), 1),
            flexible=False,
        )
        yield hello + (token if version else frame_of(_SCRAM_FIRST))


def _plain(data: bytes) -> None:
    """Parse a PLAIN token, without the password hashing."""
    with suppress(ApiError):
        PlainExchange(_no_credential).respond(data)


def _scram(data: bytes) -> None:
    """Send a first and a final SCRAM message; neither may complete authentication."""
    exchange = ScramExchange(ScramMechanism.SCRAM_SHA_256, _some_credential, nonce="n")
    first, _, last = data.partition(b"\n")
    with suppress(ApiError):
        exchange.respond(first)()
        exchange.respond(last)()
    assert exchange.user is None


def _no_credential(user: str, mechanism: ScramMechanism) -> None:
    return None


def _some_credential(user: str, mechanism: ScramMechanism) -> ScramCredential:
    return ScramCredential(bytes(16), bytes(32), bytes(32), 4_096)


_SCRAM_FIRST: Final = b"n,,n=user,r=abc"
_SCRAM_LAST: Final = b"c=biws,r=abcn,p=" + b"AAAA" * 10 + b"AAA="
_MECHANISMS: Final = mechanisms(["PLAIN", "SCRAM-SHA-256"], _some_credential)


def _batches(data: bytes) -> None:
    for header, batch in split_batches(data):
        records = decode_records(batch, header)
        assert len(records) == header.record_count
        if header.is_control:
            for record in records:
                decode_marker(record)


def _batch_seeds() -> Iterator[bytes]:
    records = [
        LogRecord(5, 1_000, b"key", b"value" * 20, (("name", b"content"),)),
        LogRecord(6, 1_001, None, None),
    ]
    for codec in Codec:
        yield encode_batch(records, codec=codec, attributes=TRANSACTIONAL)
    yield encode_marker(7, 1_002, 3, 0, commit=True)


def _record(data: bytes) -> None:
    """Decode a record; the first byte of the input is the length of the record's
    key.
    """
    end = 1 + data[0] if data else 0
    try:
        decode_record(data[1:end], data[end:] or None)
    except LogCorrupt as error:
        raise MalformedFrame(str(error)) from None


def _record_seeds(types: Iterable[int]) -> Iterator[bytes]:
    for key_type, value_type in dict.fromkeys(TYPES[each] for each in types):
        key, value = full(key_type), full(value_type)
        for version in range(value.VERSIONS.high + 1):
            key_bytes, value_bytes = encode_record(Record(key, value, version))
            yield bytes([len(key_bytes)]) + key_bytes + (value_bytes or b"")


def _compression(codec: Codec) -> Target:
    def run(data: bytes) -> None:
        decompress(codec, data)

    text = b"a line of text, " * 50 + struct.pack(">q", 77)
    return Target(codec.name.lower(), run, [compress(codec, text), b""])
