"""Records of a group, made by hand: batch after batch, a second apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.pipeline.gold.groups.fold import Folded, fold
from coterie.pipeline.gold.groups.record import Record
from coterie.pipeline.gold.groups.storms import StormRule

SECOND_US = 1_000_000
Fields = dict[str, Any]
ID = "00" * 15 + "01"
OTHER_ID = "00" * 15 + "02"


class Log:
    """A log with one group in it. `names` are of topic ids."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.records: list[Record] = []
        self.names = {ID: "t"} if names is None else names
        self._offset = 0
        self._second = 0
        self._gap_offset: int | None = None

    def batch(self, *records: Fields, after_s: int = 1) -> Log:
        """Records of one batch, so many seconds after the batch before."""
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

    def gap(self, offsets: int = 10) -> Log:
        """Compaction took some."""
        self._offset += offsets
        self._gap_offset = self._offset
        return self

    def fold(self) -> Folded:
        return fold("g", self.records, self.names, StormRule())


def generation(
    number: int,
    assigned: Mapping[str, Sequence[int]],
    *,
    topic: str = "t",
    protocol: str = "range",
    topics: Sequence[str] = ("t",),
    instances: Mapping[str, str] | None = None,
) -> Fields:
    """Type 2: members and their partitions of a topic."""
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
    def listed(some: Sequence[int]) -> list[Fields]:
        return [{"topic_id": topic_id, "partition": each} for each in some]

    return {
        "record_type": 8,
        "has_value": True,
        "member_id": name,
        "member_epoch": number,
        "previous_member_epoch": before,
        "member_state": state,
        "assigned": listed(parts),
        "pending_revocation": listed(pending),
    }


def gone(record_type: int, name: str | None = None) -> Fields:
    """A tombstone."""
    return {"record_type": record_type, "has_value": False, "member_id": name}


def member_gone(name: str) -> tuple[Fields, ...]:
    """All of a member, as it leaves or is fenced (E22-26)."""
    return gone(8, name), gone(7, name), gone(5, name)


def group_gone(*names: str) -> tuple[Fields, ...]:
    """All of a consumer group (E22-29)."""
    return (
        *(gone(8, name) for name in names),
        *(gone(7, name) for name in names),
        gone(6),
        *(gone(5, name) for name in names),
        gone(3),
    )
