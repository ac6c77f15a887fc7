"""A hand-written log of one group: batch after batch, a second apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.pipeline.gold.groups.rebalances import StormRule
from coterie.pipeline.gold.groups.record import Record
from coterie.pipeline.gold.groups.replay import GroupHistory, replay_group

SECOND_US = 1_000_000
Fields = dict[str, Any]
ID = "00" * 15 + "01"
OTHER_ID = "00" * 15 + "02"


class GroupLog:
    """The records of one group, and names of topics by ID."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.records: list[Record] = []
        self.names = {ID: "t"} if names is None else names
        self._offset = 0
        self._second = 0
        self._gap_offset: int | None = None

    def batch(self, *records: Fields, after_s: int = 1) -> GroupLog:
        """Append records as one batch, `after_s` seconds after the previous one."""
        self._second += after_s
        base = self._offset
        for fields in records:
            self.records.append(
                Record(
                    log_offset=self._offset,
                    base_offset=base,
                    at_us=self._second * SECOND_US,
                    gap_offset=self._gap_offset,
                    **fields,
                )
            )
            self._offset += 1
        return self

    def gap(self, offsets: int = 10) -> GroupLog:
        """Skip offsets, as if compaction had removed records."""
        self._offset += offsets
        self._gap_offset = self._offset
        return self

    def replay(self) -> GroupHistory:
        return replay_group("g", self.records, self.names, StormRule())


def generation(
    number: int,
    assigned: Mapping[str, Sequence[int]],
    *,
    topic: str = "t",
    protocol: str = "range",
    topics: Sequence[str] = ("t",),
    instances: Mapping[str, str] | None = None,
) -> Fields:
    """Return a type 2 record: members with their partitions of a topic."""
    return {
        "record_type": 2,
        "has_value": True,
        "protocol_type": "consumer",
        "generation": number,
        "protocol": protocol if assigned else None,
        "leader_id": min(assigned, default=None),
        "members": [
            {
                "member_id": name,
                "instance_id": (instances or {}).get(name),
                "client_id": f"client-{name}",
                "client_host": "/10.0.0.1",
                "subscribed_topics": list(topics),
                "assigned": [
                    {"topic_id": None, "topic": topic, "partition": each}
                    for each in parts
                ],
            }
            for name, parts in assigned.items()
        ],
    }


def epoch(number: int, metadata_hash: int = 1) -> Fields:
    return {
        "record_type": 3,
        "has_value": True,
        "group_epoch": number,
        "metadata_hash": metadata_hash,
    }


def member(name: str, instance: str | None = None, **more: Any) -> Fields:
    return {
        "record_type": 5,
        "has_value": True,
        "member_id": name,
        "instance_id": instance,
        "client_id": f"client-{name}",
        "client_host": "/10.0.0.1",
        "subscribed_topics": ["t"],
        "is_classic_member": False,
        **more,
    }


def target(number: int) -> Fields:
    return {"record_type": 6, "has_value": True, "assignment_epoch": number}


def current(
    name: str,
    number: int,
    parts: Sequence[int] = (),
    *,
    before: int = 0,
    state: int = 0,
    pending: Sequence[int] = (),
    topic_id: str = ID,
) -> Fields:
    def partitions(numbers: Sequence[int]) -> list[Fields]:
        return [{"topic_id": topic_id, "partition": each} for each in numbers]

    return {
        "record_type": 8,
        "has_value": True,
        "member_id": name,
        "member_epoch": number,
        "previous_member_epoch": before,
        "member_state": state,
        "assigned": partitions(parts),
        "pending_revocation": partitions(pending),
    }


def tombstone(record_type: int, name: str | None = None) -> Fields:
    """Return a tombstone."""
    return {"record_type": record_type, "has_value": False, "member_id": name}


def member_tombstones(name: str) -> tuple[Fields, ...]:
    """Return the tombstones of a member that leaves or is fenced (E22-26)."""
    return tombstone(8, name), tombstone(7, name), tombstone(5, name)


def group_tombstones(*names: str) -> tuple[Fields, ...]:
    """Return the tombstones of a deleted consumer group (E22-29)."""
    return (
        *(tombstone(8, name) for name in names),
        *(tombstone(7, name) for name in names),
        tombstone(6),
        *(tombstone(5, name) for name in names),
        tombstone(3),
    )


def ownership_spans(history: GroupHistory) -> list[tuple[object, ...]]:
    """Return member, partition and the seconds of begin and end of each interval."""
    return [
        (
            row["member_id"],
            row["partition"],
            row["valid_from"] // SECOND_US,
            row["valid_to"] and row["valid_to"] // SECOND_US,
        )
        for row in history.ownership
    ]
