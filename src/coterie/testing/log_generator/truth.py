"""The ground truth of a generated log: its events, recorded when they happen.

Files of JSON lines in `truth/`. Times are ms since 1970; null means none. A topic is
given by name and id (hex), because a deleted topic's name may be used again with another
id.

| file | a line is | fields |
|---|---|---|
| groups | a group | group_id, log_partition, scenario |
| topics | a topic from creation to deletion | topic, topic_id, partitions, created_ms, deleted_ms |
| sessions | a member from joining to its end | group_id, member_id, instance_id, client_id, client_host, protocol, joined_ms, left_ms, end: left, crashed, replaced (a static member rejoined), open |
| ownership | a partition's assignment to one member | group_id, topic, topic_id, partition, member_id, from_ms, to_ms, end: revoked (by a rebalance), left, crashed, replaced, topic_deleted, open |
| rebalances | the rebalances of one cause | group_id, protocol, cause: join, leave, crash, static_restart, subscription_change, metadata_change; member_id, epoch_before, epoch_after, start_ms, end_ms, members_before, members_after, moves, storm |
| commits | a committed offset | group_id, topic, topic_id, partition, offset, commit_ms, log_partition, log_offset, actor: owner, admin, simple; member_id, producer_id, outcome: plain, committed, aborted, open; reset: rewind, skip |
| deletions | a tombstone of an offset, or of a group (topic null) | group_id, topic, partition, at_ms, log_partition, log_offset, cause: expired, offsets_deleted, group_deleted, topic_deleted |
| ends | a sample of a topic's partition | topic, topic_id, partition, at_ms, log_start_offset, end_offset |
| current_offsets | the committed offsets at the end | group_id, topic, partition, offset, log_offset |

Ownership begins with the response that assigns a partition and ends when the member has
acknowledged its revocation, or has left. The pause of an eager rebalance does not end
it: a partition that is assigned to the same member again was owned throughout. `epoch`
is the generation of a classic group. `moves` counts partitions that had an owner before
and have another one after.
"""  # noqa: E501 - a table

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

FILES: Final = (
    "groups",
    "topics",
    "sessions",
    "ownership",
    "rebalances",
    "commits",
    "deletions",
    "ends",
    "current_offsets",
)

_encode: Final = msgspec.json.Encoder().encode
OffsetKey = tuple[str, str, int]
"""Group, topic, partition."""


class PartitionRef(NamedTuple):
    """A partition of a topic, by topic name and id."""

    topic: str
    topic_id: str
    partition: int


class CommittedOffset(NamedTuple):
    """A committed offset, or an offset in an open transaction."""

    offset: int
    log_offset: int


class Truth:
    """The writer of the truth files, with the sessions, ownership intervals and
    transactions that have not ended.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._stack.enter_context((folder / f"{name}.jsonl").open("wb"))
            for name in FILES
        }
        self.counts = dict.fromkeys(FILES, 0)
        self._sessions: dict[tuple[str, str], dict[str, Any]] = {}
        self._ownership: dict[str, dict[PartitionRef, dict[str, Any]]] = {}
        self._pending: dict[int, dict[OffsetKey, CommittedOffset]] = {}
        self.current: dict[OffsetKey, CommittedOffset] = {}

    def write(self, name: str, **fields: Any) -> None:
        self.counts[name] += 1
        self._files[name].write(_encode(fields) + b"\n")

    def start_session(self, group_id: str, member_id: str, **fields: Any) -> None:
        self._sessions[group_id, member_id] = {
            "group_id": group_id,
            "member_id": member_id,
            **fields,
        }

    def end_session(
        self, group_id: str, member_id: str, at_ms: int | None, end: str
    ) -> None:
        """Record the end of a member's session and of all its ownership intervals."""
        session = self._sessions.pop((group_id, member_id))
        self.write("sessions", **session, left_ms=at_ms, end=end)
        of_group = self._ownership.get(group_id, {})
        owned = [p for p, each in of_group.items() if each["member_id"] == member_id]
        for partition in owned:
            self.end_ownership(group_id, partition, at_ms, end)

    def owners(self, group_id: str) -> dict[PartitionRef, str]:
        of_group = self._ownership.get(group_id, {})
        return {partition: each["member_id"] for partition, each in of_group.items()}

    def start_ownership(
        self, group_id: str, partition: PartitionRef, member_id: str, at_ms: int
    ) -> None:
        of_group = self._ownership.setdefault(group_id, {})
        assert partition not in of_group, (group_id, partition, of_group[partition])
        of_group[partition] = {
            "group_id": group_id,
            **partition._asdict(),
            "member_id": member_id,
            "from_ms": at_ms,
        }

    def end_ownership(
        self, group_id: str, partition: PartitionRef, at_ms: int | None, end: str
    ) -> None:
        ownership = self._ownership[group_id].pop(partition)
        self.write("ownership", **ownership, to_ms=at_ms, end=end)

    def commit_offset(
        self, key: OffsetKey, value: CommittedOffset, producer_id: int | None
    ) -> None:
        """Record a committed offset; with a producer it is pending until the end of
        that producer's transaction."""
        if producer_id is None:
            self.current[key] = value
        else:
            self._pending.setdefault(producer_id, {})[key] = value

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply or drop a transaction's pending offsets. The offset that is later in
        the log wins."""
        for key, value in self._pending.pop(producer_id, {}).items():
            present = self.current.get(key)
            if commit and (present is None or present.log_offset < value.log_offset):
                self.current[key] = value

    def delete_offset(self, key: OffsetKey) -> None:
        """Apply a tombstone to the current offset and to pending transactional
        offsets.
        """
        self.current.pop(key, None)
        for offsets in self._pending.values():
            offsets.pop(key, None)

    def close(self) -> None:
        """Write open sessions and ownership, and the current offsets."""
        for group_id, member_id in list(self._sessions):
            self.end_session(group_id, member_id, None, "open")
        assert not any(self._ownership.values()), "a partition without a session"
        for (group_id, topic, partition), value in sorted(self.current.items()):
            self.write(
                "current_offsets",
                group_id=group_id,
                topic=topic,
                partition=partition,
                **value._asdict(),
            )
        self._stack.close()
