"""The ground truth of a generated log: what happened, written down by who did it.

Files of JSON lines in `truth/`. Times in ms since 1970; nobody, never: null. A topic is
given by name and id (hex), as a name may come back with another id.

| file | a line is | fields |
|---|---|---|
| groups | a group | group_id, log_partition, scenario |
| topics | one life of a topic | topic, topic_id, partitions, created_ms, deleted_ms |
| sessions | a member, from joining to its end | group_id, member_id, instance_id, client_id, client_host, protocol, joined_ms, left_ms, end: left, crashed, replaced (a static member came back), open |
| ownership | a member's time with a partition | group_id, topic, topic_id, partition, member_id, from_ms, to_ms, end: revoked (by a rebalance), left, crashed, replaced, topic_deleted, open |
| rebalances | what one cause did | group_id, protocol, cause: join, leave, crash, static_restart, subscription_change, metadata_change; member_id, epoch_before, epoch_after, start_ms, end_ms, members_before, members_after, moves, storm |
| commits | a committed offset | group_id, topic, topic_id, partition, offset, commit_ms, log_partition, log_offset, actor: owner, admin, simple; member_id, producer_id, outcome: plain, committed, aborted, open; reset: rewind, skip |
| deletions | a tombstone of an offset, or of a group (topic null) | group_id, topic, partition, at_ms, log_partition, log_offset, cause: expired, offsets_deleted, group_deleted, topic_deleted |
| ends | a sample of a topic's partition | topic, topic_id, partition, at_ms, log_start_offset, end_offset |
| current_offsets | what holds in the end | group_id, topic, partition, offset, log_offset |

Ownership is what the coordinator says and the member knows: it begins with the answer
that gives a partition and ends when the member has said that it gave it up, or is gone.
The pause of an eager rebalance is no end; a partition that comes back to its member was
never away. `epoch` is the generation of a classic group. `moves` counts partitions
that had an owner before and have another one after.
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
Key = tuple[str, str, int]
"""Group, topic, partition."""


class Part(NamedTuple):
    """A partition of one life of a topic."""

    topic: str
    topic_id: str
    partition: int


class Committed(NamedTuple):
    """An offset that holds, or will when its transaction commits."""

    offset: int
    log_offset: int


class Truth:
    """Writes the files; holds what is not over yet."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._stack = ExitStack()
        self._files: dict[str, BinaryIO] = {
            name: self._stack.enter_context((folder / f"{name}.jsonl").open("wb"))
            for name in FILES
        }
        self.counts = dict.fromkeys(FILES, 0)
        self._sessions: dict[tuple[str, str], dict[str, Any]] = {}
        self._owners: dict[str, dict[Part, dict[str, Any]]] = {}
        self._pending: dict[int, dict[Key, Committed]] = {}
        self.current: dict[Key, Committed] = {}

    def write(self, name: str, **fields: Any) -> None:
        """Write a line."""
        self.counts[name] += 1
        self._files[name].write(_encode(fields) + b"\n")

    def joined(self, group_id: str, member_id: str, **fields: Any) -> None:
        """A session begins."""
        about = {"group_id": group_id, "member_id": member_id, **fields}
        self._sessions[group_id, member_id] = about

    def left(self, group_id: str, member_id: str, at_ms: int | None, end: str) -> None:
        """A session ends, and with it all that the member owned."""
        about = self._sessions.pop((group_id, member_id))
        self.write("sessions", **about, left_ms=at_ms, end=end)
        for part in self.owned(group_id, member_id):
            self.released(group_id, part, at_ms, end)

    def owned(self, group_id: str, member_id: str) -> list[Part]:
        """What a member owns."""
        of_group = self._owners.get(group_id, {})
        return [p for p, about in of_group.items() if about["member_id"] == member_id]

    def owners(self, group_id: str) -> dict[Part, str]:
        """Who owns what in a group."""
        of_group = self._owners.get(group_id, {})
        return {part: about["member_id"] for part, about in of_group.items()}

    def given(self, group_id: str, part: Part, member_id: str, at_ms: int) -> None:
        """A member owns a partition from now on."""
        of_group = self._owners.setdefault(group_id, {})
        assert part not in of_group, (group_id, part, member_id, of_group[part])
        about = {**part._asdict(), "member_id": member_id, "from_ms": at_ms}
        of_group[part] = {"group_id": group_id, **about}

    def released(self, group_id: str, part: Part, at_ms: int | None, end: str) -> None:
        """Its owner does not own it any more."""
        about = self._owners[group_id].pop(part)
        self.write("ownership", **about, to_ms=at_ms, end=end)

    def committed(self, key: Key, value: Committed, producer_id: int | None) -> None:
        """An offset was written."""
        if producer_id is None:
            self.current[key] = value
        else:
            self._pending.setdefault(producer_id, {})[key] = value

    def ended(self, producer_id: int, *, commit: bool) -> None:
        """A transaction is over. What stands later in the log wins (H-90)."""
        for key, value in self._pending.pop(producer_id, {}).items():
            present = self.current.get(key)
            if commit and (present is None or present.log_offset < value.log_offset):
                self.current[key] = value

    def removed(self, key: Key) -> None:
        """A tombstone takes an offset away, and those that are pending."""
        self.current.pop(key, None)
        for offsets in self._pending.values():
            offsets.pop(key, None)

    def close(self) -> None:
        """Write what is still open, and what holds."""
        for group_id, member_id in list(self._sessions):
            self.left(group_id, member_id, None, "open")
        assert not any(self._owners.values()), "a partition without a session"
        for (group_id, topic, partition), value in sorted(self.current.items()):
            where = {"group_id": group_id, "topic": topic, "partition": partition}
            self.write("current_offsets", **where, **value._asdict())
        self._stack.close()
