"""`--delete` and `--delete-offsets`.

With `--dry-run` nothing is deleted. kafka-consumer-groups.sh ignores `--dry-run` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie import client
from coterie import operations as ops
from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.command_line import CommandLine, selectors
from coterie.cli.kafka_consumer_groups.describe import selected_groups
from coterie.cli.kafka_consumer_groups.java import as_exception, message_of
from coterie.cli.kafka_consumer_groups.report import Report, error, output
from coterie.cli.kafka_consumer_groups.tables import StatusRow
from coterie.errors import ApiError, CoterieError, code_of
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode

_GROUP_ERRORS: Final = {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
}
_PARTITION_ERRORS: Final = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


async def delete_groups(admin: client.AdminClient, line: CommandLine) -> Report:
    """Run `--delete`: each group has its own outcome (D-40..D-43)."""
    group_ids, report = await selected_groups(admin, line)
    if line.has("dry-run"):
        expected = await _expected_results(admin, group_ids)
        groups = _quote(expected.values) or "-"
        return (
            report
            + output(f"Dry run: these consumer groups would be deleted: {groups}\n")
            + _group_errors(expected, "would not be deleted")
        )
    results = await admin.groups.delete(group_ids)
    deleted = _quote(results.values)
    if not results.errors:
        return report + output(
            f"Deletion of requested consumer groups ({deleted}) was successful.\n"
        )
    report += error("Deletion of some consumer groups failed:", on_stdout=True)
    report += _group_errors(results, "could not be deleted")
    if deleted:
        report += output(
            f"\nThese consumer groups were deleted successfully: {deleted}\n"
        )
    return report


async def _expected_results(
    admin: client.AdminClient, group_ids: Iterable[GroupId]
) -> client.Results[GroupId, None]:
    """Return the results to expect from the states of the groups."""
    described = await admin.groups.describe(group_ids)
    active = [each for each in described.values.values() if each.state.is_active]
    refused = {
        each.group_id: ApiError(ErrorCode.NON_EMPTY_GROUP, f"it is {each.state.value}")
        for each in active
    }
    deletable = dict.fromkeys(each for each in described.values if each not in refused)
    return client.Results(deletable, {**described.errors, **refused})


def _group_errors(results: client.Results[GroupId, None], what: str) -> Report:
    lines = (
        f"* Group '{each}' {what} due to: {as_exception(results.errors[each])}\n"
        for each in sorted(results.errors)
    )
    return Report(output("".join(lines)).parts, failed=bool(results.errors))


def _quote(group_ids: Iterable[GroupId]) -> str:
    return ", ".join(f"'{each}'" for each in sorted(group_ids))


async def delete_offsets(admin: client.AdminClient, line: CommandLine) -> Report:
    """Run `--delete-offsets`: of one group, by topic or partition (C-65, D-45)."""
    (group_id,) = line.all("group")
    resolved = await ops.resolve_partitions(admin, selectors(line))
    unknown = {TopicPartition(topic, -1): each for topic, each in resolved.errors}
    if line.has("dry-run"):
        expected = client.Results(dict.fromkeys(resolved.partitions), unknown)
        return output("Dry run: nothing is deleted.\n") + _status_table(expected)
    try:
        results = await admin.group_offsets.delete(group_id, resolved.partitions)
    except CoterieError as failure:
        everything = dict.fromkeys(resolved.partitions, failure)
        everything |= unknown
        return _headline(failure) + _status_table(client.Results({}, everything))
    errors: Mapping[TopicPartition, CoterieError] = {**results.errors, **unknown}
    table = _status_table(client.Results(results.values, errors))
    if errors:
        return _headline(next(iter(errors.values()))) + table
    headline = f"Request succeeded for deleting offsets from group {group_id}.\n"
    return output(headline) + table


def _headline(failure: CoterieError) -> Report:
    code = code_of(failure)
    if code in _GROUP_ERRORS:
        text = message_of(failure)
    elif code in _PARTITION_ERRORS:
        text = "Encountered some partition-level error, see the follow-up details."
    else:
        what = failure if code is None else code.name
        text = f"Encountered some unknown error: {what}"
    return error(text, on_stdout=True)


def _status_table(results: client.Results[TopicPartition, None]) -> Report:
    rows = [StatusRow(*partition, "Successful") for partition in results.values]
    rows += [
        StatusRow(*partition, f"Error: {as_exception(each)}")
        for partition, each in results.errors.items()
    ]
    return output(tables.deleted_offsets(sorted(rows)))
