"""`--delete`: whole groups, each with its own outcome (D-40..D-43).

With `--dry-run` nothing is deleted, which Apache's tool does all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.groups import groups_meant, in_order
from coterie.cli.kafka_consumer_groups.java import as_exception
from coterie.cli.kafka_consumer_groups.report import Report, failure, said
from coterie.client.admin.results import Results
from coterie.errors import ApiError
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode


async def run(admin: Admin, line: CommandLine) -> Report:
    """Delete the groups, or say what would become of them."""
    group_ids, report = await groups_meant(admin, line)
    if line.has("dry-run"):
        return report + _foreseen(await _foresee(admin, group_ids), line)
    return report + _outcome(await admin.delete_groups(group_ids), line)


def _outcome(results: Results[GroupId, None], line: CommandLine) -> Report:
    deleted = _quoted(in_order(results.values, line))
    if not results.errors:
        return said(
            f"Deletion of requested consumer groups ({deleted}) was successful.\n"
        )
    report = failure("Deletion of some consumer groups failed:", on_stdout=True)
    report += _failed(results, line, "could not be deleted")
    if deleted:
        report += said(
            f"\nThese consumer groups were deleted successfully: {deleted}\n"
        )
    return report


def _foreseen(results: Results[GroupId, None], line: CommandLine) -> Report:
    groups = _quoted(in_order(results.values, line))
    report = said(f"Dry run: these consumer groups would be deleted: {groups or '-'}\n")
    return report + _failed(results, line, "would not be deleted")


def _failed(results: Results[GroupId, None], line: CommandLine, what: str) -> Report:
    lines = (
        f"* Group '{each}' {what} due to: {as_exception(results.errors[each])}\n"
        for each in in_order(results.errors, line)
    )
    return Report(said("".join(lines)).parts, failed=bool(results.errors))


async def _foresee(
    admin: Admin, group_ids: Iterable[GroupId]
) -> Results[GroupId, None]:
    """What deleting would come to, as far as their states tell."""
    described = await admin.describe_groups(group_ids)
    active = [each for each in described.values.values() if each.state.is_active]
    refused = {
        each.group_id: ApiError(ErrorCode.NON_EMPTY_GROUP, f"it is {each.state.value}")
        for each in active
    }
    would_go = dict.fromkeys(each for each in described.values if each not in refused)
    return Results(would_go, {**described.errors, **refused})


def _quoted(group_ids: Iterable[GroupId]) -> str:
    return ", ".join(f"'{each}'" for each in group_ids)
