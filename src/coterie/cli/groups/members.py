"""Show the members of groups, of both protocols.

EPOCH, TARGET and REGEX are those of KIP-848; a member whose PROTOCOL is classic there
has not been upgraded yet. A classic group has a generation instead, and OFFERS are the
assignors that its member knows: Coterie tells them, Apache Kafka does not. What a
broker does not say is "-", or null.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coterie.cli.output.values import Item, Json, Outcome
    from coterie.cli.running import Run
    from coterie.client.admin.group_values import GroupDescription, MemberDescription
    from coterie.types import TopicPartition

EXAMPLES: Final = """\
examples:
  coterie groups members orders
      who is in a group
  coterie groups members orders --wide
      with epochs, what each owns, is to own, and subscribed to
  coterie groups members --type consumer --output csv
      the members of every group of KIP-848
  coterie groups members --topic payments
      the members of groups that read a topic

exit codes: 0 all was read, 1 some of it was not, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_selection_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Show them."""
    from coterie.cli.running import run_command

    return run_command(options, look)


async def look(run: Run) -> Outcome:
    """A row for each member; a group that failed is a failure."""
    from coterie.cli.groups.selecting import (
        NO_GROUP,
        first_names,
        read_selection,
        selection_failures,
    )
    from coterie.cli.output.values import Column, Failure, Outcome
    from coterie.operations.select import select_groups

    selection = read_selection(run.options)
    selected = await select_groups(run.admin, selection, progress=run.progress)
    described = await run.admin.describe_groups(selected.ids, progress=run.progress)
    found = described.values
    groups = [found[each] for each in selected.ids if each in found]
    items = tuple(_item(group, each) for group in groups for each in _sorted(group))
    errors = sorted(described.errors.items())
    empty = [each.group_id for each in groups if not each.members]
    return Outcome(
        schema="coterie.groups.members",
        columns=(
            Column("group_id", "GROUP"),
            Column("member_id", "CONSUMER-ID"),
            Column("instance_id", "INSTANCE-ID"),
            Column("host", "HOST"),
            Column("client_id", "CLIENT-ID"),
            Column("partitions", "#PARTITIONS"),
            Column("protocol", "PROTOCOL", is_wide=True),
            Column("member_epoch", "EPOCH", is_wide=True),
            Column("group_epoch", "GROUP-EPOCH", is_wide=True),
            Column("generation_id", "GENERATION", is_wide=True),
            Column("is_leader", "LEADER", is_wide=True),
            Column("assignor", "ASSIGNOR", is_wide=True),
            Column("offers", "OFFERS", is_wide=True),
            Column("assignment", "ASSIGNMENT", is_wide=True),
            Column("target_assignment", "TARGET", is_wide=True),
            Column("subscribed_topics", "SUBSCRIPTION", is_wide=True),
            Column("subscribed_topic_regex", "REGEX", is_wide=True),
            Column("rack_id", "RACK", is_wide=True),
        ),
        items=items,
        failures=(
            *selection_failures(selected),
            *(Failure.of("group", group_id, error) for group_id, error in errors),
        ),
        summary={"groups": len(groups), "members": len(items)},
        notes=(
            *([] if selected.ids else [NO_GROUP]),
            *([f"no active members in {first_names(empty)}"] if empty else []),
        ),
    )


def _sorted(group: GroupDescription) -> list[MemberDescription]:
    """Who owns most comes first."""
    return sorted(group.members, key=lambda one: (-len(one.assignment), one.member_id))


def _item(group: GroupDescription, member: MemberDescription) -> Item:
    leader = group.leader_id
    return {
        "group_id": group.group_id,
        "group_type": group.type.value,
        "state": group.state.value,
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack_id": member.rack_id,
        "protocol": _protocol(group, member),
        "partitions": len(member.assignment),
        "assignment": _by_topic(member.assignment),
        "target_assignment": _by_topic(member.target_assignment),
        "member_epoch": member.epoch,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "generation_id": group.generation_id,
        "is_leader": None if leader is None else member.member_id == leader,
        "assignor": group.assignor or None,
        "offers": _listed(member.protocols),
        "subscribed_topics": _listed(member.subscribed_topics),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "error": None,
    }


def _protocol(group: GroupDescription, member: MemberDescription) -> str | None:
    """Which protocol a member speaks; None when a broker of 4.0 does not say."""
    if group.group_epoch is None:
        return "classic"
    if member.is_classic is None:
        return None
    return "classic" if member.is_classic else "consumer"


def _by_topic(partitions: Iterable[TopicPartition] | None) -> Json:
    if partitions is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _listed(names: Iterable[str] | None) -> Json:
    return None if names is None else list(names)
