"""The exceptions of Coterie, as one tree.

CoterieError
  MalformedFrame        bytes from a peer cannot be decoded: the connection is closed
  ApiError              an error code of the protocol, to be sent in a response
  SettingError          a setting is unknown or invalid: the server does not start
  LogError              a write to the log failed, or its data directory is unusable
    LogFull               no space is left on the disk
    LogCorrupt            data read back differ from the data written
  ClientError           a client's request failed
    ConnectionLost        a broker is unreachable, or closed the connection
    RequestTimedOut       a broker did not respond in time
    AuthenticationFailed  authentication by TLS or SASL failed
    UnsupportedByBroker   a broker lacks an API, or the needed version of it
      NoBatchedFindCoordinatorsError   no FindCoordinator with several keys
      NoBatchedOffsetFetchError        no OffsetFetch with several groups
    CommitRefused         some offsets were not committed
  OperationRefused      an operation of the command line is unsafe or invalid

A bug of Coterie is none of these: it is an AssertionError or another exception of
Python, and it stops the coordinator shard in which it happened.
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode


class CoterieError(Exception):
    """The base class of Coterie's exceptions; never raised itself."""

    follows_lost_request: bool = False
    """Whether an earlier request of the same call had no response. What it asked for
    may have happened, whatever this error says."""


class MalformedFrame(CoterieError):
    """Bytes from a peer that cannot be decoded; the message has the position and
    reason.
    """


class ApiError(CoterieError):
    """An error that the protocol defines.

    `code` is sent in the response; `message` too, if the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message or self.code.name


def code_of(error: object) -> ErrorCode | None:
    """Return the code of an `ApiError`; None for another error, a result or None."""
    return error.code if isinstance(error, ApiError) else None


class SettingError(CoterieError):
    """An unknown setting or an invalid value; the message has the valid values."""


class OutputError(CoterieError):
    """A result or file that could not be written, as when the disk is full."""


class LogError(CoterieError):
    """A failure of the log; nothing of the flush in which it happened is durable."""


class LogFull(LogError):
    """No space left on the disk."""


class LogCorrupt(LogError):
    """Data in the log with a wrong checksum or order, or that cannot be decoded."""


class ClientError(CoterieError):
    """A failed request of a client; the message names the broker and the reason."""


class ConnectionLost(ClientError):
    """A broker that could not be reached, or a connection that ended."""


class RequestTimedOut(ClientError):
    """A request without a response in time; whether it took effect is unknown."""


class AuthenticationFailed(ClientError):
    """A failed authentication, of the client or of the broker, by TLS or SASL.

    The message includes the broker's. It is not retried: the same credentials would
    fail again.
    """


class UnsupportedByBroker(ClientError):
    """An API, or a version of it, that a broker does not serve."""


class NoBatchedFindCoordinatorsError(UnsupportedByBroker):
    """A FindCoordinator request with several keys to a broker that accepts one key per
    request: below version 4 (KIP-699, B-21).

    The admin client then sends one request for each key.
    """


class NoBatchedOffsetFetchError(UnsupportedByBroker):
    """An OffsetFetch request with several groups to a broker that accepts one group per
    request: below version 8 (KIP-709, A-65).

    The admin client then sends one request for each group.
    """


class CommitRefused(ClientError):
    """A commit that failed for some partitions; `refused` maps them to error codes."""

    def __init__(self, refused: Mapping[TopicPartition, ErrorCode]) -> None:
        super().__init__(refused)
        self.refused = dict(refused)

    def __str__(self) -> str:
        each = (
            f"{partition.topic}-{partition.partition}: {code.name}"
            for partition, code in sorted(self.refused.items())
        )
        return f"offsets were not committed: {', '.join(each)}"


class OperationRefused(CoterieError):
    """An operation that is unsafe or invalid and was not begun.

    The message has the reason and the alternative.
    """


class UnsupportedGroupType(OperationRefused):
    """An operation that does not exist for groups of a type, such as share groups, or
    that the broker is too old for. A call about every group leaves such groups out."""
