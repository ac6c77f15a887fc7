"""`coterie transactions find-hanging` and `abort` (KIP-664)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from coterie import client
from coterie import operations as ops
from coterie.cli import command
from coterie.cli.changes import Change, show_or_write
from coterie.cli.durations import whole_duration_of
from coterie.cli.output import outcome as out
from coterie.cli.transactions.list import time_text
from coterie.cli.transactions.producers import choose_partitions, partition_failures
from coterie.errors import CoterieError, OperationRefused, SettingError
from coterie.types import TopicPartition

_OLDER_THAN_MS: Final = 900_000
"""The default of the broker setting `transaction.max.timeout.ms`."""


def _declare_search(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "partitions",
        metavar="TOPIC[:0,1,2]",
        nargs="*",
        help="topic, or some partitions of it",
    )
    add("--all", action="store_true", help="every partition, internal topics included")
    add(
        "--older-than",
        metavar="DURATION",
        type=whole_duration_of("milliseconds"),
        default=_OLDER_THAN_MS,
        help="time without a record of the transaction, as in 15m, at least "
        "transaction.max.timeout.ms of the brokers (default 15m)",
    )
    add(
        "--fail-if-found",
        action="store_true",
        help="exit code 3 when a transaction hangs",
    )


def find_hanging(options: argparse.Namespace) -> int:
    """Find hanging transactions. Raises SettingError."""
    if options.all == bool(options.partitions):
        raise SettingError("name topics, or use --all for every partition")
    return command.run_on_cluster(options, _find_hanging)


async def _find_hanging(run: command.Run) -> out.Outcome:
    options = run.options
    partitions, failures = await choose_partitions(run)
    found = await run.admin.transactions.find_hanging(
        None if options.all else partitions,
        older_than_ms=options.older_than,
        progress=run.progress,
    )
    items = tuple(_hanging(run, each) for own in found.values.values() for each in own)
    notes = tuple(
        f"to end it: coterie transactions abort {each['topic']}:{each['partition']} "
        f"--start-offset {each['start_offset']} --execute"
        for each in items[:1]
    )
    return out.Outcome(
        schema="coterie.transactions.find-hanging",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("start_offset", "START-OFFSET"),
            out.Column("idle_ms", "IDLE", show=out.show_duration, drop=3),
            out.Column("producer_id", "PRODUCER-ID"),
            out.Column("producer_epoch", "EPOCH", drop=2),
            out.Column("coordinator_epoch", "COORDINATOR-EPOCH", is_wide=True),
            out.Column("last_time", "LAST-WRITE", is_wide=True, drop=3),
            out.Column("transactional_id", "TRANSACTIONAL-ID", role=out.Role.IDENTITY),
        ),
        items=items,
        failures=(*failures, *partition_failures(found.errors)),
        summary={"partitions": len(found.values), "hanging": len(items)},
        notes=notes or ("no hanging transaction was found",),
        is_condition_true=bool(options.fail_if_found and items),
    )


def _hanging(run: command.Run, each: client.HangingTransaction) -> out.Item:
    return {
        **_open(each.transaction),
        "idle_ms": max(run.io.now_ms() - each.last_timestamp_ms, 0),
        "last_time": time_text(each.last_timestamp_ms),
        "transactional_id": each.transactional_id,
        "error": None,
    }


FIND_HANGING: Final = command.Command(
    description="""\
Find hanging transactions: open in a partition, but unknown to their coordinator.

Consumers with isolation.level=read_committed stop at such a transaction, and nothing
ends it but `coterie transactions abort`. The search sends one request to each broker
for its partitions, and asks the coordinators about the producers that it finds.
""",
    examples="""\
examples:
  coterie transactions find-hanging --all
      in every partition of the cluster
  coterie transactions find-hanging orders payments:0 --older-than 1h
      in some partitions, without a record for an hour
  coterie transactions find-hanging --all --fail-if-found --output json
      for monitoring

exit codes: 0 success, 1 a partition or broker could not be checked, 2 usage error,
3 --fail-if-found is true
""",
    options=(_declare_search, *command.CLUSTER_OPTIONS),
    run=find_hanging,
)


# abort


def _declare_abort(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("partitions", metavar="TOPIC:PARTITION", help="partition")
    parser.add_argument(
        "--start-offset",
        metavar="OFFSET",
        type=int,
        required=True,
        help="first offset of the transaction, as find-hanging prints it",
    )
    group = command.add_execute_options(parser)
    group.add_argument(
        "--force",
        action="store_true",
        help="abort a transaction that its coordinator still has",
    )


def abort(options: argparse.Namespace) -> int:
    """Show or abort a transaction. Raises SettingError."""
    selector = ops.TopicSelector.parse(options.partitions)
    if selector.partitions is None or len(selector.partitions) != 1:
        raise SettingError(
            f"{options.partitions!r} is not one partition; write for example orders:0"
        )
    options.partitions = [options.partitions]
    return command.run_on_cluster(options, _abort)


async def _abort(run: command.Run) -> out.Outcome:
    options = run.options
    ((at,), _) = await choose_partitions(run)
    transaction = await _find_open(run, at)
    if not options.force:
        found = await run.admin.transactions.find_hanging([at], older_than_ms=0)
        if transaction not in (each.transaction for each in found.one(at)):
            raise _not_hanging(transaction)

    async def send(
        transactions: Sequence[client.OpenTransaction],
    ) -> Mapping[client.OpenTransaction, CoterieError]:
        return (await run.admin.transactions.abort(transactions)).errors

    change = Change(
        unit="transactions",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("start_offset", "START-OFFSET"),
            out.Column("producer_id", "PRODUCER-ID"),
            out.Column("producer_epoch", "EPOCH", drop=2),
        ),
        rows=[(transaction, _open(transaction))],
        done="aborted",
        question="Abort this transaction?",
        send=send,
    )
    return await show_or_write(run, change)


async def _find_open(run: command.Run, at: TopicPartition) -> client.OpenTransaction:
    states = (await run.admin.transactions.describe_producers([at])).one(at)
    for each in states:
        if each.transaction_start == run.options.start_offset:
            return client.OpenTransaction.of(at, each)
    others = [
        str(each.transaction_start)
        for each in states
        if each.transaction_start is not None
    ]
    known = f"open ones start at {', '.join(others)}" if others else "none is open"
    raise OperationRefused(
        f"{at.topic}:{at.partition} has no open transaction that starts at "
        f"{run.options.start_offset}; {known}"
    )


def _not_hanging(transaction: client.OpenTransaction) -> CoterieError:
    return OperationRefused(
        f"the transaction of producer {transaction.producer_id} does not hang: its "
        "coordinator has it, and ends it after the producer's time-out; see "
        f"`coterie transactions list --producer-id {transaction.producer_id}`. "
        "An abort marker in one partition would split it; use --force to write one"
    )


ABORT: Final = command.Command(
    description="""\
Abort a hanging transaction in one partition, by a marker that its leader writes.

Without --force only a transaction that its coordinator does not have is aborted: see
`coterie transactions find-hanging`. It needs CLUSTER_ACTION on the cluster.
""",
    examples="""\
examples:
  coterie transactions abort orders:0 --start-offset 1500
      show the transaction, and write nothing
  coterie transactions abort orders:0 --start-offset 1500 --execute
      abort it, after a question at a terminal

exit codes: 0 success, 1 the transaction does not hang, does not exist or could not be
aborted, 2 usage error
""",
    options=(_declare_abort, *command.CLUSTER_OPTIONS),
    run=abort,
)


def _open(transaction: client.OpenTransaction) -> dict[str, out.Json]:
    return {
        "topic": transaction.partition.topic,
        "partition": transaction.partition.partition,
        "start_offset": transaction.start,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "coordinator_epoch": transaction.coordinator_epoch,
    }
