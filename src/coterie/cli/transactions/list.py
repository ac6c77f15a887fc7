"""`coterie transactions list` and `describe` (KIP-664)."""

from __future__ import annotations

import argparse
from typing import Final

from coterie import client
from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.durations import whole_duration_of
from coterie.cli.output import outcome as out

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
_OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


def _declare_filters(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("filters", "A transaction matches all of them.")
    add = group.add_argument
    add(
        "--state",
        dest="states",
        action="append",
        choices=_STATES,
        help="state; may be repeated",
    )
    add(
        "--producer-id",
        metavar="ID",
        dest="producer_ids",
        action="append",
        type=int,
        help="producer id; may be repeated",
    )
    add(
        "--running-for",
        metavar="DURATION",
        type=whole_duration_of("milliseconds", least=1),
        help="open transactions that are older, as in 10m (brokers of Kafka 3.8)",
    )
    add(
        "--regex",
        metavar="REGEX",
        help="regular expression of transactional ids (brokers of Kafka 4.1)",
    )


async def list_transactions(run: Run) -> out.Outcome:
    """Return a row for each transaction that matches the filters."""
    options = run.options
    # Brokers compare the start, which complete transactions have, too.
    states = options.states or (_OPEN_STATES if options.running_for else ())
    listed = await run.admin.transactions.list(
        states=[client.TransactionState.read(each) for each in states],
        producer_ids=options.producer_ids or (),
        running_ms=options.running_for,
        id_pattern=options.regex,
    )
    return out.Outcome(
        schema="coterie.transactions.list",
        columns=(
            out.Column("transactional_id", "TRANSACTIONAL-ID", role=out.Role.IDENTITY),
            out.Column("state", "STATE"),
            out.Column("producer_id", "PRODUCER-ID"),
            out.Column("coordinator_id", "COORDINATOR", drop=1),
        ),
        items=tuple(
            {
                "transactional_id": each.transactional_id,
                "state": each.state.value,
                "producer_id": each.producer_id,
                "coordinator_id": each.coordinator_id,
                "error": None,
            }
            for each in listed.transactions
        ),
        failures=tuple(
            out.Failure.of("node", node_id, error)
            for node_id, error in listed.errors.items()
        ),
        summary={"transactions": len(listed.transactions)},
    )


LIST: Final = Command(
    description="""\
List transactions: the last one of each transactional id.

The last transaction of an idle producer is complete; an open one is Ongoing.
""",
    examples="""\
examples:
  coterie transactions list
      every transactional id of the cluster
  coterie transactions list --state Ongoing --running-for 10m
      transactions that are open for over ten minutes
  coterie transactions list --producer-id 4001 --output json
      the transactional id of a producer, for programs

exit codes: 0 success, 1 a broker could not list its transactions, 2 usage error
""",
    options=(_declare_filters, *CLUSTER_OPTIONS),
    run=on_cluster(list_transactions),
)


# describe


def _declare_ids(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="transactional id")


async def describe_transactions(run: Run) -> out.Outcome:
    """Return a row for each transactional id."""
    described = await run.admin.transactions.describe(run.options.ids)
    return out.Outcome(
        schema="coterie.transactions.describe",
        columns=(
            out.Column("transactional_id", "TRANSACTIONAL-ID", role=out.Role.IDENTITY),
            out.Column("state", "STATE"),
            out.Column("duration_ms", "DURATION", show=out.show_duration),
            out.Column("timeout_ms", "TIMEOUT", show=out.show_duration, drop=3),
            out.Column("producer_id", "PRODUCER-ID"),
            out.Column("producer_epoch", "EPOCH", drop=2),
            out.Column("coordinator", "COORDINATOR", role=out.Role.ID, drop=1),
            out.Column("started", "STARTED", is_wide=True),
            out.Column(
                "partitions", "PARTITIONS", show=_show_partitions, role=out.Role.TEXT
            ),
        ),
        items=tuple(_described(run, each) for each in described.values.values()),
        failures=tuple(
            out.Failure("transaction", name, out.error_name(error), str(error))
            for name, error in described.errors.items()
        ),
        summary={"transactions": len(described.values)},
    )


def _described(run: Run, each: client.TransactionDescription) -> out.Item:
    started = each.started_ms
    duration_ms = None
    if started is not None and each.state.value in _OPEN_STATES:
        duration_ms = max(run.io.now_ms() - started, 0)
    return {
        "transactional_id": each.transactional_id,
        "state": each.state.value,
        "duration_ms": duration_ms,
        "timeout_ms": each.timeout_ms,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "coordinator": str(each.coordinator),
        "coordinator_id": each.coordinator.node_id,
        "started": time_text(started),
        "partitions": [f"{at.topic}:{at.partition}" for at in each.partitions],
        "error": None,
    }


DESCRIBE: Final = Command(
    description="Describe the current or last transaction of transactional ids.",
    examples="""\
examples:
  coterie transactions describe payments-1
      state, age and partitions of one transaction
  coterie transactions describe payments-1 payments-2 --output json
      several, with every field

exit codes: 0 success, 1 a transactional id does not exist or could not be described,
2 usage error
""",
    options=(_declare_ids, *CLUSTER_OPTIONS),
    run=on_cluster(describe_transactions),
)


def time_text(at_ms: int | None) -> str | None:
    """Return a time in ISO 8601, or as a number after the year 9999; None for an
    unknown one."""
    try:
        return None if at_ms is None or at_ms < 0 else ops.utc_text(at_ms)
    except OverflowError:  # a producer may write any number
        return str(at_ms)


def _show_partitions(value: out.Json) -> str:
    """Return at most three partitions, and the number of the others."""
    assert isinstance(value, list)
    more = f" and {len(value) - 3} more" if len(value) > 3 else ""
    return ",".join(map(str, value[:3])) + more if value else "-"
