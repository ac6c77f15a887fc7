"""`coterie topics create`, `delete` and `alter`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from coterie import client
from coterie.cli import command
from coterie.cli.changes import KEYS_PER_REQUEST, Change, show_or_write
from coterie.cli.durations import whole_number
from coterie.cli.output import outcome as out
from coterie.cli.topics import selection
from coterie.errors import CoterieError, OperationRefused, code_of
from coterie.types import TopicName


def _declare_new_topics(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("topics", metavar="NAME", nargs="+", help="name of a new topic")
    add(
        "--partitions",
        metavar="N",
        type=whole_number("a count"),
        help="number of partitions (default: num.partitions of the broker)",
    )
    add(
        "--replication-factor",
        metavar="N",
        type=whole_number("a count"),
        help="number of replicas (default: default.replication.factor of the broker)",
    )
    selection.add_config_option(parser, "NAME=VALUE", "configuration of the topics")
    add(
        "--if-not-exists",
        action="store_true",
        help="success for a topic that exists, which is not changed",
    )
    add(
        "--validate-only",
        action="store_true",
        help="let the brokers validate the topics, and create none",
    )


def create_topics(options: argparse.Namespace) -> int:
    """Create the topics of the options. Raises SettingError."""
    selection.read_configs(options.configs)  # Report a usage error before connecting.
    return command.run_on_cluster(options, _create_topics)


async def _create_topics(run: command.Run) -> out.Outcome:
    """Create or validate topics; return a row for each."""
    options = run.options
    configs = selection.read_configs(options.configs)
    names = list(dict.fromkeys(options.topics))
    items: list[out.Item] = []
    notes: list[str] = []
    for start in range(0, len(names), KEYS_PER_REQUEST):
        chunk = names[start : start + KEYS_PER_REQUEST]
        new = [
            client.NewTopic(
                name, options.partitions, options.replication_factor, configs
            )
            for name in chunk
        ]
        results = await run.admin.topics.create(
            new, validate_only=options.validate_only
        )
        for name in chunk:
            error = results.errors.get(name)
            item = _created_item(run, name, results.values.get(name), error)
            items.append(item)
            if item["error"]:
                notes.append(f"error: {error}")
    return out.Outcome(
        schema="coterie.topics.create",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partitions", "#PARTITIONS"),
            out.Column("replication_factor", "#REPLICAS"),
            out.Column("result", "RESULT"),
            out.Column("error", "ERROR", is_wide=not notes, show=out.show_error),
        ),
        items=tuple(items),
        summary={"executed": not options.validate_only, "topics": len(items)},
        notes=tuple(notes),
    )


def _created_item(
    run: command.Run,
    name: TopicName,
    created: client.CreatedTopic | None,
    error: CoterieError | None,
) -> out.Item:
    options = run.options
    exists = code_of(error) is client.ErrorCode.TOPIC_ALREADY_EXISTS
    if exists and options.if_not_exists:
        error, result = None, "exists"
    elif error:
        result = "failed"
    else:
        result = "valid" if options.validate_only else "created"
    return {
        "topic": name,
        "partitions": created.partitions if created else None,
        "replication_factor": created.replication_factor if created else None,
        "result": result,
        "error": out.error_item(error),
    }


CREATE: Final = command.Command(
    description="""\
Create topics.

Topics of one command have the same number of partitions, replicas and configurations.
Nothing is overwritten, so there is no question and no --execute: --validate-only lets
the brokers validate the topics instead.
""",
    examples="""\
examples:
  coterie topics create orders
      with the broker's numbers of partitions and replicas
  coterie topics create orders refunds --partitions 6 --replication-factor 3
      two topics
  coterie topics create users --config cleanup.policy=compact --config segment.ms=60000
      with configurations
  coterie topics create orders --partitions 6 --if-not-exists
      in a script that runs again

exit codes: 0 success, 1 a topic could not be created, 2 usage error
""",
    options=(_declare_new_topics, *command.CLUSTER_OPTIONS),
    run=create_topics,
)


# delete


def _declare_delete(parser: argparse.ArgumentParser) -> None:
    selection.add_topic_options(parser)
    parser.add_argument(
        "--if-exists",
        action="store_true",
        help="success for a named topic that does not exist",
    )


def delete_topics(options: argparse.Namespace) -> int:
    """Show the selected topics, or delete them. Raises SettingError."""
    selection.check_topic_options(options)
    return command.run_on_cluster(options, _delete_topics)


async def _delete_topics(run: command.Run) -> out.Outcome:
    chosen = await selection.choose_topics(run)
    keys = [key for each in chosen.topics for key in each.all_partitions]
    starts = await run.admin.logs.list_offsets(dict.fromkeys(keys, client.EARLIEST))
    ends = await run.admin.logs.list_offsets(dict.fromkeys(keys, client.LATEST))

    def records(topic: client.TopicDescription) -> int | None:
        """Return the number of records as far as offsets tell; None when unknown."""
        owned = topic.all_partitions
        if any(key in starts.errors or key in ends.errors for key in owned):
            return None
        return sum(ends.one(key).offset - starts.one(key).offset for key in owned)

    async def send(names: Collection[TopicName]) -> Mapping[TopicName, CoterieError]:
        return (await run.admin.topics.delete(names)).errors

    failures = chosen.failures
    if run.options.if_exists:
        unknown = "UNKNOWN_TOPIC_OR_PARTITION"
        failures = tuple(each for each in failures if each.code != unknown)
    count = sum(1 for each in chosen.topics if not each.is_internal)
    which = "this topic" if count == 1 else f"these {count} topics"
    change = Change(
        unit="topics",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partitions", "#PARTITIONS"),
            out.Column("records", "#RECORDS"),
        ),
        rows=[
            (
                each.name,
                {
                    "topic": each.name,
                    "partitions": len(each.partitions),
                    "records": records(each),
                },
            )
            for each in chosen.topics
        ],
        done="deleted",
        question=f"Delete {which} with all records?",
        send=send,
        failures=failures,
        refused={
            each.name: OperationRefused(
                f"topic {each.name} is internal: Kafka's brokers need it; it is not "
                "deleted"
            )
            for each in chosen.topics
            if each.is_internal
        },
    )
    return await show_or_write(run, change)


DELETE: Final = command.Command(
    description="""\
Delete topics with all their records. It cannot be undone.

Internal topics are refused. Without --execute, the topics are only shown.
""",
    examples="""\
examples:
  coterie topics delete orders-test
      show the topic and the number of its records
  coterie topics delete orders-test --execute
      delete it, after a question at a terminal
  coterie topics delete --glob 'test-*' --exclude 'test-keep*'
      show the topics that match a pattern
  coterie topics delete orders-test --if-exists --yes
      in a script

exit codes: 0 success, 1 a topic could not be deleted, 2 usage error
""",
    options=(_declare_delete, command.add_execute_options, *command.CLUSTER_OPTIONS),
    run=delete_topics,
)


# alter


def _declare_alter(parser: argparse.ArgumentParser) -> None:
    selection.add_topic_options(parser)
    parser.add_argument(
        "--partitions",
        metavar="N",
        type=whole_number("a count"),
        required=True,
        help="new number of partitions, greater than the current one",
    )


def alter_topics(options: argparse.Namespace) -> int:
    """Show the change of the selected topics, or write it. Raises SettingError."""
    selection.check_topic_options(options)
    return command.on_cluster(_alter_topics)(options)


async def _alter_topics(run: command.Run) -> out.Outcome:
    chosen = await selection.choose_topics(run)
    count = run.options.partitions

    async def send(
        names: Collection[TopicName], validate_only: bool = False
    ) -> Mapping[TopicName, CoterieError]:
        counts = dict.fromkeys(names, count)
        results = await run.admin.topics.create_partitions(
            counts, validate_only=validate_only
        )
        return results.errors

    change = Change(
        unit="topics",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partitions", "#PARTITIONS"),
            out.Column("new_partitions", "NEW-#PARTITIONS"),
        ),
        rows=[
            (
                each.name,
                {
                    "topic": each.name,
                    "partitions": len(each.partitions),
                    "new_partitions": count,
                },
            )
            for each in chosen.topics
        ],
        done="altered",
        question="Add these partitions? It cannot be undone.",
        send=send,
        validate=partial(send, validate_only=True),
        failures=chosen.failures,
        notes=(
            "new records of a key may get another partition than its earlier records",
        ),
    )
    return await show_or_write(run, change)


ALTER: Final = command.Command(
    description="""\
Increase the number of partitions of topics. It cannot be undone.

The partition of a key depends on the number of partitions, so new records of a key may
not follow its earlier ones. Without --execute, the brokers validate the change, and it
is only shown.
""",
    examples="""\
examples:
  coterie topics alter orders --partitions 12
      validate and show the change
  coterie topics alter orders --partitions 12 --execute
      write it, after a question at a terminal

exit codes: 0 success, 1 a topic could not be altered, 2 usage error
""",
    options=(_declare_alter, command.add_execute_options, *command.CLUSTER_OPTIONS),
    run=alter_topics,
)
