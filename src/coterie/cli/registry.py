"""The table of all commands, with the module that declares each one.

A command's module is imported only when the command is called, so that `--help` and
every other command start without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple


class Entry(NamedTuple):
    """One command: its name of one or more words, its summary and its module."""

    name: str
    summary: str
    """A verb phrase for lists of commands."""
    place: str
    """module:attribute below `coterie.cli`: a `Command`, or with `parses_itself` a
    function of the arguments that returns the exit code."""
    parses_itself: bool = False

    @property
    def words(self) -> list[str]:
        """The words of the name."""
        return self.name.split()

    def load(self) -> Any:
        """Import the module and return the command, or the function."""
        module, _, attribute = self.place.partition(":")
        return getattr(import_module(f"coterie.cli.{module}"), attribute)


def _family(name: str, *commands: tuple[str, str, str]) -> list[Entry]:
    return [
        Entry(f"{name} {word}", summary, place) for word, summary, place in commands
    ]


COMMANDS: Final = (
    Entry("serve", "Start a server for Kafka clients", "serve:SERVE"),
    *_family(
        "gateway",
        ("run", "Run a node of a gateway to a Kafka cluster", "gateway.run:RUN"),
        ("status", "Show the nodes and shards of a gateway", "gateway.status:STATUS"),
    ),
    *_family(
        "groups",
        ("list", "List consumer groups", "groups.list:LIST"),
        (
            "describe",
            "Describe offsets, lag and owners of partitions",
            "groups.lag:DESCRIBE",
        ),
        ("members", "List the members of groups", "groups.list:MEMBERS"),
        ("lag", "Sum the lag of groups", "groups.lag:LAG"),
        ("watch", "Watch the lag of groups", "groups.watch:WATCH"),
        ("export", "Export lag and states to Prometheus", "groups.export:EXPORT"),
        ("reset", "Reset the committed offsets of groups", "groups.reset:RESET"),
        ("delete", "Delete groups that have no members", "groups.delete:DELETE"),
        ("clone", "Copy the offsets of a group to another", "groups.reset:CLONE"),
        (
            "remove-members",
            "Remove members from a group",
            "groups.delete:REMOVE_MEMBERS",
        ),
        ("plan", "Write a change to a plan file for review", "groups.plan:PLAN"),
        ("apply", "Apply a plan file", "groups.plan:APPLY"),
        ("undo", "Undo an earlier command from its snapshot", "groups.plan:UNDO"),
    ),
    *_family(
        "groups offsets",
        ("list", "List committed offsets", "groups.offsets:LIST"),
        ("set", "Commit exact offsets", "groups.offsets:SET"),
        ("delete", "Delete committed offsets", "groups.offsets:DELETE"),
        ("export", "Export committed offsets to a file", "groups.offsets:EXPORT"),
        ("import", "Commit the offsets of a file", "groups.offsets:IMPORT"),
    ),
    *_family(
        "topics",
        ("list", "List topics", "topics.list:LIST"),
        ("describe", "Describe partitions and offsets", "topics.list:DESCRIBE"),
        ("create", "Create topics", "topics.write:CREATE"),
        ("delete", "Delete topics with their records", "topics.write:DELETE"),
        ("alter", "Add partitions to topics", "topics.write:ALTER"),
        (
            "consumers",
            "List the groups that read a topic",
            "topics.consumers:CONSUMERS",
        ),
    ),
    *_family(
        "topics configs",
        ("show", "Show configurations and their sources", "topics.configs:SHOW"),
        ("set", "Set configurations of topics", "topics.configs:SET"),
        ("unset", "Remove configurations of topics", "topics.configs:UNSET"),
    ),
    *_family(
        "topics records",
        ("produce", "Produce records from stdin", "topics.produce:PRODUCE"),
        ("read", "Read records without a group", "topics.read:READ"),
    ),
    *_family(
        "transactions",
        ("list", "List transactions", "transactions.list:LIST"),
        ("describe", "Describe transactions", "transactions.list:DESCRIBE"),
        (
            "producers",
            "List the producers of partitions",
            "transactions.producers:PRODUCERS",
        ),
        (
            "find-hanging",
            "Find transactions that nothing ends",
            "transactions.hanging:FIND_HANGING",
        ),
        ("abort", "Abort a hanging transaction", "transactions.hanging:ABORT"),
    ),
    *_family(
        "cluster",
        ("describe", "Describe brokers and their releases", "cluster:DESCRIBE"),
        ("features", "List finalized and supported features", "cluster:FEATURES"),
        ("health", "Check partitions and brokers", "cluster:HEALTH"),
    ),
    *_family(
        "users",
        ("add", "Add a user to a server's data, or set a password", "users:ADD"),
        ("list", "List the users in a server's data", "users:LIST"),
        ("remove", "Remove a user from a server's data", "users:REMOVE"),
    ),
    *_family(
        "acls",
        ("list", "List ACLs", "acls:LIST"),
        ("add", "Add ACLs", "acls:ADD"),
        ("remove", "Remove ACLs", "acls:REMOVE"),
    ),
    *_family(
        "quotas",
        ("list", "List client quotas", "quotas:LIST"),
        ("set", "Set client quotas", "quotas:SET"),
        ("remove", "Remove client quotas", "quotas:REMOVE"),
    ),
    *_family(
        "config",
        ("explain", "List connection settings and their sources", "config:EXPLAIN"),
        ("check", "Test the connection to every broker", "config:CHECK"),
    ),
    *_family(
        "pipeline",
        ("generate", "Generate a log for tests", "pipeline.generate:GENERATE"),
        ("decode", "Decode segment files without a lake", "pipeline.decode:DECODE"),
        ("run", "Read the coordinator's log into tables", "pipeline.run:RUN"),
        ("backfill", "Rebuild tables from a lake's records", "pipeline.run:BACKFILL"),
        ("report", "Write an HTML report of a lake", "pipeline.report:REPORT"),
        ("check", "Compare a lake with the brokers", "pipeline.check:CHECK"),
        ("plan-stale", "Plan to delete stale groups", "pipeline.plan_stale:PLAN_STALE"),
        ("sql", "Query the tables in SQL", "pipeline.sql:SQL"),
        ("versions", "List the versions of a lake", "pipeline.versions:VERSIONS"),
    ),
    *_family(
        "pipeline show",
        ("current", "Show groups and their members", "pipeline.show_groups:CURRENT"),
        ("offsets", "Show committed offsets", "pipeline.show_offsets:OFFSETS"),
        ("lag", "Show lag in records and in time", "pipeline.show_offsets:LAG"),
        ("status", "Show groups with problems", "pipeline.show_groups:STATUS"),
        ("history", "Show the history of commits", "pipeline.show_offsets:HISTORY"),
        (
            "rebalances",
            "Show rebalances and their causes",
            "pipeline.show_groups:REBALANCES",
        ),
        (
            "ownership",
            "Show the owners of partitions over time",
            "pipeline.show_groups:OWNERSHIP",
        ),
        (
            "expiry",
            "Show when committed offsets expire",
            "pipeline.show_offsets:EXPIRY",
        ),
        ("stale", "Show stale groups", "pipeline.show_groups:STALE"),
        ("quality", "Show the quality of the tables", "pipeline.show_offsets:QUALITY"),
    ),
    Entry("ui", "Show the groups of a cluster in a browser", "ui:UI"),
    Entry("doctor", "Check a server's configuration, data and health", "doctor:DOCTOR"),
    Entry(
        "kafka-consumer-groups",
        "Run with the options and output of Kafka's kafka-consumer-groups.sh",
        "kafka_consumer_groups.command:main",
        parses_itself=True,
    ),
    Entry("completion", "Print a shell's completion script", "completion:COMPLETION"),
)

FAMILIES: Final = {
    "groups": "Manage consumer groups",
    "gateway": "Coordinate the groups of a Kafka cluster",
    "acls": "Manage ACLs",
    "quotas": "Manage client quotas",
    "config": "Inspect and test connection settings",
    "groups offsets": "Manage committed offsets",
    "users": "Manage SASL/SCRAM users",
    "cluster": "Describe and check a cluster",
    "topics": "Manage topics and their records",
    "topics records": "Produce and read records",
    "topics configs": "Manage configurations of topics",
    "transactions": "Inspect transactions and abort hanging ones",
    "pipeline": "Convert the coordinator's log into tables",
    "pipeline show": "Show the tables without Spark",
}
"""Summaries of the words that a further word follows."""
FAMILY_EXAMPLES: Final = {
    "gateway": """\
The nodes of a gateway are the coordinators of consumer groups in front of a Kafka
cluster. Consumers get the protocol of KIP-848 also from brokers that do not have it.
The state is in a topic of the cluster; produced and fetched records pass through.

examples:
  coterie gateway run --upstream kafka:9092
      a node on 127.0.0.1:9192; point a client's bootstrap.servers at it
  coterie gateway status --upstream kafka:9092
      its nodes and shards; exit code 1 while a shard is not served

When to use one, set-up in ten minutes, failures and the way back: docs/gateway.md
""",
}
"""The ends of their help."""


def find_command(words: Sequence[str]) -> Entry | None:
    """Return the command that a command line starts with, or None."""
    return next(
        (each for each in COMMANDS if list(words[: len(each.words)]) == each.words),
        None,
    )
