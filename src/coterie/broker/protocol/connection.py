"""The server's side of one client connection, without the socket.

    for request in connection.receive_data(data):
        ...                                    # now or later, in any order:
        connection.respond(request, response)
    transport.write(connection.data_to_send())

Rules of this file: responses are sent in the order of their requests, whatever the
order in which they are given (G1-05); a malformed or unsupported request ends the
connection, after the responses to the requests before it (G1-04); no method waits or
reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.protocol.sasl import Authentication, SaslState
from coterie.errors import MalformedFrame
from coterie.wire.api import ADVERTISED, IMPLEMENTED, ApiKey, api_of
from coterie.wire.codec import NO_LIMIT, decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    HEADER_V0_BYTES,
    FrameReader,
    frame_of,
    read_client_id,
    read_header_v0,
    write_response,
)
from coterie.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from coterie.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.wire.schema import Message


class _RequestLayout(NamedTuple):
    """The decoding of requests of one key and version, and their response header."""

    request: type[Message]
    flexible: bool
    tagged_response: bool


# Filled on first use; at most one entry for each version that is served.
_LAYOUTS: Final[dict[tuple[int, int], _RequestLayout]] = {}


def _request_layout(key: int, version: int) -> _RequestLayout:
    if key not in IMPLEMENTED:
        raise MalformedFrame(f"unknown API key {key}")
    api = api_of(ApiKey(key))
    if version not in api.served:
        raise MalformedFrame(f"{api.key.title} v{version} is not served")
    flexible = version in api.request.FLEXIBLE
    tagged = flexible and key != ApiKey.API_VERSIONS  # G1-02
    layout = _RequestLayout(api.request, flexible, tagged)
    _LAYOUTS[key, version] = layout
    return layout


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

    With `sasl` the client has to authenticate first. Until then requests are returned
    one at a time, and later frames are held until that request has its response
    (`has_held_frames`), which determines their decoding.

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
        "_frames",
        "_held_frames",
        "_out",
        "_pending",
        "_produce_bytes_max",
        "_sasl",
        "failure",
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
        self._frames = FrameReader(frame_bytes_max, produce_bytes_max)
        self._frame_bytes_max = frame_bytes_max
        self._elements_max = elements_max
        self._produce_bytes_max = produce_bytes_max
        self._sasl = sasl
        self._held_frames: deque[bytes] = deque()
        self._pending: deque[Request] = deque()
        self._out: list[bytes] = []
        self._client = (b"\xff\xff", "")
        self._fast_path = fast_path
        self._fast_path_prefixes = fast_path_prefixes

    @property
    def in_flight(self) -> int:
        """The number of requests that were read and have no response yet."""
        return len(self._pending)

    @property
    def is_blocked(self) -> bool:
        """Whether frames are held that cannot be read before a response is given."""
        return bool(self._held_frames) and not self.has_held_frames

    @property
    def has_held_frames(self) -> bool:
        """Whether `receive_data(b"")` would return held requests now."""
        if not self._held_frames or self.failure is not None:
            return False
        assert self._sasl is not None
        return self._sasl.is_complete or not self._pending

    def receive_data(self, data: bytes) -> list[Request]:
        """Feed bytes from the client; return the requests now complete, in order."""
        if self.failure is not None:
            return []
        requests: list[Request] = []
        try:
            if self._sasl is not None:
                self._receive_sasl(data, self._sasl, requests)
            else:
                for frame in self._frames.feed(data):
                    request = self._read_or_fast_path(frame)
                    if request is not None:
                        requests.append(request)
        except MalformedFrame as error:
            self.failure = error
        else:
            self.failure = self._frames.failure
        return requests

    def respond(self, request: Request, response: Message | None) -> None:
        """Queue the response to a request; None means that the request has no response
        (G1-06). A response that cannot be encoded is a bug: the error is not caught.
        """
        assert request.frame is None, "answered twice"
        if response is None:
            request.frame = b""
        elif request.api_version == RAW_TOKEN:
            request.frame = _raw_token(response)
        else:
            request.frame = write_response(
                request.correlation_id,
                encode(response, request.api_version),
                tagged=request.tagged_response,
            )
        pending = self._pending
        while pending and pending[0].frame is not None:
            self._out.append(pending.popleft().frame or b"")

    def data_to_send(self) -> bytes:
        """Return the bytes to write to the client, and clear them."""
        if not self._out:
            return b""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return data

    def _receive_sasl(
        self, data: bytes, sasl: Authentication, requests: list[Request]
    ) -> None:
        held, frames = self._held_frames, self._frames
        if sasl.is_complete:
            frames.frame_bytes_max = self._frame_bytes_max
            frames.produce_bytes_max = self._produce_bytes_max
        else:
            frames.frame_bytes_max = sasl.frame_bytes_max
            frames.produce_bytes_max = 0
        held.extend(frames.feed(data))
        while held and (sasl.is_complete or not self._pending):
            frame = held.popleft()
            request = self._read_sasl(frame, sasl)
            if request is not None:
                requests.append(request)
                if request.api_key == ApiKey.SASL_HANDSHAKE:
                    break  # the response determines how to decode the next frame

    def _read_sasl(self, frame: bytes, sasl: Authentication) -> Request | None:
        if sasl.is_complete:
            return self._read_or_fast_path(frame)
        if sasl.state is not SaslState.RAW_AUTHENTICATE:
            sasl.admit(read_header_v0(frame)[0])
            return self._read(frame)
        body = SaslAuthenticateRequest(auth_bytes=frame)
        request = Request(ApiKey.SASL_AUTHENTICATE, RAW_TOKEN, 0, "", body, False)
        self._pending.append(request)
        return request

    def _read_or_fast_path(self, frame: bytes) -> Request | None:
        fast_path = self._fast_path
        if fast_path is None or not frame.startswith(self._fast_path_prefixes):
            return self._read(frame)
        # Responses are sent in the order of requests: no fast path while one is
        # pending.
        response = None if self._pending else fast_path(frame)
        if response is not None:
            self._out.append(response)
            return None
        request = self._read(frame)
        if request is not None:
            request.raw = frame
        return request

    def _read(self, frame: bytes) -> Request | None:
        key, version, correlation_id = read_header_v0(frame)
        layout = _LAYOUTS.get((key, version))
        if layout is None:
            if (
                key == ApiKey.API_VERSIONS
                and version not in api_of(ApiKey.API_VERSIONS).served
            ):
                self._refuse_api_versions(correlation_id)
                return None
            layout = _request_layout(key, version)
        client_id, at = self._client_id(frame, flexible=layout.flexible)
        body, _ = decode(layout.request, version, frame, at, self._elements_max)
        tagged = layout.tagged_response
        request = Request(key, version, correlation_id, client_id, body, tagged)
        request.size = len(frame)
        self._pending.append(request)
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
        with the versions that are served, so that the client can retry (G1-03).
        """
        versions = ADVERTISED[ApiKey.API_VERSIONS]
        refusal = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersion(
                    api_key=ApiKey.API_VERSIONS,
                    min_version=versions.low,
                    max_version=versions.high,
                )
            ],
        )
        request = Request(ApiKey.API_VERSIONS, 0, correlation_id, "", None, False)
        self._pending.append(request)
        self.respond(request, refusal)


def _raw_token(response: Message) -> bytes:
    """Return the token as a separate frame; b"" for a failure, which has no frame: the
    connection is closed without a response.
    """
    assert isinstance(response, SaslAuthenticateResponse)
    if response.error_code:
        return b""
    return frame_of(response.auth_bytes)
