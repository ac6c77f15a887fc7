"""The fuzz targets of the gateway: the bytes of its clients and of upstream's brokers.

Each raises no error but MalformedFrame.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from coterie.broker.server.connections import Connections
from coterie.broker.server.security import Security
from coterie.errors import LogError, MalformedFrame
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.barrier import Barrier, encode_barrier, read_barrier
from coterie.gateway.node_protocol import (
    NodeAssignment,
    NodeMetadata,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)
from coterie.gateway.path.addresses import Addresses
from coterie.gateway.path.group_apis import group_handlers
from coterie.gateway.path.rewriting import CAPS, Rewriting
from coterie.gateway.path.sasl import SaslExchange
from coterie.gateway.path.upstream_side import Events, Expected, UpstreamSide
from coterie.gateway.view import NodeInfo, View
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import encode
from coterie.wire.frame_starts import REQUEST_HEAD, read_acks
from coterie.wire.framing import RequestHeaderV0, write_request, write_response
from coterie.wire.record_batch import whole_batches
from coterie.wire.schema import Message
from fuzz.target import Target, full

_NODE: Final = NodeInfo(name="a", host="gw-a", port=9000, broker_port=9001, brokers=[1])
_TOPIC: Final = "t"
"""The gateway's own topic, as `full` names topics."""
_CORRELATION_ID: Final = 1


def gateway_targets() -> Iterator[Target]:
    """Yield the targets."""
    for key, versions in CAPS.items():
        served = api_of(ApiKey(key)).response.VERSIONS
        for version in range(versions.low, versions.high + 1):
            if key != ApiKey.FETCH and version in served:
                yield _rewritten(ApiKey(key), version)
    yield Target("gateway Produce", _acks, list(_requests(ApiKey.PRODUCE)))
    for mechanism, tokens in _SASL.items():
        yield _sasl(mechanism, tokens)
    yield Target("gateway responses", _responses, [_response_stream()])
    yield Target("gateway nodes", read_metadata, [write_metadata(_metadata())])
    assignment = NodeAssignment(View((_NODE,), (0, -1), 1))
    yield Target(
        "gateway assignments",
        lambda data: read_assignment(data, 1),
        [write_assignment(assignment)],
    )
    barrier = encode_barrier(
        Barrier(cluster_id="cluster", node="a", partition_count=50), 1
    )
    yield Target("gateway barriers", _barriers, [barrier])


# Responses of upstream.


def _rewritten(key: ApiKey, version: int) -> Target:
    message = api_of(key).response
    tagged = key != ApiKey.API_VERSIONS and version in message.FLEXIBLE

    def run(data: bytes) -> object:
        rewriting = _rewriting()
        if key == ApiKey.FIND_COORDINATOR:
            rewrite = rewriting.of_coordinators(request)
        else:
            rewrite = rewriting.of(key, version)
        return None if rewrite is None else rewrite(data)

    # For transactions: other requests for coordinators are not forwarded.
    asked = m.FindCoordinatorRequest(key_type=1, key="t", coordinator_keys=["t"])
    request = _frame(asked, version) if key == ApiKey.FIND_COORDINATOR else b""

    seeds = [
        write_response(_CORRELATION_ID, encode(each, version), tagged=tagged)
        for each in (message(), full(message))
    ]
    return Target(f"gateway {message.__name__} v{version}", run, seeds)


def _rewriting() -> Rewriting:
    view = View((_NODE,), (), 1)
    addresses = Addresses(lambda: view, _NODE)
    settings = Settings()
    security = Security(
        SecurityProtocol.PLAINTEXT, settings, lambda *_: None, lambda *_: None
    )
    connections = Connections(settings, group_handlers(lambda: view), security)
    return Rewriting(
        addresses,
        connections,
        topic=_TOPIC,
        is_coordination=True,
    )


class _Written(asyncio.WriteTransport):
    """The transport of a client, which keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: Any) -> None:
        self.data += bytes(data)


def _responses(data: bytes) -> None:
    """Feed a connection to upstream, whole and in two halves, with the same result: it
    never raises, and calls `on_failure` for what is no response. Responses before that
    may be dropped, because the client's connection is closed."""
    middle = len(data) // 2
    whole, has_failed = _forwarded(data)
    parts, have_failed = _forwarded(data[:middle], data[middle:])
    assert has_failed == have_failed
    assert parts.startswith(whole) if has_failed else parts == whole


def _forwarded(*chunks: bytes) -> tuple[bytes, bool]:
    client, failures = _Written(), list[str]()
    expected: deque[Expected] = deque([_CORRELATION_ID] * 3)
    events = Events(lambda: None, lambda _: None, lambda _: None, failures.append)
    side = UpstreamSide(client, expected, events, GatewayCounts(), set())
    for chunk in chunks:
        if not failures:
            side.data_received(chunk)
    return client.data, bool(failures)


def _response_stream() -> bytes:
    return write_response(_CORRELATION_ID, b"body", tagged=False) * 3


# Requests of clients.


def _requests(key: ApiKey) -> Iterator[bytes]:
    message = api_of(key).request
    low, high = CAPS[key]
    for version in range(low, high + 1):
        if version in message.VERSIONS:
            yield _frame(full(message), version)


def _frame(request: Message, version: int) -> bytes:
    header = RequestHeaderV0(request.API_KEY, version, _CORRELATION_ID)
    flexible = version in request.FLEXIBLE
    return write_request(header, "fuzz", encode(request, version), flexible=flexible)


def _acks(data: bytes) -> None:
    """Read acks of a frame as it arrives: later bytes never change it."""
    if len(data) < REQUEST_HEAD.size:
        raise MalformedFrame("no header")
    size, _, version, _ = REQUEST_HEAD.unpack_from(data)
    if size < REQUEST_HEAD.size:
        raise MalformedFrame("no request")
    whole = read_acks(data, 0, version)
    part = read_acks(data[: max(len(data) // 2, REQUEST_HEAD.size)], 0, version)
    assert part in {None, whole}


# SASL.

_SASL: Final = {
    "PLAIN": [b"\0user\0pencil"],
    "SCRAM-SHA-256": [b"n,,n=user,r=nonce", b"c=biws,r=nonce1,p=cHJvb2Y="],
    "OAUTHBEARER": [b"n,,\1auth=Bearer e30.eyJzdWIiOiJhIn0.c2ln\1\1"],
}


def _sasl(mechanism: str, tokens: list[bytes]) -> Target:
    """Return the target of an exchange after its handshake. The input consists of the
    client's frames and of upstream's responses to them, each after its size."""

    def run(data: bytes) -> None:
        exchange = SaslExchange(lambda: 0)
        request = m.SaslHandshakeRequest(mechanism=mechanism)
        exchange.request(_request(ApiKey.SASL_HANDSHAKE, encode(request, 1)))
        body = encode(m.SaslHandshakeResponse(), 1)
        exchange.answer(write_response(_CORRELATION_ID, body, tagged=False)[4:])
        at = 0
        while at < len(data):
            frame, at = _next_frame(data, at)
            if exchange.request(frame) is not None:
                return
            assert exchange.principal is None
            frame, at = _next_frame(data, at)
            exchange.answer(frame)

    stream = b""
    for number, token in enumerate(tokens):
        is_last = number == len(tokens) - 1
        request = m.SaslAuthenticateRequest(auth_bytes=token)
        frame = _request(ApiKey.SASL_AUTHENTICATE, encode(request, 1))
        scram = b"v=c2ln" if is_last else b"r=nonce1,s=c2FsdA==,i=4096"
        answer = m.SaslAuthenticateResponse(
            auth_bytes=scram if mechanism.startswith("SCRAM") else b""
        )
        stream += len(frame).to_bytes(4) + frame
        stream += write_response(_CORRELATION_ID, encode(answer, 1), tagged=False)
    return Target(f"gateway SASL {mechanism}", run, [stream])


def _request(key: ApiKey, body: bytes) -> bytes:
    """Return a request of version 1, without its size."""
    header = RequestHeaderV0(key, 1, _CORRELATION_ID)
    return write_request(header, "fuzz", body, flexible=False)[4:]


def _next_frame(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + int.from_bytes(data[at : at + 4])
    if end > len(data):
        raise MalformedFrame("an incomplete frame")
    return data[at + 4 : end], end


# The group of the nodes, and the log.


def _metadata() -> NodeMetadata:
    return NodeMetadata(info=_NODE, shards=[0, 1])


def _barriers(data: bytes) -> None:
    for header, batch in whole_batches(data):
        try:
            read_barrier(batch, header)
        except LogError as error:
            raise MalformedFrame(str(error)) from None
