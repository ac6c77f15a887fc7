"""The reason why a listener closes connections before it serves them.

A listener does not say which security protocol it requires: it closes a connection that
uses another one. A broker that stops does the same, so the client would retry. One more
connection shows the difference: a listener that answers it in another protocol requires
that protocol, and no retry would help.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from typing import Final

from coterie.client.options import ClientOptions
from coterie.errors import MalformedFrame
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import RequestHeaderV0, read_response, write_request
from coterie.wire.schema import Message

_LIMIT_S: Final = 3.0
"""The limit for the further connection and its response."""
_FRAME_BYTES_MAX: Final = 1 << 20
_CORRELATION_ID: Final = 7
_DEFAULT_MECHANISM: Final = "PLAIN"


async def security_mismatch(
    address: tuple[str, int], options: ClientOptions, *, was_negotiated: bool
) -> str | None:
    """Return why a listener at a host and port closed a connection, when it is because
    of its security protocol; None when that is not certain.

    `was_negotiated` tells whether the listener had responded to ApiVersions, which it
    does without authentication.
    """
    with contextlib.suppress(OSError, MalformedFrame):  # TimeoutError is an OSError
        async with asyncio.timeout(_LIMIT_S):
            if was_negotiated:
                if options.sasl is None:
                    return await _sasl_mismatch(address, options)
            elif options.ssl is None:
                if await _uses_tls(address):
                    return requires_tls(options)
            elif await _answers_in_plaintext(address, options):
                return without_tls(options)
    return None


def requires_tls(options: ClientOptions) -> str:
    """Return the reason that refuses a client without TLS on a listener with TLS."""
    protocol = _protocol(options)
    wanted = "SASL_SSL" if protocol.has_sasl else "SSL, or SASL_SSL with credentials"
    return (
        "requires TLS, which is not configured: security.protocol is "
        f"{protocol.value}; set it to {wanted}"
    )


def without_tls(options: ClientOptions) -> str:
    """Return the reason that refuses a client with TLS on a listener without TLS."""
    protocol = _protocol(options)
    wanted = "SASL_PLAINTEXT" if protocol.has_sasl else "PLAINTEXT"
    return (
        f"does not use TLS: security.protocol is {protocol.value}; use the "
        f"port of a listener with TLS, or set it to {wanted}"
    )


def without_sasl(options: ClientOptions) -> str:
    """Return the reason that refuses a client with SASL on a listener without SASL."""
    protocol = _protocol(options)
    wanted = "SSL" if protocol.has_tls else "PLAINTEXT"
    return (
        f"is a listener without SASL: security.protocol is {protocol.value}; "
        f"use another port, or set it to {wanted}"
    )


def _requires_sasl(options: ClientOptions, mechanisms: Sequence[str]) -> str:
    protocol = _protocol(options)
    wanted = "SASL_SSL" if protocol.has_tls else "SASL_PLAINTEXT"
    return (
        "requires SASL, which is not configured: security.protocol is "
        f"{protocol.value}; set it to {wanted}, with credentials, and sasl.mechanism "
        f"to one that it supports: {', '.join(mechanisms) or 'none'}"
    )


def _protocol(options: ClientOptions) -> SecurityProtocol:
    """Return the security protocol of a client's connections."""
    has_sasl, has_tls = options.sasl is not None, options.ssl is not None
    return next(
        each
        for each in SecurityProtocol
        if (each.has_sasl, each.has_tls) == (has_sasl, has_tls)
    )


async def _sasl_mismatch(
    address: tuple[str, int], options: ClientOptions
) -> str | None:
    # Most runs of the command line need not import this message.

    request = m.SaslHandshakeRequest(mechanism=_DEFAULT_MECHANISM)
    frame = await _exchange(address, options, request, 1, options.ssl)
    _, position = read_response(frame, tagged=False)
    response, _ = decode(m.SaslHandshakeResponse, 1, frame, position)
    if response.error_code not in {
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }:
        return None
    return _requires_sasl(options, response.mechanisms)


async def _uses_tls(address: tuple[str, int]) -> bool:
    """Return whether a listener takes part in a TLS handshake. Nothing is sent over the
    connection, so its certificate is not checked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(*address, ssl=context)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return False
    except ssl.SSLError as error:  # an alert, unless the response was another protocol
        return error.reason != "WRONG_VERSION_NUMBER"
    await _abort(writer)
    return True


async def _answers_in_plaintext(
    address: tuple[str, int], options: ClientOptions
) -> bool:
    """Return whether a listener responds to an ApiVersions request without TLS. The
    request has no credentials."""
    frame = await _exchange(address, options, m.ApiVersionsRequest(), 0, None)
    return read_response(frame, tagged=False)[0] == _CORRELATION_ID


async def _exchange(
    address: tuple[str, int],
    options: ClientOptions,
    request: Message,
    version: int,
    tls: ssl.SSLContext | None,
) -> bytes:
    """Send one request over a new connection and return the response's frame. Raises
    OSError and MalformedFrame."""
    reader, writer = await asyncio.open_connection(*address, ssl=tls)
    try:
        front = RequestHeaderV0(request.API_KEY, version, _CORRELATION_ID)
        body = encode(request, version)
        writer.write(write_request(front, options.client_id, body, flexible=False))
        size = int.from_bytes(await reader.readexactly(4), signed=True)
        if not 4 <= size <= _FRAME_BYTES_MAX:
            raise MalformedFrame(f"a frame of {size} bytes")
        return await reader.readexactly(size)
    except EOFError as error:
        raise ConnectionResetError(str(error)) from error
    finally:
        await _abort(writer)


async def _abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.sleep(0)  # transports close in the next iteration of the loop
