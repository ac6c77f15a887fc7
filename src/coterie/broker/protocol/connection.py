"""The server's side of one client connection, without the socket.

    connection.receive_data(data)
    while (request := connection.next_request()) is not None:
        ...                                    # now or later, in any order:
        connection.respond(request, response)
    transport.write(connection.data_to_send())

Rules of this file: requests are decoded one at a time, when they are handled, so the
caller can stop after any of them; a request waits until all earlier ones have their
responses, except for the APIs of `CONCURRENT`; responses are sent in the order of their
requests, whatever the order in which they are given; a malformed or unsupported
request ends the connection, after the responses to the requests before it; no
method waits or reads a clock; with `in_slices` a large request is decoded in slices,
one in each call of `next_request`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.protocol.sasl import Authentication, SaslState
from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, IMPLEMENTED, Api, ApiKey, api_of
from coterie.wire.codec import (
    NO_LIMIT,
    decode,
    decode_in_slices,
    encode,
    encode_in_slices,
)
from coterie.wire.commit import (
    CommitLayout,
    CommitResponse,
    commit_layout,
    read_commit,
    read_commit_in_slices,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    HEADER_V0_BYTES,
    SIZE_BYTES,
    FrameReader,
    frame_of,
    read_client_id,
    read_header_v0,
    read_size,
    write_response,
)
from coterie.wire.releases import Release
from coterie.wire.schema import Message


class _RequestLayout(NamedTuple):
    """The decoding of requests of one key and version, and their response header."""

    request: type[Message]
    flexible: bool
    tagged_response: bool
    commit: CommitLayout | None


_Layouts: TypeAlias = dict[tuple[int, int], _RequestLayout]

# Filled on first use; at most one entry for each version that is served.
_LAYOUTS: Final[_Layouts] = {}
_LAYOUTS_OF_RELEASES: Final[dict[str, _Layouts]] = {}


def _request_layout(key: int, version: int, release: Release | None) -> _RequestLayout:
    if key not in IMPLEMENTED:
        raise MalformedFrame(f"unknown API key {key}")
    api = api_of(ApiKey(key))
    if not _is_served(api, version, release):
        raise MalformedFrame(f"{api.key.title} v{version} is not served")
    flexible = version in api.request.FLEXIBLE
    tagged = flexible and key != ApiKey.API_VERSIONS
    commit: CommitLayout | None = None
    if key in _COMMITS:
        message: Any = api.request
        commit = commit_layout(message, version)
    return _RequestLayout(api.request, flexible, tagged, commit)


def _is_served(api: Api, version: int, release: Release | None) -> bool:
    return version in api.served and (release is None or release.has(api.key, version))


_COMMITS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT})

CONCURRENT: Final[frozenset[int]] = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.HEARTBEAT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""APIs whose requests are handled while others of these APIs have no response yet.

Kafka's SocketServer mutes a connection until the response to its request was sent, so
each request sees the effects of all earlier ones. Requests of these APIs do so, too:
their effects (records staged in the order of the requests, state that is replayed at
once, a renewed session) are complete when the handler returns, and only their responses
wait for the flush; otherwise the handler calls `hold_requests`. If a flush fails,
everything staged after it fails with it. All other requests may read what is not
flushed, or wait for other clients as JoinGroup and Fetch do, so they are handled alone.
"""

FAST_PATH_TURN: Final = 256
"""The largest number of responses that `next_request` takes from the fast path."""

LARGE_BYTES: Final = 8_192
"""The size from which on a request is decoded in slices."""

RAW_TOKEN: Final = -1
"""The `api_version` of a SaslAuthenticate request that arrived as a raw token, without
a header (SaslHandshake v0), and whose response is sent as one."""

FastPath: TypeAlias = Callable[[bytes], bytes | None]
"""A function from a request's frame to its complete response, or None to decode the
request.
"""


@dataclass(slots=True, eq=False)
class Request:
    """A decoded request, with its position in the order of responses."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body: Any
    tagged_response: bool
    frame: bytes | None = None
    """The encoded response while earlier responses are missing; b"" for none."""
    raw: bytes | None = None
    """The request's own frame, if a fast path could have answered it."""
    size: int = 0
    """The length of the request's frame."""


class Connection:
    """The server's side of one connection; see the module's docstring.

    `failure` is set when the client broke the protocol: no more requests are read, and
    the connection must be closed once `data_to_send` has been written.

    With `sasl` the client has to authenticate first: the response to one request
    determines how the next one is decoded.

    Produce requests may have `produce_bytes_max`, if it is more than `frame_bytes_max`.
    `elements_max` limits the elements of all arrays of a request.

    `fast_path` may return the response to a request from its bytes alone. It is called
    for frames that begin with one of `fast_path_prefixes` while no earlier response is
    pending.
    """

    __slots__ = (
        "_client",
        "_elements_max",
        "_fast_path",
        "_fast_path_prefixes",
        "_frame_bytes_max",
        "_is_alone",
        "_is_fast_path_missed",
        "_layouts",
        "_out",
        "_pending",
        "_produce_bytes_max",
        "_release",
        "_sasl",
        "_slices",
        "concurrent",
        "decoding",
        "failure",
        "frames",
        "held_bytes",
        "in_slices",
        "output_bytes",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        *,
        produce_bytes_max: int = 0,
        elements_max: int = NO_LIMIT,
        fast_path: FastPath | None = None,
        fast_path_prefixes: tuple[bytes, ...] = (),
        sasl: Authentication | None = None,
    ) -> None:
        self.failure: MalformedFrame | None = None
        self.held_bytes = 0
        """The bytes of requests without a response, and of responses not yet written.
        """
        self.output_bytes = 0
        """The bytes of responses that `data_to_send` would return; those of the fast
        path are not counted."""
        self.decoding: Request | None = None
        """The request that is being decoded in slices."""
        self._slices: Iterator[None] = iter(())
        self.in_slices = False
        """Whether requests of `LARGE_BYTES` or more are decoded in slices:
        `next_request` then decodes one, and returns None while there are further ones.
        """
        self.frames = FrameReader(frame_bytes_max, produce_bytes_max)
        self.concurrent = CONCURRENT
        """The APIs whose requests need not wait for those of others of them."""
        self._frame_bytes_max = frame_bytes_max
        self._elements_max = elements_max
        self._produce_bytes_max = produce_bytes_max
        self._sasl = sasl
        self._release: Release | None = None
        self._layouts = _LAYOUTS
        self._is_alone = False
        self._is_fast_path_missed = False
        self._pending: deque[Request] = deque()
        self._out: list[bytes] = []
        self._client = (b"\xff\xff", "")
        self._fast_path = fast_path
        self._fast_path_prefixes = fast_path_prefixes

    def act_as(self, release: Release) -> None:
        """Serve only the API versions of a Kafka release; call it before any data."""
        self._release = release
        self._layouts = _LAYOUTS_OF_RELEASES.setdefault(release.name, {})

    @property
    def in_flight(self) -> int:
        """The number of requests that were read and have no response yet."""
        return len(self._pending)

    @property
    def is_blocked(self) -> bool:
        """Whether the next request has to wait for the response to an earlier one."""
        if not self._pending:
            return False
        if self._is_alone:
            return True
        key = self.frames.next_key()
        return key is not None and key not in self.concurrent

    def has_request(self) -> bool:
        """Return whether `next_request` has a complete request to return now."""
        if self.decoding is not None:
            return True
        if self.failure is not None or self.is_blocked:
            return False
        if self._sasl is not None:
            self._set_limits(self._sasl)
        if self.frames.has_frame():
            return True
        self.failure = self.frames.failure
        return False

    def receive_data(self, data: bytes) -> None:
        """Append bytes from the client."""
        if self.failure is None:
            self.frames.append(data)

    def respond_fast(self, data: bytes) -> bytes:
        """Respond to received requests at the start of `data` by the fast path; return
        the bytes after them, for `receive_data`.

        This does what `next_request` would, without a frame reader.
        """
        fast_path, sasl = self._fast_path, self._sasl
        if (
            fast_path is None
            or self._pending
            or self.frames.waiting_bytes
            or self.decoding is not None
            or (sasl is not None and not sasl.is_complete)
        ):
            return data
        prefixes, out = self._fast_path_prefixes, self._out
        at, end = 0, len(data)
        while data.startswith(prefixes, at + SIZE_BYTES):
            begin = at + SIZE_BYTES
            frame_end = begin + read_size(data, at)
            if not begin <= frame_end <= end or len(out) >= FAST_PATH_TURN:
                break
            response = fast_path(data[begin:frame_end])
            if response is None:
                self._is_fast_path_missed = True
                break
            out.append(response)
            at = frame_end
        return data[at:] if at else data

    def next_request(self) -> Request | None:
        """Return the next request that can be handled now.

        None when its bytes are incomplete, when it has to wait for the response to an
        earlier request, after `FAST_PATH_TURN` responses of the fast path, or after a
        slice of a request that is being decoded; see `has_request`.
        """
        decoding = self.decoding
        if decoding is None:
            if self.failure is not None or (self._pending and self.is_blocked):
                return None
            if self._sasl is not None:
                self._set_limits(self._sasl)
        frames = self.frames
        try:
            if decoding is not None:
                return self._decode_slice(decoding)
            while (frame := frames.next_frame()) is not None:
                request = self._decode(frame)
                if request is not None:
                    return request
                if self.decoding is not None or len(self._out) >= FAST_PATH_TURN:
                    return None
        except MalformedFrame as error:
            self._fail(error)
        else:
            self.failure = frames.failure
        return None

    def _decode_slice(self, request: Request) -> Request | None:
        """Decode a slice of the large request; return the request after the last."""
        for _ in self._slices:
            return None
        self.decoding = None
        return self._add(request)

    def _fail(self, error: MalformedFrame) -> None:
        # The traceback of the raised error refers to the frame's bytes, and would hold
        # them until the next garbage collection.
        self.failure = MalformedFrame(str(error))
        self.discard()

    def read_frame(self, frame: bytes) -> Request | None:
        """Decode a complete frame without its size, as `receive_data` and
        `next_request` would; None for one that got its response from a fast path, and
        after a failure. No earlier request may wait or be in flight."""
        assert not self._pending
        assert not self.frames.waiting_bytes
        if self.failure is not None:
            return None
        try:
            return self._decode(frame)
        except MalformedFrame as error:
            self.failure = MalformedFrame(str(error))  # see `next_request`
            return None

    def hold_requests(self) -> None:
        """Return no request before the response to the newest one: it takes effect
        later, although its API is one of `CONCURRENT`."""
        assert self._pending
        self._is_alone = True

    def discard(self) -> None:
        """Drop the bytes received."""
        self.frames.discard()
        self.decoding, self._slices = None, iter(())

    def discard_unless_produce(self) -> None:
        """Drop the bytes received, except when a Produce request is next.

        With acks=0 a client may disconnect as soon as it has sent its records.
        """
        decoding = self.decoding
        if decoding is not None:
            key: int | None = decoding.api_key
        else:
            key = self.frames.next_key() if self.has_request() else None
        if key != ApiKey.PRODUCE:
            self.discard()

    def respond(
        self, request: Request, response: Message | CommitResponse | None
    ) -> None:
        """Queue the response to a request; None means that the request has no response.
        A response that cannot be encoded is a bug: the error is not caught.
        """
        if response is None:
            self._queue(request, b"")
        elif isinstance(response, CommitResponse):
            self._queue_body(request, response.encode())
        elif request.api_version == RAW_TOKEN:
            self._queue(request, _raw_token(response))
        else:
            self._queue_body(request, encode(response, request.api_version))

    def respond_in_slices(self, request: Request, response: Message) -> Iterator[None]:
        """Do as `respond`, and yield between slices of the encoding. No later request
        may be handled meanwhile, as after `hold_requests`."""
        body = yield from encode_in_slices(response, request.api_version)
        self._queue_body(request, body)

    def _queue_body(self, request: Request, body: bytes) -> None:
        tagged = request.tagged_response
        self._queue(
            request, write_response(request.correlation_id, body, tagged=tagged)
        )

    def _queue(self, request: Request, frame: bytes) -> None:
        assert request.frame is None, "answered twice"
        request.frame = frame
        self.held_bytes += len(frame) - request.size
        pending = self._pending
        while pending[0].frame is not None:
            frame = pending.popleft().frame or b""
            self.output_bytes += len(frame)
            self._out.append(frame)
            if not pending:
                self._is_alone = False
                break

    def data_to_send(self) -> bytes:
        """Return the bytes to write to the client, and clear them."""
        if not self._out:
            return b""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self.held_bytes -= self.output_bytes
        self.output_bytes = 0
        return data

    def take_responses(self) -> list[bytes]:
        """Return the responses that `data_to_send` would join, one frame each with its
        size, and clear them."""
        frames, self._out = self._out, []
        self.held_bytes -= self.output_bytes
        self.output_bytes = 0
        return frames

    def _set_limits(self, sasl: Authentication) -> None:
        frames = self.frames
        if sasl.is_complete:
            frames.frame_bytes_max = self._frame_bytes_max
            frames.produce_bytes_max = self._produce_bytes_max
        else:
            frames.frame_bytes_max = sasl.frame_bytes_max
            frames.produce_bytes_max = 0

    def _decode(self, frame: bytes) -> Request | None:
        sasl = self._sasl
        if sasl is None or sasl.is_complete:
            return self._read_or_fast_path(frame)
        if sasl.state is not SaslState.RAW_AUTHENTICATE:
            sasl.admit(read_header_v0(frame)[0])
            return self._read(frame)
        body = m.SaslAuthenticateRequest(auth_bytes=frame)
        request = Request(ApiKey.SASL_AUTHENTICATE, RAW_TOKEN, 0, "", body, False)
        request.size = len(frame)
        self.held_bytes += request.size
        self._pending.append(request)
        self._is_alone = True
        return request

    def _read_or_fast_path(self, frame: bytes) -> Request | None:
        fast_path = self._fast_path
        if fast_path is None or not frame.startswith(self._fast_path_prefixes):
            return self._read(frame)
        # Responses are sent in the order of requests: no fast path while one is
        # pending.
        is_missed = self._is_fast_path_missed or self._pending
        self._is_fast_path_missed = False
        response = None if is_missed else fast_path(frame)
        if response is not None:
            self._out.append(response)
            return None
        request = self._read(frame)
        if request is not None:
            request.raw = frame
        return request

    def _read(self, frame: bytes) -> Request | None:
        key, version, correlation_id = read_header_v0(frame)
        layout = self._layouts.get((key, version))
        if layout is None:
            if key == ApiKey.API_VERSIONS and not _is_served(
                api_of(ApiKey.API_VERSIONS), version, self._release
            ):
                self._refuse_api_versions(correlation_id)
                return None
            layout = _request_layout(key, version, self._release)
            self._layouts[key, version] = layout
        client_id, at = self._client_id(frame, flexible=layout.flexible)
        tagged = layout.tagged_response
        request = Request(key, version, correlation_id, client_id, None, tagged)
        request.size = len(frame)
        if self.in_slices and len(frame) >= LARGE_BYTES:
            self.decoding = request
            self._slices = self._read_in_slices(layout, request, frame, at)
            return self._decode_slice(request)
        if layout.commit is not None:
            request.body = read_commit(layout.commit, frame, at, self._elements_max)
        else:
            request.body, _ = decode(
                layout.request, version, frame, at, self._elements_max
            )
        return self._add(request)

    def _read_in_slices(
        self, layout: _RequestLayout, request: Request, frame: bytes, at: int
    ) -> Iterator[None]:
        """Decode the body of a request; yield between slices of the work."""
        elements_max = self._elements_max
        if layout.commit is not None:
            request.body = yield from read_commit_in_slices(
                layout.commit, frame, at, elements_max
            )
        else:
            request.body, _ = yield from decode_in_slices(
                layout.request, request.api_version, frame, at, elements_max
            )

    def _add(self, request: Request) -> Request:
        """Add a request that was decoded to those without a response."""
        self.held_bytes += request.size
        self._pending.append(request)
        self._is_alone = request.api_key not in self.concurrent
        return request

    def _client_id(self, frame: bytes, *, flexible: bool) -> tuple[str, int]:
        """Return the client id and the position of the body.

        The id is decoded once per connection, since every request repeats the same
        bytes.
        """
        raw, client_id = self._client
        if frame.startswith(raw, HEADER_V0_BYTES):
            at = HEADER_V0_BYTES + len(raw)
            if not flexible:
                return client_id, at
            if at < len(frame) and frame[at] == 0:
                return client_id, at + 1
        client_id, at = read_client_id(frame, flexible=flexible)
        _, end = read_client_id(frame, flexible=False)
        self._client = (frame[HEADER_V0_BYTES:end], client_id)
        return client_id, at

    def _refuse_api_versions(self, correlation_id: int) -> None:
        """Respond to an ApiVersions request of an unknown version in the v0 layout,
        with the versions that are served, so that the client can retry.
        """
        release = self._release
        known = ADVERTISED if release is None else release.versions
        low, high = known[ApiKey.API_VERSIONS]
        refusal = m.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        if release is None or release.lists_versions_in_refusal:
            refusal.api_keys = [
                m.ApiVersion(
                    api_key=ApiKey.API_VERSIONS, min_version=low, max_version=high
                )
            ]
        request = Request(ApiKey.API_VERSIONS, 0, correlation_id, "", None, False)
        self._pending.append(request)
        self.respond(request, refusal)


def _raw_token(response: Message) -> bytes:
    """Return the token as a separate frame; b"" for a failure, which has no frame: the
    connection is closed without a response.
    """
    assert isinstance(response, m.SaslAuthenticateResponse)
    if response.error_code:
        return b""
    return frame_of(response.auth_bytes)
