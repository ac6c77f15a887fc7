"""`--delete-offsets`: what one group committed for topics, or partitions of them (C-65,
D-45)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.java import as_exception, message_of
from coterie.cli.kafka_consumer_groups.report import Report, failure, said
from coterie.cli.kafka_consumer_groups.tables import StatusRow
from coterie.cli.kafka_consumer_groups.topics import selectors
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError
from coterie.operations.scope import find_partitions
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

_OF_THE_GROUP: Final = {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
}
_OF_A_PARTITION: Final = {
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


async def run(admin: Admin, line: CommandLine) -> Report:
    """Delete the offsets of the one group; with `--dry-run`, say which."""
    (group_id,) = line.all("group")
    found = await find_partitions(admin, selectors(line))
    unknown = {TopicPartition(topic, -1): error for topic, error in found.errors}
    if line.has("dry-run"):
        would_go = Results(dict.fromkeys(found.partitions), unknown)
        return said("Dry run: nothing is deleted.\n") + _table(would_go, line)
    try:
        results = await admin.delete_group_offsets(group_id, found.partitions)
    except CoterieError as error:
        everything = dict.fromkeys(found.partitions, error)
        return _headline(error) + _table(Results({}, {**everything, **unknown}), line)
    errors: Mapping[TopicPartition, CoterieError] = {**results.errors, **unknown}
    outcome = Results(results.values, errors)
    if not errors:
        headline = said(
            f"Request succeeded for deleting offsets from group {group_id}.\n"
        )
    else:
        headline = _headline(next(iter(errors.values())))
    return headline + _table(outcome, line)


def _headline(error: CoterieError) -> Report:
    code = error.code if isinstance(error, ApiError) else None
    if code in _OF_THE_GROUP:
        text = message_of(error)
    elif code in _OF_A_PARTITION:
        text = "Encountered some partition-level error, see the follow-up details."
    else:
        what = error if code is None else code.name
        text = f"Encountered some unknown error: {what}"
    return failure(text, on_stdout=True)


def _table(results: Results[TopicPartition, None], line: CommandLine) -> Report:
    rows = [StatusRow(*partition, "Successful") for partition in results.values]
    rows += [
        StatusRow(*partition, f"Error: {as_exception(error)}")
        for partition, error in results.errors.items()
    ]
    # Apache's tool sorts partitions as text: 0, 1, 10, 2.
    rows.sort(key=lambda row: f"{row.topic}{row.partition}" if line.is_strict else "")
    if not line.is_strict:
        rows.sort()
    return said(tables.deleted_offsets(rows))
