"""Compare a lake's groups, members and offsets with those that a cluster returns.

The lake is read first, then the brokers are queried, and then the log is read from the
lake's positions to its end. So a change that is in the brokers' responses but not in
the lake has a record in that tail of the log, and its group is reported as changed.

A difference is a bug of the pipeline or of the coordinator, unless it is expected: the
group has records that the lake has not read, an open transaction holds back its log
partition, or the group is rebalancing (the classic protocol writes a record only when a
rebalance is complete).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.runtime.shards import partition_for
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from coterie.errors import ClientError, CoterieError, SettingError, code_of
from coterie.pipeline.codec.decode import decode
from coterie.pipeline.jobs.refresh import is_due
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import Source
from coterie.pipeline.tables.all_tables import needed
from coterie.types import GroupId, MemberId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode

Row = Mapping[str, Any]
_COMPARED_TABLES: Final = ("current_groups", "current_members", "current_offsets")
_COMPARED_TYPES: Final = {None, GroupType.CLASSIC, GroupType.CONSUMER}
"""None: a broker that does not report types has no groups of other types."""
_UNLOGGED_STATES: Final = frozenset(
    {GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE}
)
"""States of classic groups that are only in the coordinator's memory."""
_GROUP_ID: Final = "group_id"


# Inputs.


@dataclass(frozen=True, kw_only=True)
class LakeRows:
    """The rows of current_groups, current_members and current_offsets."""

    groups: Iterable[Row]
    members: Iterable[Row]
    offsets: Iterable[Row]


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """The brokers' descriptions of groups, without groups of types that the lake does
    not have.
    """

    groups: Mapping[GroupId, GroupDescription]
    offsets: Mapping[GroupId, GroupOffsets]
    topic_names: Mapping[str, TopicName] = field(default_factory=dict)
    """The names of existing topics by id, 32 hex digits."""
    skipped: frozenset[GroupId] = frozenset()
    """Groups that are not compared: of another type, or their request failed."""
    errors: Mapping[GroupId, CoterieError] = field(default_factory=dict)
    """The errors of failed requests."""


class Verdict(StrEnum):
    """The classification of a difference."""

    DIFFERS = "differs"
    CHANGED = "changed"
    """The group has records that the lake has not read."""
    HELD_BACK = "held back"
    """An open transaction keeps the lake from reading its log partition further."""
    REBALANCING = "rebalancing"


@dataclass(frozen=True, kw_only=True)
class ExpectedDifferences:
    """The groups and log partitions in which differences are expected, and the
    reason.
    """

    changed: frozenset[GroupId] = frozenset()
    held_back: frozenset[int] = frozenset()
    """Log partitions."""
    partition_of: Callable[[GroupId], int] = lambda _: -1

    def verdict(self, group_id: GroupId, current: GroupDescription | None) -> Verdict:
        """Return the verdict on a group that differs between lake and broker."""
        if group_id in self.changed:
            return Verdict.CHANGED
        if self.partition_of(group_id) in self.held_back:
            return Verdict.HELD_BACK
        if current is not None and current.state in _UNLOGGED_STATES:
            return Verdict.REBALANCING
        return Verdict.DIFFERS


class LogTail(NamedTuple):
    """The records after a lake's positions, and the differences that they explain."""

    expected: ExpectedDifferences
    records: int
    """Records up to the stable offsets."""
    held_back: Mapping[int, int]
    """The number of offsets after the first open transaction, by log partition."""


def read_lake_rows(lake: Lake) -> LakeRows:
    """Read the tables that are compared with the cluster."""
    version = lake.version
    # A table whose inputs have not changed is not built again.
    for query in needed(*_COMPARED_TABLES):
        if is_due(query, version.tables, version):
            raise SettingError(
                f"{query.name} of {lake.storage} is older than the ingested records:"
                f" run coterie pipeline run --from {lake.identity.source} --to "
                f"{lake.storage} to update it"
            )
    groups, members, offsets = (
        lake.read(name).to_pylist() for name in _COMPARED_TABLES
    )
    return LakeRows(groups=groups, members=members, offsets=offsets)


async def fetch_cluster_state(admin: AdminClient, lake: Lake) -> ClusterState:
    """Describe every group of the cluster that the tables may contain.

    Raises SettingError when the lake belongs to another cluster, and ClientError or
    ApiError when a broker does not list its groups.
    """
    cluster_id = (await admin.brokers.describe()).cluster_id
    if None is not lake.identity.cluster_id != cluster_id is not None:
        raise SettingError(
            f"{lake.storage} holds cluster {lake.identity.cluster_id}, but the brokers"
            f" are of cluster {cluster_id}: use the brokers that the lake was made from"
        )
    listings = await admin.groups.list()
    for error in listings.errors.values():
        raise error
    listed = [each.group_id for each in listings.groups if each.type in _COMPARED_TYPES]
    groups = await admin.groups.describe(listed)
    offsets = await admin.group_offsets.fetch_many(dict.fromkeys(listed))
    topics = (await admin.topics.describe()).values.values()
    # A group that was deleted after the listing is not an error.
    errors = {
        group_id: error
        for group_id, error in {**offsets.errors, **groups.errors}.items()
        if code_of(error) is not ErrorCode.GROUP_ID_NOT_FOUND
    }
    other_types = {
        each.group_id for each in listings.groups if each.type not in _COMPARED_TYPES
    }
    return ClusterState(
        groups=groups.values,
        offsets=offsets.values,
        topic_names={
            each.topic_id.hex(): each.name for each in topics if each.topic_id
        },
        skipped=frozenset(errors) | other_types,
        errors=errors,
    )


def read_tail(source: Source, positions: Mapping[int, int]) -> LogTail:
    """Read the log from the lake's positions to its end.

    Raises ClientError when the log ends before a position.
    """
    heads = source.heads(positions)
    for number, position in positions.items():
        if number not in heads or heads[number].end_offset < position:
            raise ClientError(
                f"the lake was read up to offset {position} of log partition {number},"
                f" and {source.describe()} has no such offset: is it another cluster?"
            )
    changed: set[GroupId] = set()
    records = 0
    for part in plan(heads, positions):
        for rows in source.read(part):
            records += len(rows.records)
            for table in decode(rows.records).values():
                if _GROUP_ID in table.schema.names:
                    changed.update(table[_GROUP_ID].unique().to_pylist())
    held_back = {
        number: head.end_offset - head.stable_offset
        for number, head in heads.items()
        if head.stable_offset < head.end_offset
    }
    count = len(heads)
    expected = ExpectedDifferences(
        changed=frozenset(changed),
        held_back=frozenset(held_back),
        partition_of=lambda group_id: partition_for(group_id, count) if count else -1,
    )
    return LogTail(expected, records, held_back)


# Comparison.


class Difference(NamedTuple):
    """A value that differs. `lake` and `brokers` are None for a missing value."""

    verdict: Verdict
    group_id: GroupId
    about: str
    """group, member or offset."""
    of: str
    """The member id, or the topic partition; "" for the group itself."""
    column: str
    lake: Any
    brokers: Any


class Counts(NamedTuple):
    """The numbers of compared groups, members and offsets."""

    groups: int
    members: int
    offsets: int


class CheckResult(NamedTuple):
    """The differences of a comparison."""

    differences: tuple[Difference, ...]
    counts: Counts

    @property
    def is_clean(self) -> bool:
        """Whether every difference is expected."""
        return all(each.verdict is not Verdict.DIFFERS for each in self.differences)


_Differ: TypeAlias = Callable[[str, str, str, Any, Any], Difference]
"""A function that creates a difference of one group from about, of, column, lake and
brokers.
"""


def compare(
    rows: LakeRows, cluster: ClusterState, expected: ExpectedDifferences
) -> CheckResult:
    """Compare every group that the lake or the cluster has."""
    groups = {row[_GROUP_ID]: row for row in rows.groups}
    members: dict[GroupId, dict[MemberId, Row]] = {}
    for row in rows.members:
        members.setdefault(row[_GROUP_ID], {})[row["member_id"]] = row
    offsets: dict[GroupId, dict[TopicPartition, Row]] = {}
    for row in rows.offsets:
        key = TopicPartition(row["topic"], row["partition"])
        offsets.setdefault(row[_GROUP_ID], {})[key] = row
    compared = groups.keys() | cluster.groups.keys() | offsets.keys()
    compared -= cluster.skipped
    differences: list[Difference] = []
    for group_id in sorted(compared):
        current = cluster.groups.get(group_id)
        differ = partial(Difference, expected.verdict(group_id, current), group_id)
        differences += _compare_group(differ, groups.get(group_id), current)
        if current is not None and group_id in groups:
            in_lake = members.get(group_id, {})
            differences += _compare_members(
                differ, in_lake, current, cluster.topic_names
            )
        committed = cluster.offsets.get(group_id)
        differences += _compare_offsets(differ, offsets.get(group_id, {}), committed)
    counts = Counts(
        len(compared),
        sum(len(each.members) for each in cluster.groups.values()),
        sum(len(each.offsets) for each in cluster.offsets.values()),
    )
    return CheckResult(tuple(differences), counts)


def _compare_pairs(
    differ: _Differ, about: str, of: str, pairs: Mapping[str, tuple[Any, Any]]
) -> Iterator[Difference]:
    for column, (lake, brokers) in pairs.items():
        if lake != brokers:
            yield differ(about, of, column, lake, brokers)


def _compare_group(
    differ: _Differ, row: Row | None, current: GroupDescription | None
) -> Iterator[Difference]:
    if row is None or current is None:
        if row is not None or current is not None:
            in_lake = None if row is None else row["group_type"]
            at_brokers = current and _group_type(current)
            yield differ("group", "", "group_type", in_lake, at_brokers)
        return
    pairs: dict[str, tuple[Any, Any]] = {
        "group_type": (row["group_type"], _group_type(current)),
        "protocol_type": (row["protocol_type"] or "", current.protocol_type),
        "state": (row["state"], current.state.value),
    }
    if current.type is GroupType.CONSUMER:
        pairs["epoch"] = row["epoch"], current.group_epoch
        pairs["assignment_epoch"] = row["assignment_epoch"], current.assignment_epoch
    else:
        pairs["assignor"] = row["assignor"] or "", current.assignor
        if current.generation_id is not None and not current.is_simple:
            pairs["epoch"] = row["epoch"], current.generation_id
    yield from _compare_pairs(differ, "group", "", pairs)


def _group_type(group: GroupDescription) -> str:
    return "simple" if group.is_simple else group.type.value


def _compare_members(
    differ: _Differ,
    rows: Mapping[MemberId, Row],
    current: GroupDescription,
    names: Mapping[str, TopicName],
) -> Iterator[Difference]:
    members = {each.member_id: each for each in current.members}
    for member_id in sorted(rows.keys() | members.keys()):
        row, member = rows.get(member_id), members.get(member_id)
        if row is None or member is None:
            hosts = row and row["client_host"], member and member.host
            yield differ("member", member_id, "client_host", *hosts)
        else:
            pairs = _member_pairs(row, member, names)
            yield from _compare_pairs(differ, "member", member_id, pairs)


def _member_pairs(
    row: Row, member: MemberDescription, names: Mapping[str, TopicName]
) -> dict[str, tuple[Any, Any]]:
    # Brokers omit the partitions of deleted topics, so topics without a name are left
    # out of the lake's assignment too.
    assigned = [
        TopicPartition(topic, each["partition"])
        for each in row["assigned"] or ()
        if (topic := each["topic"] or names.get(each["topic_id"] or ""))
    ]
    pairs: dict[str, tuple[Any, Any]] = {
        "instance_id": (row["instance_id"] or None, member.instance_id or None),
        "client_id": (row["client_id"] or "", member.client_id),
        "client_host": (row["client_host"] or "", member.host),
        "assigned": (
            [_partition_text(each) for each in sorted(assigned)],
            [_partition_text(each) for each in sorted(member.assignment)],
        ),
    }
    if member.epoch is not None:
        pairs["member_epoch"] = row["member_epoch"], member.epoch
    return pairs


def _partition_text(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _compare_offsets(
    differ: _Differ, rows: Mapping[TopicPartition, Row], current: GroupOffsets | None
) -> Iterator[Difference]:
    committed: dict[TopicPartition, CommittedOffset] = {}
    skipped: frozenset[TopicPartition] = frozenset()
    if current is not None:
        committed = {
            key: each for key, each in current.offsets.items() if each is not None
        }
        skipped = frozenset(current.errors)
    # A negative offset is no committed offset.
    rows = {at: row for at, row in rows.items() if row["committed_offset"] is not None}
    for key in sorted((rows.keys() | committed.keys()) - skipped):
        row, offset = rows.get(key), committed.get(key)
        name = _partition_text(key)
        if row is None or offset is None:
            values = row and row["committed_offset"], offset and offset.offset
            yield differ("offset", name, "committed_offset", *values)
            continue
        pairs = {
            "committed_offset": (row["committed_offset"], offset.offset),
            "leader_epoch": (row["leader_epoch"], offset.leader_epoch),
            "metadata": (row["metadata"] or "", offset.metadata),
        }
        yield from _compare_pairs(differ, "offset", name, pairs)
