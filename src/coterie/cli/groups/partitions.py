"""The options that say which partitions of its groups a command is about."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.operations.scope import Scope


def add_partition_option(parser: argparse._ActionsContainer, text: str) -> None:
    """Declare --partitions; `read_scope` reads it."""
    parser.add_argument(
        "--partitions",
        metavar="TOPIC[:P,...]",
        action="append",
        help=f"{text}: a topic, or some partitions of it as in orders:0,1; may be "
        "repeated",
    )


def read_scope(options: argparse.Namespace) -> Scope:
    """What --partitions says; without it, all that the group has committed.

    Raises SettingError.
    """
    from coterie.operations.scope import ALL_COMMITTED, TopicSelector

    if not options.partitions:
        return ALL_COMMITTED
    return tuple(TopicSelector.read(each) for each in options.partitions)


def kafka_scope(options: argparse.Namespace) -> list[str]:
    """The same for Kafka's own script."""
    from coterie.cli.groups.kafka_commands import repeated

    return repeated("--topic", options.partitions or ()) or ["--all-topics"]
