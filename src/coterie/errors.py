"""Every exception Coterie raises, as one tree.

CoterieError
  MalformedFrame        a peer sent bytes that are not the protocol: it is cut off
  ApiError              the protocol's own "no": an error code in an answer
  SettingError          a setting is unknown or impossible: the server does not start
  LogError              the disk said no
    LogFull               no space is left
    LogCorrupt            what was read is not what was written
  ClientError           a client could not do what it was asked
    ConnectionLost        a broker could not be reached, or hung up
    RequestTimedOut       a broker did not answer in time
    AuthenticationFailed  a broker did not take us for who we are, or we not it
    UnsupportedByBroker   a broker does not speak what is needed
      NoBatchedFindCoordinatorsError   nor look up many coordinators at once
      NoBatchedOffsetFetchError        nor fetch the offsets of many groups at once
    CommitRefused         some offsets were not committed
  OperationRefused      what an operator asked for is not done, to be safe

A bug of ours is none of these: it is an AssertionError or whatever Python raises, and
it stops the shard it happened in (design: three failures, three mechanisms).
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode


class CoterieError(Exception):
    """The root of the tree; never raised itself."""


class MalformedFrame(CoterieError):
    """Bytes from a peer that do not decode; the message says what was wrong where."""


class ApiError(CoterieError):
    """A refusal the protocol defines.

    `code` goes into the answer; `message` too, where the answer has room for one.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message or self.code.name


class SettingError(CoterieError):
    """A setting that is unknown or cannot be; the message says what would be right."""


class LogError(CoterieError):
    """The log could not do what it was asked; nothing of that flush is durable."""


class LogFull(LogError):
    """The disk has no room."""


class LogCorrupt(LogError):
    """Bytes read back from the log fail their checksum or their order."""


class ClientError(CoterieError):
    """A client could not do what it was asked; the message says with whom and why."""


class ConnectionLost(ClientError):
    """A broker could not be reached, or the connection to it ended."""


class RequestTimedOut(ClientError):
    """A broker did not answer in time; whether it did what it was asked is unknown."""


class AuthenticationFailed(ClientError):
    """One side did not prove to the other who it is, by TLS or by SASL.

    The message has the broker's own words. The same credentials would fail again, so
    nothing tries again.
    """


class UnsupportedByBroker(ClientError):
    """A broker does not serve an API, or no version of it that is needed here."""


class NoBatchedFindCoordinatorsError(UnsupportedByBroker):
    """A broker looks up one coordinator a request: FindCoordinator before version 4
    (KIP-699, B-21). The admin client then asks for each by itself."""


class NoBatchedOffsetFetchError(UnsupportedByBroker):
    """A broker tells the offsets of one group a request: OffsetFetch before version 8
    (KIP-709, A-65). The admin client then asks for each group by itself."""


class CommitRefused(ClientError):
    """Some offsets were not committed; `refused` has the code of each partition."""

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
    """What an operator asked for would do harm or make no sense, so nothing of it was
    done; the message says why, and what to do instead."""
