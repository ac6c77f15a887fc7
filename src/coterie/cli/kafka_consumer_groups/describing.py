"""What the tables of `--describe` have in common: what is said of a group first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.groups import groups_meant
from coterie.cli.kafka_consumer_groups.java import as_exception
from coterie.cli.kafka_consumer_groups.report import Report, failure, said, warned
from coterie.cli.kafka_consumer_groups.tables import Extras
from coterie.client.admin.group_values import GroupDescription, GroupState
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

FAILED: Final = "Executing consumer group command failed due to "


def extras(line: CommandLine) -> Extras:
    """Which columns are asked for."""
    return Extras(verbose=line.has("verbose"), ours=not line.is_strict)


def state_of(group: GroupDescription) -> Report:
    """What is to be known of a group before its table (A-74)."""
    if group.state is GroupState.EMPTY:
        return warned(f"\nConsumer group '{group.group_id}' has no active members.")
    if group.state.is_rebalancing:
        return warned(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.")
    if group.state is not GroupState.STABLE:
        return failure(
            f"Expected a valid consumer group state, but found '{group.state.value}'."
        )
    return Report()


def no_table(group_id: GroupId, error: CoterieError, line: CommandLine) -> Report:
    """Why a group has no table (I-11); the other groups have theirs."""
    is_missing = (
        isinstance(error, ApiError) and error.code == ErrorCode.GROUP_ID_NOT_FOUND
    )
    if line.is_strict:
        text = as_exception(error)
        if is_missing:
            text = f"{text.partition(':')[0]}: Group {group_id} not found."
        return failure(FAILED + text, on_stdout=True)
    if is_missing:
        return dead(group_id, line)
    return failure(f"Consumer group '{group_id}' cannot be described: {error}")


def dead(group_id: GroupId, line: CommandLine) -> Report:
    """What is said of a group whose state is Dead, instead of a table (A-74, A-75)."""
    text = f"Consumer group '{group_id}' does not exist."
    return failure(text, on_stdout=line.is_strict)


async def describe_each(
    admin: Admin,
    line: CommandLine,
    table: Callable[[GroupDescription], str],
) -> Report:
    """Describe the groups that are meant, and make a table of each, in the order of
    their names."""
    group_ids, report = await groups_meant(admin, line)
    described = await admin.describe_groups(group_ids)

    def of(group_id: GroupId) -> Report:
        if (error := described.errors.get(group_id)) is not None:
            return no_table(group_id, error, line)
        group = described.values[group_id]
        if group.state is GroupState.DEAD:
            return dead(group_id, line)
        return state_of(group) + said(table(group))

    return Report.of((report, *map(of, sorted(group_ids))))
