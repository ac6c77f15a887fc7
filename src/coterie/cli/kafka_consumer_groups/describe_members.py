"""`--describe --members`: who is in a group, and what each one owns (C-42, C-43)."""

from __future__ import annotations

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.describing import describe_each, extras
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.report import Report


async def run(admin: Admin, line: CommandLine) -> Report:
    """Describe the members of each group."""
    columns = extras(line)
    return await describe_each(admin, line, lambda each: tables.members(each, columns))
