"""Respond to an OffsetFetch request from its bytes, in the common cases.

The response is joined from packed offsets without decoding the request
(fetch_bytes.py), and is stored: tools that watch a group repeat the same request,
except for the correlation id. A stored response is valid until one of its groups or
their offsets, the ACLs or the topics change. The connections of a process share the
stored responses, which have a limited size.

No response has offsets that are not durable: while a shard has writes in progress,
`respond` returns None, and the handler of the request sends the response when they are
done (`WaitingFetch`). In all less common cases, too, `respond` returns None, and the
request is decoded and handled in full.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.auth.acl import ANONYMOUS, Operation, RequestContext, ResourceType
from coterie.broker.coordinator.offsets.fetch_bytes import (
    GROUPS_SINCE,
    Fetched,
    Source,
    fetch_bytes,
)
from coterie.broker.coordinator.offsets.store import Offsets
from coterie.broker.coordinator.state import State
from coterie.broker.runtime.shards import DrivenShard
from coterie.broker.server.broker import Node
from coterie.broker.server.call import Call, Peer
from coterie.errors import LogError
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode
from coterie.wire.framing import CLIENT_ID_AT, HEADER_V0_BYTES, SIZE_BYTES, frame_of

STORED_BYTES_MAX: Final = 16_777_216
"""The size of the stored responses and their requests; all are then dropped."""
RESPONSE_BYTES_MAX: Final = 65_536
"""The size of the largest response that is stored."""
_OVERHEAD_BYTES: Final = 1_000
"""An estimate of what an entry takes beside its request and response."""
_VERSIONS: Final = {
    struct.pack(">hh", ApiKey.OFFSET_FETCH, version): version
    for version in range(GROUPS_SINCE, api_of(ApiKey.OFFSET_FETCH).served.high + 1)
}
"""The versions by the start of a request, its API key and version."""
_CORRELATION_AT: Final = 4
_CLIENT_ID_SIZE: Final = struct.Struct(">h")

_Read: TypeAlias = tuple[DrivenShard, int, Offsets, GroupId, object]
"""A group that was read: its shard and the shard's version, the shard's offsets, the
group and the mark of its offsets."""


class _StoredFetch(NamedTuple):
    """The response to one request: `size`, the correlation id, `tail`."""

    front: bytes
    node: Node
    context: RequestContext
    acls_version: int
    topics_version: int
    reads: list[_Read]
    requires_stable: bool
    size: bytes
    tail: bytes


class StoredFetches:
    """The stored responses of a process, by the request after its correlation id."""

    __slots__ = ("_bytes", "by_request")

    def __init__(self) -> None:
        self.by_request: dict[bytes, _StoredFetch] = {}
        self._bytes = 0

    def put(self, request: bytes, stored: _StoredFetch) -> None:
        """Store a response in place of an older one."""
        older = self.by_request.get(request)
        if older is None:
            self._bytes += _OVERHEAD_BYTES + len(request) + len(stored.tail)
        else:
            self._bytes += len(stored.tail) - len(older.tail)
        if self._bytes > STORED_BYTES_MAX:
            self.by_request.clear()
            self._bytes = _OVERHEAD_BYTES + len(request) + len(stored.tail)
        self.by_request[request] = stored


class WaitingFetch:
    """A request whose response waits for writes of the shards it was read from."""

    __slots__ = ("_at", "_fetched", "_reads", "_version", "_written", "frame")

    def __init__(
        self,
        frame: bytes,
        at: int,
        version: int,
        tail: bytes,
        reads: list[_Read],
        written: tuple[DrivenShard, int],
    ) -> None:
        assert reads, "a response without groups waits for nothing"
        self.frame = frame
        self._at = at
        self._version = version
        body = tail[1:]  # without the tags of the header
        self._fetched = Fetched(body, [group_id for _, _, _, group_id, _ in reads])
        self._reads = reads
        self._written = written

    def respond(self, call: Call) -> bool:
        """Respond once the writes are durable; return False if the general path has to
        handle the request, as a shard has changed."""
        broker = call.node.broker
        if broker.catalog.client_quotas.has_client_quotas or any(
            driven.version != version for driven, version, *_ in self._reads
        ):
            return False
        runtime = broker.runtime
        driven, sequence = self._written
        runtime.respond_when_written(
            driven, sequence, self._fetched, call, call.respond
        )
        return True

    def general(self) -> m.OffsetFetchRequest:
        """Return the decoded request."""
        return decode(m.OffsetFetchRequest, self._version, self.frame, self._at)[0]


class OffsetFetchPath:
    """The path of one connection's requests."""

    __slots__ = (
        "_broker",
        "_context",
        "_node",
        "_peer",
        "_quotas",
        "_reads",
        "_stored",
        "_waiting",
        "_writing",
    )

    def __init__(self, node: Node, peer: Peer, stored: StoredFetches) -> None:
        broker = node.broker
        self._node = node
        self._broker = broker
        self._peer = peer
        self._stored = stored
        self._quotas = broker.catalog.client_quotas
        self._context = RequestContext(ANONYMOUS, "")
        self._reads: list[_Read] = []
        self._writing: list[DrivenShard] = []
        self._waiting: WaitingFetch | None = None

    def respond(self, frame: bytes) -> bytes | None:
        """Return the whole response to a request; None when it has to be handled in
        full."""
        if self._quotas.has_client_quotas:
            return None
        request = frame[HEADER_V0_BYTES:]
        stored = self._stored.by_request.get(request)
        if stored is None or not self._is_valid(stored, frame):
            return self._join(frame, request)
        self._broker.counts.requests[ApiKey.OFFSET_FETCH, _VERSIONS[stored.front]] += 1
        return stored.size + frame[_CORRELATION_AT:HEADER_V0_BYTES] + stored.tail

    def take_waiting(self, frame: bytes) -> WaitingFetch | None:
        """Return and forget the request whose response was made but has to wait."""
        waiting, self._waiting = self._waiting, None
        return waiting if waiting is not None and waiting.frame == frame else None

    def _is_valid(self, stored: _StoredFetch, frame: bytes) -> bool:
        front, node, context, acls_version, topics_version, reads, is_stable, *_ = (
            stored
        )
        broker = self._broker
        lease = broker.runtime.lease
        if (
            not frame.startswith(front)
            or node is not self._node
            or context != self._client()
            or acls_version != broker.authorizer.version
            or topics_version != broker.catalog.version
            or (lease is not None and not lease())
        ):
            return False
        for driven, version, offsets, group_id, mark in reads:
            if (
                driven.version != version
                or offsets.stored.marks.get(group_id) is not mark
                or (is_stable and offsets.pending.has_group(group_id))
            ):
                return False
        return True

    def _client(self) -> RequestContext:
        """Return the client, whose principal is known once it is authenticated."""
        context, peer = self._context, self._peer
        if context.principal is not peer.principal or not context.host:
            host = peer.client_host.removeprefix("/")
            context = self._context = RequestContext(peer.principal, host)
        return context

    def _join(self, frame: bytes, request: bytes) -> bytes | None:
        """Return the response from the current offsets, and store it for `request`, the
        frame after its correlation id."""
        front = frame[:_CORRELATION_AT]
        version = _VERSIONS.get(front)
        if version is None:
            return None
        if len(frame) > self._broker.settings.socket_request_max_elements:
            return None  # it could have too many elements
        at = _body_at(frame)
        if at is None:
            return None
        reads: list[_Read] = []
        writing: list[DrivenShard] = []
        self._reads, self._writing = reads, writing
        topics = self._broker.catalog
        may_describe = partial(
            self._broker.authorizer.authorize,
            self._client(),
            Operation.DESCRIBE,
            ResourceType.TOPIC,
        )
        source = Source(self._state_of, may_describe, topics)
        try:
            tail = fetch_bytes(frame, at, version, source)
        except LogError:
            return None  # the full handling meets it again, and logs it
        if tail is None:
            return None
        if writing:
            if len({driven.flusher for driven in writing}) > 1:
                return None  # the full handling waits for each
            last = max(writing, key=_written_sequence)
            written = last, last.written_sequence
            self._waiting = WaitingFetch(frame, at, version, tail, reads, written)
            return None
        self._broker.counts.requests[ApiKey.OFFSET_FETCH, version] += 1
        response = frame_of(frame[_CORRELATION_AT:HEADER_V0_BYTES] + tail)
        if len(response) <= RESPONSE_BYTES_MAX:
            stored = _StoredFetch(
                front,
                self._node,
                self._context,
                self._broker.authorizer.version,
                topics.version,
                reads,
                requires_stable=frame[-2] != 0,
                size=response[:SIZE_BYTES],
                tail=tail,
            )
            self._stored.put(request, stored)
        return response

    def _state_of(self, group_id: GroupId) -> State | None:
        """Return the state with a group; None unless the client may read it now."""
        broker = self._broker
        index = broker.runtime.shard_of(group_id)
        is_allowed = broker.authorizer.authorize(
            self._context, Operation.DESCRIBE, ResourceType.GROUP, group_id
        )
        if not is_allowed or broker.shard_node(index) is not self._node:
            return None  # the full handling counts the refusal
        driven = broker.runtime.readable_shard(index)
        if driven is None:
            return None
        if driven.written_sequence > driven.flusher.durable_sequence:
            self._writing.append(driven)
        state = driven.shard.state
        if broker.admit is not None and state.group(group_id) is None:
            return None  # the full handling admits it
        offsets = state.offsets
        mark = offsets.stored.mark(group_id)
        self._reads.append((driven, driven.version, offsets, group_id, mark))
        return state


def _written_sequence(driven: DrivenShard) -> int:
    return driven.written_sequence


def _body_at(frame: bytes) -> int | None:
    """Return the position of the body, after a header without tags; None for others."""
    try:
        (size,) = _CLIENT_ID_SIZE.unpack_from(frame, HEADER_V0_BYTES)
        at = CLIENT_ID_AT + max(size, 0)
        frame[CLIENT_ID_AT:at].decode()
        return at + 1 if size >= -1 and frame[at] == 0 else None
    except (IndexError, UnicodeDecodeError, struct.error):
        return None
