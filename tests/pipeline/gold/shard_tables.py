"""Rows of tables read from the state of a coordinator's shard, for comparison with the
gold tables built from its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.state import State
from tests.pipeline.gold.generated_silver import timestamp

Rows: TypeAlias = dict[str, list[dict[str, Any]]]


def tables_of(state: State, name_as: str) -> Rows:
    """Return rows of current_offsets, current_groups, current_members and, for resolved
    regular expressions, consumer_group_records. Group "g" is renamed."""
    return _tables(state, "g", name_as)


def all_tables_of(state: State) -> Rows:
    """Return the rows of `tables_of` for all groups, without renaming any."""
    found: Rows = {}
    for group_id in (*state.classic_groups, *state.consumer_groups):
        for name, rows in _tables(state, group_id, group_id).items():
            found.setdefault(name, []).extend(rows)
    return found


def _tables(state: State, group_id: str, name_as: str) -> Rows:
    found: Rows = {
        "current_offsets": list(_offsets(state, group_id, name_as)),
        "current_groups": [],
        "current_members": [],
        "consumer_group_records": [],
    }
    classic = state.classic_groups.get(group_id)
    if classic is not None:
        found["current_groups"].append(_classic(classic, name_as))
        found["current_members"] += _classic_members(classic, name_as)
    consumer = state.consumer_groups.get(group_id)
    if consumer is not None:
        found["current_groups"].append(_consumer(consumer, name_as))
        found["current_members"] += _consumer_members(consumer, name_as)
        found["consumer_group_records"] += [
            {
                "record_type": 16,
                "group_id": name_as,
                "regex": regex,
                "regex_topics": sorted(resolved.topics),
            }
            for regex, resolved in consumer.regexes.items()
        ]
    return found


def _offsets(state: State, group_id: str, name_as: str) -> Iterator[dict[str, Any]]:
    for name, each in state.offsets.stored.items(group_id):
        expire_ms = each.expire_timestamp_ms
        yield {
            "group_id": name_as,
            "topic": name.topic,
            "partition": name.partition,
            "committed_offset": each.offset,
            "commit_ts": timestamp(each.commit_timestamp_ms),
            "expire_ts": None if expire_ms == -1 else timestamp(expire_ms),
        }


def _classic(group: ClassicGroup, name_as: str) -> dict[str, Any]:
    is_known = not group.members and group.state_timestamp_ms != -1
    return {
        "group_id": name_as,
        "group_type": "simple" if group.protocol_type is None else "classic",
        "protocol_type": group.protocol_type,
        "state": "Stable" if group.members else "Empty",
        "member_count": len(group.members),
        "empty_since_ts": timestamp(group.state_timestamp_ms) if is_known else None,
    }


def _classic_members(group: ClassicGroup, name_as: str) -> Iterator[dict[str, Any]]:
    topics = group.subscribed_topics()
    for member_id in group.members:
        yield {
            "group_id": name_as,
            "member_id": member_id,
            "protocol": "classic",
            "subscribed_topics": None if topics is None else sorted(topics),
        }


def _consumer(group: ConsumerGroup, name_as: str) -> dict[str, Any]:
    return {
        "group_id": name_as,
        "group_type": "consumer",
        "protocol_type": "consumer",
        "state": group.state.value,
        "member_count": len(group.members),
    }


def _consumer_members(group: ConsumerGroup, name_as: str) -> Iterator[dict[str, Any]]:
    for member in group.members.values():
        yield {
            "group_id": name_as,
            "member_id": member.member_id,
            "protocol": "consumer",
            "subscribed_topics": sorted(member.topic_names),
        }
