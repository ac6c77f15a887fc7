"""`--list` and `--describe`, and the groups that other actions select.

Committed offsets are fetched before log end offsets, in few requests for all groups. A
row that could not be read in full has hyphens; its error goes to stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final, cast

from coterie import client
from coterie import operations as ops
from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.command_line import (
    CommandLine,
    UsageError,
    selectors,
)
from coterie.cli.kafka_consumer_groups.report import Report, error, output, warning
from coterie.cli.kafka_consumer_groups.tables import MISSING, OffsetRow
from coterie.errors import ApiError, CoterieError, code_of
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

_TYPES: Final = (client.GroupType.CLASSIC, client.GroupType.CONSUMER)
_STATES: Final = (
    client.GroupState.PREPARING_REBALANCE,
    client.GroupState.COMPLETING_REBALANCE,
    client.GroupState.STABLE,
    client.GroupState.DEAD,
    client.GroupState.EMPTY,
    client.GroupState.ASSIGNING,
    client.GroupState.RECONCILING,
)
_PROTOCOL_TYPES: Final = {"", "consumer"}


class NotAConsumerGroup(ApiError):
    """The error GROUP_ID_NOT_FOUND for a group of a type that this command does not
    have, as brokers return it in ConsumerGroupDescribe."""

    def __init__(self, group: client.GroupDescription) -> None:
        super().__init__(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group '{group.group_id}' is a {group.type.value} group, not a consumer "
            "group; use `coterie groups`",
        )


class _ConsumerGroups:
    """Calls to which share groups and streams groups do not exist, as in Kafka's own
    tool; the others are those of the admin client."""

    def __init__(self, groups: client.Groups) -> None:
        self._groups = groups

    def __getattr__(self, name: str) -> Any:
        return getattr(self._groups, name)

    async def describe(
        self, group_ids: Iterable[GroupId], *, progress: client.Progress | None = None
    ) -> client.Results[GroupId, client.GroupDescription]:
        """Describe groups of consumers; others have the error NotAConsumerGroup."""
        described = await self._groups.describe(group_ids, progress=progress)
        values, errors = (
            dict[GroupId, client.GroupDescription](),
            dict(described.errors),
        )
        for group in described.values.values():
            if group.type in _TYPES:
                values[group.group_id] = group
            else:
                errors[group.group_id] = NotAConsumerGroup(group)
        return client.Results(values, errors)


def as_consumer_groups(admin: client.AdminClient) -> client.AdminClient:
    """Return a client to which groups of other types do not exist."""
    narrowed = copy(admin)
    narrowed.groups = cast("client.Groups", _ConsumerGroups(admin.groups))
    return narrowed


async def other_types(
    admin: client.AdminClient, group_ids: Iterable[GroupId]
) -> Mapping[GroupId, CoterieError]:
    """Return the errors of groups of other types. Kafka's tool treats them as groups
    that do not exist, so that it plans the reset of a share group."""
    described = await admin.groups.describe(group_ids)
    return {
        each: failure
        for each, failure in described.errors.items()
        if isinstance(failure, NotAConsumerGroup)
    }


async def list_consumer_groups(
    admin: client.AdminClient,
    states: Collection[client.GroupState] = (),
    types: Collection[client.GroupType] = (),
) -> tuple[list[client.GroupListing], Report]:
    """Return the consumer groups of the cluster, and errors of brokers.

    Share groups, streams groups and groups of other protocol types, such as those of
    Kafka Connect, are left out.
    """
    listings = await admin.groups.list(states=states, types=types)
    report = Report.of(
        error(f"the groups of broker {node_id} are not listed: {each}")
        for node_id, each in sorted(listings.errors.items())
    )
    groups = [
        each
        for each in listings.groups
        if each.type in {None, *_TYPES} and each.protocol_type in _PROTOCOL_TYPES
    ]
    return groups, report


async def selected_groups(
    admin: client.AdminClient, line: CommandLine
) -> tuple[tuple[GroupId, ...], Report]:
    """Return the groups of `--group`, or with `--all-groups` all consumer groups."""
    if not line.has("all-groups"):
        return line.all("group"), Report()
    groups, report = await list_consumer_groups(admin)
    return tuple(each.group_id for each in groups), report


async def list_groups(admin: client.AdminClient, line: CommandLine) -> Report:
    """Run `--list`: ids, or with `--type` and `--state` columns and filters."""
    groups, report = await list_consumer_groups(
        admin, wanted_states(line), wanted_types(line)
    )
    groups.sort(key=lambda group: group.group_id)
    if not line.has("type", "state"):
        ids = (tables.cell_text(each.group_id) for each in groups)
        return report + output("".join(f"{each}\n" for each in ids))
    columns = {"with_type": line.has("type"), "with_state": line.has("state")}
    return report + output(tables.group_list(groups, **columns))


def wanted_states(line: CommandLine) -> tuple[client.GroupState, ...]:
    """Return the states of `--state`, in any case (C-47). Raises UsageError."""
    text = line.one("state") or ""
    states = [client.GroupState.read(each.strip()) for each in _words(text)]
    if not set(states) <= set(_STATES):
        valid = ", ".join(each.value for each in _STATES)
        raise UsageError(f"Invalid state list '{text}'. Valid states are: {valid}")
    return tuple(dict.fromkeys(states))


def wanted_types(line: CommandLine) -> tuple[client.GroupType, ...]:
    """Return the types of `--type`, in any case (C-47). Raises UsageError."""
    text = line.one("type") or ""
    types = [client.GroupType.read(each.strip()) for each in _words(text)]
    if not set(types) <= set(_TYPES):
        valid = ", ".join(each.value.capitalize() for each in _TYPES)
        raise UsageError(f"Invalid types list '{text}'. Valid types are: {valid}")
    return tuple(dict.fromkeys(types))


def _words(text: str) -> list[str]:
    # kafka-consumer-groups.sh ignores commas at the end.
    text = text.rstrip(",")
    return text.split(",") if text else []


async def describe_each(
    admin: client.AdminClient,
    line: CommandLine,
    table: Callable[[client.GroupDescription], str],
) -> Report:
    """Run `--describe` with --members or --state: a table for each group, by name."""
    group_ids, report = await selected_groups(admin, line)
    described = await admin.groups.describe(group_ids)
    reports = [report]
    for group_id in sorted(group_ids):
        if (failure := described.errors.get(group_id)) is not None:
            reports.append(_no_table(group_id, failure))
            continue
        group = described.values[group_id]
        if group.state is client.GroupState.DEAD:
            reports.append(_dead(group_id))
        else:
            reports.append(_state_notice(group) + output(table(group)))
    return Report.of(reports)


async def describe_offsets(admin: client.AdminClient, line: CommandLine) -> Report:
    """Run `--describe`, with or without `--offsets`."""
    chosen = selectors(line)
    group_ids, report = await selected_groups(admin, line)
    topics = {each.topic for each in chosen} or None
    lags = await ops.group_lag(admin, sorted(group_ids), topics=topics)
    each_group = (_describe_lag(group, chosen, line) for group in lags.groups)
    return Report.of((report, *each_group))


def _describe_lag(
    group: ops.GroupLag, chosen: Sequence[ops.TopicSelector], line: CommandLine
) -> Report:
    """Return the notices, warnings and table of one group."""
    if group.description is None or group.error is not None:
        assert group.error is not None, "a group has a description or an error"
        return _no_table(group.group_id, group.error)
    if group.description.state is client.GroupState.DEAD:
        return _dead(group.group_id)
    rows = [row for row in group.rows if _is_shown(row, chosen)]
    table = tables.offsets(map(_offset_row, rows), verbose=line.has("verbose"))
    warnings = map(_row_warning, rows)
    return Report.of(
        (_state_notice(group.description), *warnings, output(table if rows else ""))
    )


def _is_shown(row: ops.PartitionLag, chosen: Sequence[ops.TopicSelector]) -> bool:
    # A member without partitions has a row here, but not in
    # kafka-consumer-groups.sh.
    if row.topic is None:
        return not chosen
    return not chosen or any(
        row.topic == each.topic
        and (each.partitions is None or row.partition in each.partitions)
        for each in chosen
    )


def _offset_row(row: ops.PartitionLag) -> OffsetRow:
    # A partition without an owner has hyphens; an owner's unknown value stays None.
    without_owner = MISSING if row.member_id is None else None
    commit = row.committed
    return OffsetRow(
        group_id=row.group_id,
        topic=row.topic,
        partition=row.partition,
        leader_epoch=None if commit is None else commit.leader_epoch,
        current_offset=None if commit is None else commit.offset,
        log_end_offset=row.log_end,
        lag=row.lag,
        consumer_id=row.member_id or without_owner,
        host=row.host or without_owner,
        client_id=row.client_id or without_owner,
    )


def _row_warning(row: ops.PartitionLag) -> Report:
    """Return the error of a row, or a warning about a commit outside the log."""
    place = f"{row.topic}-{row.partition}"
    if row.error is not None:
        return error(f"Consumer group '{row.group_id}', {place}: {row.error}")
    if row.committed is None:
        return Report()
    if row.lag_status is ops.LagStatus.BELOW_START:
        reason = (
            f"but its log starts at {row.log_start}: the records between are deleted"
        )
    elif row.lag_status is ops.LagStatus.BEYOND_END:
        reason = f"but its log ends at {row.log_end}"
    else:
        return Report()
    return warning(
        f"\nWarning: Consumer group '{row.group_id}' is at offset "
        f"{row.committed.offset} of {place}, {reason}."
    )


def _state_notice(group: client.GroupDescription) -> Report:
    """Return the notice about a group's state, printed before its table (A-74)."""
    if group.state is client.GroupState.EMPTY:
        return warning(f"\nConsumer group '{group.group_id}' has no active members.")
    if group.state.is_rebalancing:
        return warning(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    if group.state is not client.GroupState.STABLE:
        return error(
            f"Expected a valid consumer group state, but found '{group.state.value}'."
        )
    return Report()


def _no_table(group_id: GroupId, failure: CoterieError) -> Report:
    """Return the error of a group that cannot be described (I-11); other groups are
    still printed.
    """
    if isinstance(failure, NotAConsumerGroup):
        return error(str(failure))
    if code_of(failure) is ErrorCode.GROUP_ID_NOT_FOUND:
        return _dead(group_id)
    return error(f"Consumer group '{group_id}' cannot be described: {failure}")


def _dead(group_id: GroupId) -> Report:
    """Return the error for a group in state Dead (A-74)."""
    return error(f"Consumer group '{group_id}' does not exist.")
