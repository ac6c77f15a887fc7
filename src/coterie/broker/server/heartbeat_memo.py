"""Respond to repeated heartbeats with the stored bytes of the first response.

A member of a stable group repeats the same heartbeat, except for the correlation id,
and gets the same response. After one such heartbeat was handled in full, repetitions
are not decoded, handled and encoded again: they only renew the session.

A stored response is valid while the runtime can renew the session (`Renew`), and no
ACL, quota or group configuration has changed. It belongs to one connection, so its
principal and its node are fixed. tests/broker/server/test_heartbeat_memo.py compares it
with full handling, request by request.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from coterie.broker.runtime.shards import Renew
from coterie.broker.server.broker import Node
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.framing import HEADER_V0_BYTES

_Request: TypeAlias = m.HeartbeatRequest | m.ConsumerGroupHeartbeatRequest

HEARTBEAT_FRONTS: Final = tuple(
    struct.pack(">h", key)
    for key in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
)
STORED_MAX: Final = 1_024
"""The largest number of stored heartbeats of one connection; the memo is then cleared.
"""
_CORRELATION_AT: Final = 4
_RESPONSE_HEAD_BYTES: Final = 8
_VERSION_AT: Final = 3
_THROTTLE_BYTES: Final = 4
_NO_ERROR: Final = bytes(2)


@dataclass(slots=True)
class _Stored:
    """The response to one heartbeat: `head`, the correlation id, `tail`.

    `front` is the start of the request: its API key and version.
    """

    renew: Renew
    acls_version: int
    configs_version: int
    quotas_version: int
    front: bytes
    head: bytes
    tail: bytes


class HeartbeatMemo:
    """The stored responses of one connection."""

    def __init__(self, node: Node) -> None:
        broker = node.broker
        self._runtime = broker.runtime
        self._authorizer = broker.authorizer
        self._configs = broker.catalog.group_configs
        self._quotas = broker.catalog.client_quotas
        self._clock = broker.data.clock
        self._counts = broker.counts.heartbeats
        self._stored: dict[bytes, _Stored] = {}

    def respond(self, frame: bytes) -> bytes | None:
        """Renew the session of a repeated heartbeat and return the whole response; None
        when the heartbeat has to be handled in full.
        """
        stored = self._stored.get(frame[HEADER_V0_BYTES:])
        if (
            stored is None
            or not frame.startswith(stored.front)
            or self._authorizer.version != stored.acls_version
            or self._configs.version != stored.configs_version
            or self._quotas.version != stored.quotas_version
            or not stored.renew(self._clock())
        ):
            return None
        self._counts[stored.front] += 1
        return stored.head + frame[_CORRELATION_AT:HEADER_V0_BYTES] + stored.tail

    def store(self, frame: bytes, request: _Request, response: bytes) -> None:
        """Store the response to a heartbeat if a repetition would get the same
        response.
        """
        if not _is_success(frame, request, response):
            return  # a refused heartbeat does not renew the session
        renew = self._runtime.session_renewal(request)
        if renew is None:
            return
        if len(self._stored) >= STORED_MAX:
            self._stored.clear()
        self._stored[frame[HEADER_V0_BYTES:]] = _Stored(
            renew,
            self._authorizer.version,
            self._configs.version,
            self._quotas.version,
            front=frame[:_CORRELATION_AT],
            head=response[:_CORRELATION_AT],
            tail=response[_RESPONSE_HEAD_BYTES:],
        )


def _is_success(frame: bytes, request: _Request, response: bytes) -> bool:
    """Return whether a response has no error.

    The error code follows the header and, except in version 0 of Heartbeat, a throttle
    time.
    """
    version = frame[_VERSION_AT]
    at = _RESPONSE_HEAD_BYTES + (version in request.FLEXIBLE)
    if version or isinstance(request, m.ConsumerGroupHeartbeatRequest):
        at += _THROTTLE_BYTES
    return response[at : at + len(_NO_ERROR)] == _NO_ERROR
