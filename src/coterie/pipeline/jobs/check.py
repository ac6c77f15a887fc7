"""Does the log say what the brokers say? Groups, members and offsets of a lake held
against what a cluster answers, as a pure comparison of values.

What differs is a finding about the pipeline or about the coordinator. What may differ
is named apart, by a verdict of its own: a group with records that the lake does not
have yet, one in a log partition that an open transaction holds back, one that is
rebalancing (the classic protocol writes that down only when it is over).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from coterie.client.admin.group_values import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from coterie.client.admin.offset_values import CommittedOffset, GroupOffsets
from coterie.types import GroupId, MemberId, TopicName, TopicPartition

Row = Mapping[str, Any]
_NOT_WRITTEN: Final = frozenset(
    {GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE}
)
"""States of classic groups that are in the coordinator's memory alone."""


class Verdict(StrEnum):
    """What becomes of two answers that are not the same."""

    DIFFERS = "differs"
    CHANGED = "changed"
    """The group has records that the lake does not have yet."""
    HELD_BACK = "held back"
    """An open transaction keeps the lake from reading on in its log partition."""
    REBALANCING = "rebalancing"


class Difference(NamedTuple):
    """One thing that the lake and the brokers say otherwise. `lake` and `brokers` are
    None where there is nothing."""

    verdict: Verdict
    group_id: GroupId
    about: str
    """group, member or offset."""
    of: str
    """The member, or the topic's partition; "" for the group itself."""
    what: str
    """Which column."""
    lake: Any
    brokers: Any


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the tables say: rows of current_groups, current_members, current_offsets."""

    groups: Iterable[Row]
    members: Iterable[Row]
    offsets: Iterable[Row]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the brokers say. Groups of kinds that the tables leave out are not in it."""

    groups: Mapping[GroupId, GroupDescription]
    offsets: Mapping[GroupId, GroupOffsets]
    topic_names: Mapping[str, TopicName] = field(default_factory=dict)
    """By id, 32 hex digits; of those that there are."""
    unread: frozenset[GroupId] = frozenset()
    """Groups of which no answer came: they are not compared."""


@dataclass(frozen=True, kw_only=True)
class Doubts:
    """What may differ, and why."""

    changed: frozenset[GroupId] = frozenset()
    held_back: frozenset[int] = frozenset()
    """Log partitions."""
    partition_of: Callable[[GroupId], int] = lambda _: -1

    def verdict(self, group_id: GroupId, now: GroupDescription | None) -> Verdict:
        """What a difference in a group means."""
        if group_id in self.changed:
            return Verdict.CHANGED
        if self.partition_of(group_id) in self.held_back:
            return Verdict.HELD_BACK
        if now is not None and now.state in _NOT_WRITTEN:
            return Verdict.REBALANCING
        return Verdict.DIFFERS


class Counts(NamedTuple):
    """How much was compared."""

    groups: int
    members: int
    offsets: int


class Checked(NamedTuple):
    """What came of it."""

    differences: tuple[Difference, ...]
    counts: Counts

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs that may not."""
        return all(each.verdict is not Verdict.DIFFERS for each in self.differences)


class _Found(NamedTuple):
    about: str
    of: str
    what: str
    lake: Any
    brokers: Any


def compare(told: Told, answers: Answers, doubts: Doubts) -> Checked:
    """Hold the one against the other: whatever group either knows."""
    groups = {row["group_id"]: row for row in told.groups}
    members: dict[GroupId, dict[MemberId, Row]] = {}
    for row in told.members:
        members.setdefault(row["group_id"], {})[row["member_id"]] = row
    offsets: dict[GroupId, dict[TopicPartition, Row]] = {}
    for row in told.offsets:
        key = TopicPartition(row["topic"], row["partition"])
        offsets.setdefault(row["group_id"], {})[key] = row
    differences = []
    known = groups.keys() | answers.groups.keys() | offsets.keys()
    for group_id in sorted(known - answers.unread):
        now = answers.groups.get(group_id)
        found = [*_groups_differ(groups.get(group_id), now)]
        if now is not None and group_id in groups:
            mine = members.get(group_id, {})
            found += _members_differ(mine, now, answers.topic_names)
        stored = answers.offsets.get(group_id)
        found += _offsets_differ(offsets.get(group_id, {}), stored)
        verdict = doubts.verdict(group_id, now)
        differences += [Difference(verdict, group_id, *each) for each in found]
    counts = Counts(
        len(known - answers.unread),
        sum(len(each.members) for each in answers.groups.values()),
        sum(len(each.offsets) for each in answers.offsets.values()),
    )
    return Checked(tuple(differences), counts)


# Groups.


def _groups_differ(told: Row | None, now: GroupDescription | None) -> Iterator[_Found]:
    if told is None or now is None:
        if told is not None or now is not None:
            kind = None if told is None else told["group_type"]
            yield _Found("group", "", "group_type", kind, now and _kind(now))
        return
    pairs: dict[str, tuple[Any, Any]] = {
        "group_type": (told["group_type"], _kind(now)),
        "protocol_type": (told["protocol_type"] or "", now.protocol_type),
        "state": (told["state"], now.state.value),
    }
    if now.type is GroupType.CONSUMER:
        pairs["epoch"] = told["epoch"], now.group_epoch
        pairs["assignment_epoch"] = told["assignment_epoch"], now.assignment_epoch
    else:
        pairs["assignor"] = told["assignor"] or "", now.assignor
        if now.generation_id is not None and not now.is_simple:
            pairs["epoch"] = told["epoch"], now.generation_id
    yield from _pairs_differ("group", "", pairs)


def _kind(group: GroupDescription) -> str:
    return "simple" if group.is_simple else group.type.value


def _pairs_differ(
    about: str, of: str, pairs: Mapping[str, tuple[Any, Any]]
) -> Iterator[_Found]:
    for what, (lake, brokers) in pairs.items():
        if lake != brokers:
            yield _Found(about, of, what, lake, brokers)


# Members.


def _members_differ(
    told: Mapping[MemberId, Row],
    now: GroupDescription,
    names: Mapping[str, TopicName],
) -> Iterator[_Found]:
    members = {each.member_id: each for each in now.members}
    for member_id in sorted(told.keys() | members.keys()):
        mine, theirs = told.get(member_id), members.get(member_id)
        if mine is None or theirs is None:
            hosts = mine and mine["client_host"], theirs and theirs.host
            yield _Found("member", member_id, "client_host", *hosts)
        else:
            yield from _pairs_differ("member", member_id, _member(mine, theirs, names))


def _member(
    told: Row, now: MemberDescription, names: Mapping[str, TopicName]
) -> dict[str, tuple[Any, Any]]:
    pairs: dict[str, tuple[Any, Any]] = {
        "instance_id": (told["instance_id"] or None, now.instance_id or None),
        "client_id": (told["client_id"] or "", now.client_id),
        "client_host": (told["client_host"] or "", now.host),
        "assigned": (_owned(told["assigned"], names), _listed(now.assignment)),
    }
    if now.epoch is not None:
        pairs["member_epoch"] = told["member_epoch"], now.epoch
    return pairs


def _owned(
    partitions: Iterable[Row] | None, names: Mapping[str, TopicName]
) -> list[str]:
    """Partitions by name, those of topics that are gone left out: brokers name none
    of them."""
    named = [
        TopicPartition(topic, each["partition"])
        for each in partitions or ()
        if (topic := each["topic"] or names.get(each["topic_id"] or ""))
    ]
    return _listed(named)


def _listed(partitions: Iterable[TopicPartition]) -> list[str]:
    return [name_of(each) for each in sorted(partitions)]


def name_of(partition: TopicPartition) -> str:
    """A partition as people write it."""
    return f"{partition.topic}-{partition.partition}"


# Offsets.


def _offsets_differ(
    told: Mapping[TopicPartition, Row], now: GroupOffsets | None
) -> Iterator[_Found]:
    stored: dict[TopicPartition, CommittedOffset] = {}
    unread: frozenset[TopicPartition] = frozenset()
    if now is not None:
        stored = {key: each for key, each in now.offsets.items() if each is not None}
        unread = frozenset(now.errors)
    for key in sorted((told.keys() | stored.keys()) - unread):
        mine, theirs = told.get(key), stored.get(key)
        if mine is None or theirs is None:
            values = mine and mine["committed_offset"], theirs and theirs.offset
            yield _Found("offset", name_of(key), "committed_offset", *values)
            continue
        pairs = {
            "committed_offset": (mine["committed_offset"], theirs.offset),
            "leader_epoch": (mine["leader_epoch"], theirs.leader_epoch),
            "metadata": (mine["metadata"] or "", theirs.metadata),
        }
        yield from _pairs_differ("offset", name_of(key), pairs)
