"""`--describe --state`: each group as a whole, in one row (C-44)."""

from __future__ import annotations

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.describing import describe_each, extras
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.report import Report


async def run(admin: Admin, line: CommandLine) -> Report:
    """Describe the state of each group."""
    columns = extras(line)
    return await describe_each(admin, line, lambda each: tables.state(each, columns))
