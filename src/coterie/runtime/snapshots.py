"""A shard's live records beside its log, so that a restart replays only the tail.

A snapshot is a set of values kept with `Log.put`, in the form of
`coordinator.snapshot`:

- space "snapshot/<shard>", key "": the log offset to replay from, and the open
  transactions as of there,
- space "snapshot/<shard>/groups": for each group whether it has offsets, and its
  metadata,
- space "snapshot/<shard>/offsets": for each group that has any, its offsets; read when
  the group's offsets are first looked at.

It is fuzzy: groups are written one after the other while the shard goes on, and a group
may be newer than the offset to replay from. That is sound, because each group's
metadata says up to where in the log it goes, and each commit where it stood. And it
never holds what is not durable: it is staged after the records it is made of, so that
if their flush fails it is gone with them.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from coterie.coordinator.offsets.store import GroupOffsets
from coterie.coordinator.snapshot import (
    entries,
    read_offsets,
    take_group,
    take_transactions,
)
from coterie.coordinator.state import State
from coterie.log.log import Log
from coterie.runtime.shards import Coordinator, DrivenShard
from coterie.types import GroupId, LogOffset

_OFFSET: Final = struct.Struct(">q")
_INDEX_KEY: Final = b""
_HAS_OFFSETS: Final = b"\1"
_HAS_NONE: Final = b"\0"


class Snapshots:
    """The snapshots of all shards in one log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    # Writing.

    def write(self, driven: DrivenShard, changed: Collection[GroupId]) -> Iterator[int]:
        """Stage a snapshot as of now, of the groups that have changed since the last; a
        step a group, each yielding the bytes it staged.

        The last step stages the offset to replay from. Once everything is durable, a
        restart begins there. Stops early when the shard is no longer this one.
        """
        replay_from = self._log.bounds(driven.where).next_offset
        transactions = take_transactions(driven.shard.state)
        index = _OFFSET.pack(replay_from) + transactions
        return self._write(driven, sorted(changed), index)

    def _write(
        self, driven: DrivenShard, changed: Iterable[GroupId], index: bytes
    ) -> Iterator[int]:
        shard = driven.shard
        for group_id in changed:
            if driven.shard is not shard:
                return
            as_of = self._log.bounds(driven.where).next_offset
            yield self._put_group(driven.index, shard.state, group_id, as_of)
        if driven.shard is shard:
            self._log.put(_space(driven.index), _INDEX_KEY, index)
            yield len(index)

    def _put_group(
        self, index: int, state: State, group_id: GroupId, as_of: LogOffset
    ) -> int:
        key = _key(group_id)
        groups, stored = _group_space(index), _offset_space(index)
        kept = take_group(state, group_id, as_of)
        if kept is None:
            self._log.put(groups, key, None)
            self._log.put(stored, key, None)
            return len(key)
        head = (_HAS_OFFSETS if kept.offsets else _HAS_NONE) + kept.metadata
        self._log.put(groups, key, head)
        self._log.put(stored, key, kept.offsets or None)
        return len(head) + len(kept.offsets)

    # Reading.

    def replay_from(self, index: int) -> LogOffset | None:
        """The offset from which a restart replays a shard's log, if it has a snapshot:
        tombstones from there on must stay in the log."""
        found = self._log.get(_space(index), _INDEX_KEY)
        return None if found is None else int(_OFFSET.unpack_from(found)[0])

    def read(self, index: int, shard: Coordinator) -> Iterator[LogOffset]:
        """Fill an empty shard; a step a group, each yielding the offset of the first
        record that the snapshot may lack; 0 without one. Raises LogCorrupt."""
        found = self._log.get(_space(index), _INDEX_KEY)
        if found is None:
            yield 0
            return
        (replay_from,) = _OFFSET.unpack_from(found)
        for key, value in self._log.items(_group_space(index)):
            as_of: LogOffset = 0
            for record, origin in entries(value[1:]):
                shard.replay(record, origin)
                as_of = max(as_of, origin.log_offset)  # once, it was not told: -1
            shard.knows_until(_group_id(key), as_of)
            if value[:1] == _HAS_OFFSETS:
                self._adopt(index, shard.state, key)
            yield replay_from
        for record, origin in entries(found[_OFFSET.size :]):
            shard.replay(record, origin)
        shard.changed.clear()
        yield replay_from

    def _adopt(self, index: int, state: State, key: bytes) -> None:
        log = self._log

        def load() -> GroupOffsets:
            return read_offsets(log.get(_offset_space(index), key) or b"")

        group_id = _group_id(key)
        state.ensure_group(group_id)
        state.offsets.stored.adopt(group_id, load)


def _key(group_id: GroupId) -> bytes:
    return group_id.encode("utf-8", "surrogatepass")


def _group_id(key: bytes) -> GroupId:
    return key.decode("utf-8", "surrogatepass")


def _space(index: int) -> str:
    return f"snapshot/{index}"


def _group_space(index: int) -> str:
    return f"snapshot/{index}/groups"


def _offset_space(index: int) -> str:
    return f"snapshot/{index}/offsets"
