"""`coterie transactions producers`, and the partitions that commands name (KIP-664)."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

from coterie import client
from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.output import outcome as out
from coterie.cli.transactions.list import time_text
from coterie.errors import CoterieError
from coterie.types import TopicPartition


def _declare_partitions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "partitions",
        metavar="TOPIC[:0,1,2]",
        nargs="+",
        help="topic, or some partitions of it",
    )


async def list_producers(run: Run) -> out.Outcome:
    """Return a row for each producer of each partition."""
    partitions, failures = await choose_partitions(run)
    described = await run.admin.transactions.describe_producers(
        partitions, progress=run.progress
    )
    return out.Outcome(
        schema="coterie.transactions.producers",
        columns=(
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("producer_id", "PRODUCER-ID"),
            out.Column("producer_epoch", "EPOCH", drop=2),
            out.Column("last_sequence", "LAST-SEQUENCE", drop=1),
            out.Column("last_time", "LAST-WRITE", drop=3),
            out.Column("transaction_start", "OPEN-SINCE-OFFSET"),
            out.Column("coordinator_epoch", "COORDINATOR-EPOCH", is_wide=True),
        ),
        items=tuple(
            _producer(at, each)
            for at, states in described.values.items()
            for each in states
        ),
        failures=(*failures, *partition_failures(described.errors)),
        summary={"partitions": len(described.values)},
    )


def _producer(at: TopicPartition, each: client.ProducerState) -> out.Item:
    return {
        "topic": at.topic,
        "partition": at.partition,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "last_sequence": each.last_sequence,
        "last_time": time_text(each.last_timestamp_ms),
        "transaction_start": each.transaction_start,
        "coordinator_epoch": each.coordinator_epoch,
        "error": None,
    }


PRODUCERS: Final = Command(
    description="""\
List the producers with recent records in partitions, and their open transactions.

Only idempotent and transactional producers are known to brokers.
""",
    examples="""\
examples:
  coterie transactions producers orders
      the producers of every partition of a topic
  coterie transactions producers orders:0,1 --wide
      of two partitions, with every column

exit codes: 0 success, 1 a partition could not be described, 2 usage error
""",
    options=(_declare_partitions, *CLUSTER_OPTIONS),
    run=on_cluster(list_producers),
)


async def choose_partitions(
    run: Run,
) -> tuple[tuple[TopicPartition, ...], tuple[out.Failure, ...]]:
    """Return the partitions that the options name, and the failures of topics."""
    selectors = [ops.TopicSelector.parse(each) for each in run.options.partitions]
    chosen = await ops.resolve_partitions(run.admin, selectors)
    failures = (out.Failure.of("topic", *each) for each in chosen.errors)
    return chosen.partitions, tuple(failures)


def partition_failures(
    errors: Mapping[TopicPartition, CoterieError],
) -> tuple[out.Failure, ...]:
    return tuple(
        out.Failure.of("partition", f"{at.topic}:{at.partition}", error)
        for at, error in errors.items()
    )
