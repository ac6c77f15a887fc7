"""The errors of connections that cannot be opened, with their probable reasons."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Final

from coterie.client.options import ClientOptions
from coterie.client.security_probe import security_mismatch, without_tls
from coterie.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
)

_REFUSED: Final = (f"[Errno {errno.ECONNREFUSED}]", "[WinError 1225]")
_PROTOCOLS: Final = ((b"HTTP/", "HTTP"), (b"<", "HTTP or XML"), (b"SSH-", "SSH"))
"""The first bytes that servers of other protocols send, and the protocols."""


def _reason(error: Exception) -> str:
    """Return the reason of a failed connection; errors of asyncio often have no
    message.
    """
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    # asyncio joins the errors of several addresses into one OSError without errno.
    if any(number in str(error) for number in _REFUSED):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return str(error) or "timed out"


async def open_failure(
    address: tuple[str, int], options: ClientOptions, error: Exception
) -> ClientError:
    """Return the error of a connection that could not be opened."""
    closed = (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
    if options.ssl and isinstance(error, closed):
        mismatch = await security_mismatch(address, options, was_negotiated=False)
        if mismatch is not None:
            return AuthenticationFailed(f"{address} {mismatch}")
    if isinstance(error, ssl.SSLError):
        if error.reason == "WRONG_VERSION_NUMBER":
            return AuthenticationFailed(f"{address} {without_tls(options)}")
        return tls_failure(address, error)
    reason = _reason(error)
    if options.ssl and isinstance(error, TimeoutError | ConnectionResetError):
        reason += " (does the listener use TLS?)"
    return ConnectionLost(f"{address} cannot be reached: {reason}")


def tls_failure(address: tuple[str, int], error: ssl.SSLError) -> ClientError:
    """Return the error of a failed TLS handshake: retriable when the broker closed the
    connection, final when a certificate was rejected."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ConnectionLost(
            f"{address} closed the connection during the TLS handshake: does the "
            "listener use TLS?"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message
        return AuthenticationFailed(f"{address}: its certificate is not trusted: {why}")
    why = (error.reason or str(error)).replace("_", " ").lower()
    return AuthenticationFailed(f"{address}: no TLS connection: {why}")


def frame_failure(
    address: tuple[str, int], failure: MalformedFrame, first: bytes
) -> MalformedFrame:
    """Return the error of bytes that are no frame. `first` are the first bytes of the
    connection, empty after a response: they tell the protocol of another server."""
    if not first:
        return MalformedFrame(f"from {address}: {failure}")
    protocol = next((name for start, name in _PROTOCOLS if first.startswith(start)), "")
    speaks = f"speaks {protocol}" if protocol else f"sent {first[:16]!r}"
    return MalformedFrame(
        f"{address} is not a Kafka listener: it {speaks}; check host and port"
    )


def error_of_others(error: CoterieError) -> CoterieError:
    """Return the error of requests that did not cause the failure."""
    if isinstance(error, RequestTimedOut):
        return ConnectionLost(f"the connection was closed: {error}")
    return error
