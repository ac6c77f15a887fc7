"""`--list`: ids alone, or with `--type` and `--state` as columns and filters."""

from __future__ import annotations

from typing import Final

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.grammar import CommandLine, UsageError
from coterie.cli.kafka_consumer_groups.groups import in_order, list_consumer_groups
from coterie.cli.kafka_consumer_groups.report import Report, said
from coterie.client.admin.group_values import GroupState, GroupType

_TYPES: Final = (GroupType.CLASSIC, GroupType.CONSUMER)
_STATES: Final = (
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
    GroupState.EMPTY,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)


async def run(admin: Admin, line: CommandLine) -> Report:
    """List the groups."""
    types, states = wanted_types(line), wanted_states(line)
    listed, report = await list_consumer_groups(admin, states, types)
    by_id = {each.group_id: each for each in listed}
    groups = [by_id[group_id] for group_id in in_order(by_id, line)]
    if not line.has("type", "state"):
        return report + said("".join(f"{each.group_id}\n" for each in groups))
    columns = {"with_type": line.has("type"), "with_state": line.has("state")}
    return report + said(tables.group_list(groups, **columns))


def wanted_states(line: CommandLine) -> tuple[GroupState, ...]:
    """Those of `--state`, in any case (C-47). Raises UsageError."""
    text = line.one("state") or ""
    states = [GroupState.read(each.strip()) for each in text.split(",") if text]
    if not set(states) <= set(_STATES):
        valid = ", ".join(each.value for each in _STATES)
        raise UsageError(f"Invalid state list '{text}'. Valid states are: {valid}")
    return tuple(dict.fromkeys(states))


def wanted_types(line: CommandLine) -> tuple[GroupType, ...]:
    """Those of `--type`, in any case (C-47). Raises UsageError."""
    text = line.one("type") or ""
    types = [GroupType.read(each.strip()) for each in text.split(",") if text]
    if not set(types) <= set(_TYPES):
        valid = ", ".join(each.value.capitalize() for each in _TYPES)
        raise UsageError(f"Invalid types list '{text}'. Valid types are: {valid}")
    return tuple(dict.fromkeys(types))
