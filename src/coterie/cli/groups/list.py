"""`coterie groups list` and `coterie groups members`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie import client
from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.groups.selection import (
    NO_GROUP,
    add_selection_options,
    leave_out,
    left_out_note,
    left_out_topics,
    read_selection,
    selection_failures,
)
from coterie.cli.output import outcome as out
from coterie.types import TopicPartition


async def list_groups(run: Run) -> out.Outcome:
    """Return a row for each selected group.

    A group that is named in the options and does not exist is a failure.
    """
    selection = read_selection(run.options)
    selected = await ops.select_groups(
        run.admin, selection, must_list=True, progress=run.progress
    )
    notes = () if selected.groups or selected.missing else (NO_GROUP,)
    if selected.report is not None:  # selected by offsets
        measured = [each.group_id for each in selected.report.groups if not each.error]
        notes = (*notes, *await left_out_topics(run.admin, measured))
    return out.Outcome(
        schema="coterie.groups.list",
        unit="groups",
        columns=(
            out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
            out.Column("group_type", "TYPE", drop=2),
            # A simple group has an empty protocol type: no member ever joined it.
            out.Column(
                "protocol_type",
                "PROTOCOL",
                show=lambda value: str(value) if value else "simple",
                drop=1,
            ),
            out.Column("state", "STATE"),
            out.Column("coordinator_id", "COORDINATOR", is_wide=True),
        ),
        items=tuple(_group_item(each) for each in selected.groups),
        failures=selection_failures(selected),
        summary={"groups": len(selected.groups)},
        notes=notes,
    )


def _group_item(group: client.GroupListing) -> out.Item:
    return {
        "group_id": group.group_id,
        "group_type": group.type.value if group.type else None,
        "protocol_type": group.protocol_type,
        "is_simple": group.is_simple,
        "state": group.state.value if group.state else None,
        "coordinator_id": group.coordinator_id,
        "error": None,
    }


LIST: Final = Command(
    description="""\
List the groups of a cluster: classic, consumer, share and streams groups.

States and types are filtered by the brokers. PROTOCOL is the protocol type; it is
"simple" for a group that no member ever joined: a client commits offsets to it without
group management.
""",
    examples="""\
examples:
  coterie groups list
      every group, with its type and state
  coterie groups list --glob 'orders-*' --exclude '*-test' --state Stable
      groups with active members, by name
  coterie groups list --topic payments
      groups that read a topic
  coterie groups list --empty --orphaned --output jsonl
      groups to delete: no members, and their topics no longer exist
  coterie groups list --lag '>10000'
      groups with a total lag above 10000
  coterie groups list --type share,streams
      share groups and groups of Kafka Streams, which exist from Kafka 4.2 on

exit codes: 0 success, 1 a broker or group could not be read, 2 usage error
""",
    options=(add_selection_options, *CLUSTER_OPTIONS),
    run=on_cluster(list_groups),
)


async def list_members(run: Run) -> out.Outcome:
    """Return a row for each member; a group that cannot be described is a failure."""
    selection = read_selection(run.options)
    selected = await ops.select_groups(run.admin, selection, progress=run.progress)
    described = await run.admin.groups.describe(selected.ids, progress=run.progress)
    groups = [
        described.values[each] for each in selected.ids if each in described.values
    ]
    items = tuple(
        _member_item(group, member)
        for group in groups
        for member in sorted(
            group.members, key=lambda each: (-len(each.assignment), each.member_id)
        )
    )
    errors = sorted(described.errors.items())
    others = leave_out(
        run.options,
        (
            *selection_failures(selected),
            *(out.Failure.of("group", group_id, error) for group_id, error in errors),
        ),
    )
    has_tasks = any(each.topology is not None for each in groups)
    empty = [each.group_id for each in groups if not each.members]
    return out.Outcome(
        schema="coterie.groups.members",
        unit="members",
        columns=(
            out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
            out.Column("member_id", "CONSUMER-ID", role=out.Role.ID),
            out.Column("instance_id", "INSTANCE-ID", role=out.Role.ID, drop=3),
            out.Column("host", "HOST", role=out.Role.ID, drop=1),
            out.Column("client_id", "CLIENT-ID", role=out.Role.ID, drop=2),
            out.Column("partitions", "#PARTITIONS", drop=4),
            out.Column("tasks", "TASKS", is_wide=not has_tasks, show=_show_tasks),
            out.Column("protocol", "PROTOCOL", is_wide=True),
            out.Column("member_epoch", "EPOCH", is_wide=True),
            out.Column("group_epoch", "GROUP-EPOCH", is_wide=True),
            out.Column("generation_id", "GENERATION", is_wide=True),
            out.Column("is_leader", "LEADER", is_wide=True),
            out.Column("assignor", "ASSIGNOR", is_wide=True),
            out.Column("offers", "OFFERS", is_wide=True),
            out.Column("assignment", "ASSIGNMENT", is_wide=True, role=out.Role.TEXT),
            out.Column("target_assignment", "TARGET", is_wide=True, role=out.Role.TEXT),
            out.Column(
                "subscribed_topics", "SUBSCRIPTION", is_wide=True, role=out.Role.TEXT
            ),
            out.Column("subscribed_topic_regex", "REGEX", is_wide=True),
            out.Column("target_tasks", "TARGET-TASKS", is_wide=True, show=_show_tasks),
            out.Column("process_id", "PROCESS", is_wide=True, role=out.Role.ID),
            out.Column("rack_id", "RACK", is_wide=True, role=out.Role.ID),
        ),
        items=items,
        failures=others.kept,
        summary={"groups": len(groups), "members": len(items)},
        notes=(
            *([] if selected.ids else [NO_GROUP]),
            *([f"no active members in {out.first_names(empty)}"] if empty else []),
            *left_out_note(others.ids),
        ),
    )


def _member_item(
    group: client.GroupDescription, member: client.MemberDescription
) -> out.Item:
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
        "protocol": _member_protocol(group, member),
        "partitions": len(member.assignment),
        "assignment": _by_topic(member.assignment),
        "target_assignment": _by_topic(member.target_assignment),
        "member_epoch": member.epoch,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "generation_id": group.generation_id,
        "is_leader": None if leader is None else member.member_id == leader,
        "assignor": group.assignor or None,
        "offers": _list_or_none(member.protocols),
        "subscribed_topics": _list_or_none(member.subscribed_topics),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "tasks": _task_names(member.tasks),
        "target_tasks": _task_names(member.target_tasks),
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "error": None,
    }


def _member_protocol(
    group: client.GroupDescription, member: client.MemberDescription
) -> str | None:
    """Return the protocol of a member; None when the broker does not report it."""
    if group.group_epoch is None:
        return "classic"
    if group.protocol_type == "share":
        return "share"
    if member.is_classic is None:
        return None
    return "classic" if member.is_classic else group.protocol_type


def _task_names(tasks: client.Tasks | None) -> out.Json:
    if tasks is None:
        return None
    return {
        "active": list(map(str, tasks.active)),
        "standby": list(map(str, tasks.standby)),
        "warmup": list(map(str, tasks.warmup)),
    }


def _show_tasks(value: out.Json) -> str:
    """Return the names of tasks, as in "0_0,0_1 standby:1_0"."""
    if not isinstance(value, Mapping):
        return out.MISSING
    words = []
    for kind, names in value.items():
        if isinstance(names, list) and names:
            text = ",".join(map(str, names))
            words.append(text if kind == "active" else f"{kind}:{text}")
    return " ".join(words) or out.MISSING


def _by_topic(partitions: Iterable[TopicPartition] | None) -> out.Json:
    if partitions is None:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _list_or_none(names: Iterable[str] | None) -> out.Json:
    return None if names is None else list(names)


MEMBERS: Final = Command(
    description="""\
List the members of groups of every type.

EPOCH, TARGET and REGEX exist in the consumer protocol (KIP-848); there a member whose
PROTOCOL is classic has not been upgraded yet. A classic group has a GENERATION instead.
A streams group has TASKS, subtopology_partition, whose partitions are counted in
#PARTITIONS; several members of a share group may have the same partition.
OFFERS are the assignors that a classic member supports: Coterie reports them, Apache
Kafka does not. A value that the broker does not report is "-", or null.
""",
    examples="""\
examples:
  coterie groups members orders
      the members of one group
  coterie groups members orders --wide
      with epochs, assigned partitions, target assignment and subscription
  coterie groups members --type consumer --output csv
      the members of every group of the consumer protocol
  coterie groups members --topic payments
      the members of groups that read a topic

exit codes: 0 success, 1 something could not be read, 2 usage error
""",
    options=(add_selection_options, *CLUSTER_OPTIONS),
    run=on_cluster(list_members),
)
