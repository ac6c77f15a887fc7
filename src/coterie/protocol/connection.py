"""One connection of a server, without the socket: bytes in, requests out, and back.

    for request in connection.receive_data(data):
        ...                                    # now or later, in any order:
        connection.answer(request, response)
    transport.write(connection.data_to_send())

Rules of this file: answers leave in the order of their requests, whatever the order in
which they are given (G1-05); a request that makes no sense ends the connection, after
the answers to those before it (G1-04); nothing here waits or looks at a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.errors import MalformedFrame
from coterie.protocol.sasl import Authentication, Stage
from coterie.wire.api import ADVERTISED, KNOWN, ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import FrameReader, frame_of
from coterie.wire.headers import (
    FRONT_BYTES,
    read_client_id,
    read_front,
    write_response,
)
from coterie.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from coterie.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.wire.schema import Message


class _Reading(NamedTuple):
    """How requests of one key and version are read, and answered."""

    request: type[Message]
    flexible: bool
    tagged_response: bool


_READINGS: Final[dict[tuple[int, int], _Reading]] = {}
"""Those asked for so far; never more than are served."""


def _reading(key: int, version: int) -> _Reading:
    if key not in KNOWN:
        raise MalformedFrame(f"a request of unknown key {key}")
    api = api_of(ApiKey(key))
    if not _is_served(key, version):
        raise MalformedFrame(f"{api.key.title} v{version} is not served")
    flexible = version in api.request.FLEXIBLE
    tagged = flexible and key != ApiKey.API_VERSIONS  # G1-02
    made = _Reading(api.request, flexible, tagged)
    _READINGS[key, version] = made
    return made


def _is_served(key: int, version: int) -> bool:
    return version in api_of(ApiKey(key)).served


BARE: Final = -1
"""The version of a SaslAuthenticate that came, and is answered, as a bare token."""

Shortcut: TypeAlias = Callable[[bytes], bytes | None]
"""From a request's frame to its whole answer, or None to have it decoded."""


@dataclass(slots=True, eq=False)
class Request:
    """One decoded request, and the place in line of its answer."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body: Any
    tagged_response: bool
    frame: bytes | None = None
    """The encoded answer, while it waits for those before it; b"" for no answer."""
    raw: bytes | None = None
    """The request as it came, of those that a shortcut could have answered."""


class Connection:
    """The server's side of one connection. See the module's docstring.

    `failure` is set when the peer broke the protocol: nothing more is read, and the
    connection is to be closed once `data_to_send` has been sent.

    With `sasl` the peer has to say first who it is: until then one request is handed
    over at a time, and what came behind it is held (`is_holding`) until it is answered.

    `shortcut` may answer a request from its bytes alone: it is asked about frames that
    begin with one of `shortcut_fronts` and that nothing unanswered stands before.
    """

    __slots__ = (
        "_client",
        "_frame_bytes_max",
        "_frames",
        "_held",
        "_line",
        "_out",
        "_sasl",
        "_shortcut",
        "_shortcut_fronts",
        "failure",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        *,
        shortcut: Shortcut | None = None,
        shortcut_fronts: tuple[bytes, ...] = (),
        sasl: Authentication | None = None,
    ) -> None:
        self.failure: MalformedFrame | None = None
        self._frames = FrameReader(frame_bytes_max)
        self._frame_bytes_max = frame_bytes_max
        self._sasl = sasl
        self._held: deque[bytes] = deque()
        self._line: deque[Request] = deque()
        self._out: list[bytes] = []
        self._client = (b"\xff\xff", "")
        self._shortcut = shortcut
        self._shortcut_fronts = shortcut_fronts

    @property
    def in_flight(self) -> int:
        """How many requests have been read and not been answered."""
        return len(self._line)

    @property
    def is_stuck(self) -> bool:
        """Whether what came is held until an answer is given, and more would be."""
        return bool(self._held) and not self.is_holding

    @property
    def is_holding(self) -> bool:
        """Whether `receive_data(b"")` would read more now."""
        if not self._held or self.failure is not None:
            return False
        assert self._sasl is not None
        return self._sasl.is_open or not self._line

    def receive_data(self, data: bytes) -> list[Request]:
        """Take bytes from the peer; the requests that are now whole, in order."""
        if self.failure is not None:
            return []
        requests: list[Request] = []
        try:
            if self._sasl is not None:
                self._receive_guarded(data, self._sasl, requests)
            else:
                for frame in self._frames.feed(data):
                    request = self._read_or_answer(frame)
                    if request is not None:
                        requests.append(request)
        except MalformedFrame as error:
            self.failure = error
        else:
            self.failure = self._frames.failure
        return requests

    def answer(self, request: Request, response: Message | None) -> None:
        """Give the answer to a request, once; None when the protocol has none (G1-06).

        An answer that does not encode is a bug of ours and raises what it raises.
        """
        assert request.frame is None, "answered twice"
        if response is None:
            request.frame = b""
        elif request.api_version == BARE:
            request.frame = _bare(response)
        else:
            request.frame = write_response(
                request.correlation_id,
                encode(response, request.api_version),
                tagged=request.tagged_response,
            )
        line = self._line
        while line and line[0].frame is not None:
            self._out.append(line.popleft().frame or b"")

    def data_to_send(self) -> bytes:
        """Hand over what is to be written to the peer, and forget it."""
        if not self._out:
            return b""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return data

    def _receive_guarded(
        self, data: bytes, sasl: Authentication, requests: list[Request]
    ) -> None:
        """As `receive_data`, of a peer that has to say who it is."""
        held, frames = self._held, self._frames
        frames.frame_bytes_max = (
            self._frame_bytes_max if sasl.is_open else sasl.frame_bytes_max
        )
        held.extend(frames.feed(data))
        while held and (sasl.is_open or not self._line):
            frame = held.popleft()
            request = self._read_guarded(frame, sasl)
            if request is not None:
                requests.append(request)
                if request.api_key == ApiKey.SASL_HANDSHAKE:
                    break  # how to read what is behind it, its answer decides

    def _read_guarded(self, frame: bytes, sasl: Authentication) -> Request | None:
        if sasl.is_open:
            return self._read_or_answer(frame)
        if sasl.stage is not Stage.BARE_TOKENS:
            sasl.admit(read_front(frame)[0])
            return self._read(frame)
        body = SaslAuthenticateRequest(auth_bytes=frame)
        request = Request(ApiKey.SASL_AUTHENTICATE, BARE, 0, "", body, False)
        self._line.append(request)
        return request

    def _read_or_answer(self, frame: bytes) -> Request | None:
        shortcut = self._shortcut
        if shortcut is None or not frame.startswith(self._shortcut_fronts):
            return self._read(frame)
        answer = None if self._line else shortcut(frame)
        if answer is not None:
            self._out.append(answer)
            return None
        request = self._read(frame)
        if request is not None:
            request.raw = frame
        return request

    def _read(self, frame: bytes) -> Request | None:
        key, version, correlation_id = read_front(frame)
        reading = _READINGS.get((key, version))
        if reading is None:
            if key == ApiKey.API_VERSIONS and not _is_served(key, version):
                self._refuse_api_versions(correlation_id)
                return None
            reading = _reading(key, version)
        client_id, at = self._client_id(frame, flexible=reading.flexible)
        body, _ = decode(reading.request, version, frame, at)
        tagged = reading.tagged_response
        request = Request(key, version, correlation_id, client_id, body, tagged)
        self._line.append(request)
        return request

    def _client_id(self, frame: bytes, *, flexible: bool) -> tuple[str, int]:
        """The client id, read once a connection: each request repeats the same."""
        raw, client_id = self._client
        if frame.startswith(raw, FRONT_BYTES):
            at = FRONT_BYTES + len(raw)
            if not flexible:
                return client_id, at
            if at < len(frame) and frame[at] == 0:
                return client_id, at + 1
        client_id, at = read_client_id(frame, flexible=flexible)
        _, end = read_client_id(frame, flexible=False)
        self._client = (frame[FRONT_BYTES:end], client_id)
        return client_id, at

    def _refuse_api_versions(self, correlation_id: int) -> None:
        """Answer an ApiVersions of a version from the future so that the client can
        ask again lower: the v0 form, whatever it spoke (G1-03)."""
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
        self._line.append(request)
        self.answer(request, refusal)


def _bare(response: Message) -> bytes:
    """A token as a frame of its own. A refusal has no such form: the connection is
    closed without a word."""
    assert isinstance(response, SaslAuthenticateResponse)
    if response.error_code:
        return b""
    return frame_of(response.auth_bytes)
