"""Share sessions (KIP-932): the partitions that a member fetches from one node.

A request lists only what changes: partitions to add, with acknowledgements, and
partitions to forget. Sessions are in memory, one for each member and node. They are not
evicted: a member without a free session waits and tries again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.share_partition.state import ShareKey
from coterie.broker.runtime.share_partitions import SharePartitions
from coterie.errors import ApiError
from coterie.types import GroupId, MemberId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """A member at a node."""

    node_id: int
    group_id: GroupId
    member_id: MemberId


class PartitionId(NamedTuple):
    """A partition of a topic."""

    topic_id: TopicId
    partition: int


@dataclass(slots=True, eq=False)
class ShareSessionPartition:
    """A partition of a session. `topic` is the name that the topic had when it was
    added; with `is_due` the next response contains the partition in any case."""

    topic: TopicName | None
    is_due: bool = True


@dataclass(slots=True, eq=False)
class ShareSession:
    """The session of a member. `epoch` is that of the next request."""

    key: SessionKey
    connection: Any
    epoch: int = INITIAL_EPOCH + 1
    partitions: dict[PartitionId, ShareSessionPartition] = field(default_factory=dict)

    def move_to_end(self, partition: PartitionId) -> None:
        """Fetch a partition after the others, as it returned records."""
        entry = self.partitions.pop(partition, None)
        if entry is not None:
            self.partitions[partition] = entry


def next_epoch(epoch: int) -> int:
    """Return the epoch after a request's: 1 follows the greatest."""
    assert epoch >= 0
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class ShareSessions:
    """The sessions of a process: at most `sessions_max` for each of its nodes, with
    `partitions_max` partitions in all."""

    def __init__(
        self, shares: SharePartitions, sessions_max: int, partitions_max: int
    ) -> None:
        assert sessions_max > 0
        assert partitions_max >= 0
        self._shares = shares
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._partition_count = 0
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._counts: Counter[int] = Counter()
        self._by_connection: dict[object, SessionKey] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, key: SessionKey, connection: object) -> ShareSession:
        """Open a session in place of the member's earlier one, whose records stay
        locked.

        Raises ApiError SHARE_SESSION_LIMIT_REACHED.
        """
        self._remove(key)
        if self._counts[key.node_id] >= self._sessions_max:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        assert key.member_id
        session = self._sessions[key] = ShareSession(key, connection)
        self._counts[key.node_id] += 1
        self._by_connection[connection] = key
        return session

    def advance(self, key: SessionKey, epoch: int) -> ShareSession:
        """Return the session of a request with an epoch, and expect the next one. The
        final epoch matches any session.

        Raises ApiError SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = next_epoch(epoch)
        return session

    def update(
        self,
        session: ShareSession,
        added: Mapping[PartitionId, TopicName | None],
        forgotten: Iterable[PartitionId],
    ) -> None:
        """Add or update partitions of a session, and remove the forgotten ones.

        Raises ApiError SHARE_SESSION_LIMIT_REACHED.
        """
        partitions = session.partitions
        count = len(partitions)
        assert self._sessions.get(session.key) is session
        if self._partition_count + len(added.keys() - partitions) > (
            self._partitions_max
        ):
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        for partition, topic in added.items():
            known = partitions.get(partition)
            if known is None:
                partitions[partition] = ShareSessionPartition(topic)
            else:
                known.topic = topic
        for partition in forgotten:
            partitions.pop(partition, None)
        self._partition_count += len(partitions) - count
        assert self._partition_count >= len(partitions)

    def is_current(self, session: ShareSession, epoch: int) -> bool:
        """Return whether no other request of the session has followed that epoch."""
        return self._sessions.get(
            session.key
        ) is session and session.epoch == next_epoch(epoch)

    def close(self, session: ShareSession) -> None:
        """Close a session and release the records that the member has acquired."""
        if self._sessions.get(session.key) is session:
            self._remove(session.key)
            self._release(session)

    def disconnect(self, connection: object) -> None:
        """Close the session that was opened last on a connection, unless another
        connection has opened it again. The share partitions of a group without
        sessions are dropped."""
        key = self._by_connection.pop(connection, None)
        if key is None:
            return
        session = self._sessions.get(key)
        if session is not None and session.connection is connection:
            self.close(session)
        group_id = key.group_id
        if not any(other.group_id == group_id for other in self._sessions):
            self._shares.close_group(group_id)

    def _remove(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partition_count -= len(session.partitions)
            self._counts[key.node_id] -= 1
            assert self._partition_count >= 0
            assert self._counts[key.node_id] >= 0

    def _release(self, session: ShareSession) -> None:
        assert self._sessions.get(session.key) is not session
        _, group_id, member_id = session.key
        for partition in session.partitions:
            self._shares.release(ShareKey(group_id, *partition), member_id)
