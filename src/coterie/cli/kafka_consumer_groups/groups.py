"""Which groups a command line means, and in which order they are printed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.java import hash_map_order, string_hash
from coterie.cli.kafka_consumer_groups.report import Report, failure
from coterie.client.admin.group_values import GroupListing, GroupState, GroupType
from coterie.types import GroupId

_TYPES: Final = {None, GroupType.CLASSIC, GroupType.CONSUMER}
_PROTOCOL_TYPES: Final = {"", "consumer"}


async def list_consumer_groups(
    admin: Admin,
    states: Collection[GroupState] = (),
    types: Collection[GroupType] = (),
) -> tuple[list[GroupListing], Report]:
    """The groups of consumers, by id; share groups, streams groups and those of other
    protocols (Kafka Connect's workers) are not among them. With what went wrong."""
    listings = await admin.list_groups(states=states, types=types)
    report = Report.of(
        failure(f"the groups of broker {node_id} are not listed: {error}")
        for node_id, error in sorted(listings.errors.items())
    )
    groups = [
        each
        for each in listings.groups
        if each.type in _TYPES and each.protocol_type in _PROTOCOL_TYPES
    ]
    return groups, report


async def groups_meant(
    admin: Admin, line: CommandLine
) -> tuple[tuple[GroupId, ...], Report]:
    """Those of `--group`, or with `--all-groups` all there are."""
    if not line.has("all-groups"):
        return line.all("group"), Report()
    groups, report = await list_consumer_groups(admin)
    return tuple(each.group_id for each in groups), report


def in_order(group_ids: Iterable[GroupId], line: CommandLine) -> list[GroupId]:
    """By name; when strict, as Apache's tool has them in a HashMap."""
    ordered = sorted(group_ids)
    return hash_map_order(ordered, string_hash) if line.is_strict else ordered
