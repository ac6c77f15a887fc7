"""`coterie kafka-consumer-groups`: parse the command line, run its action, print.

Exit codes: 0 success, 1 failure or usage error. kafka-consumer-groups.sh exits with 0
even after errors of the cluster.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from coterie import client
from coterie.cli import connect
from coterie.cli.kafka_consumer_groups import command_line
from coterie.cli.kafka_consumer_groups.options import TIMEOUT_MS, usage
from coterie.cli.kafka_consumer_groups.report import (
    Report,
    error,
    output,
    refusal,
    warning,
)
from coterie.cli.kafka_consumer_groups.tables import LINE_FEED
from coterie.cli.output.emit import write
from coterie.display import printable
from coterie.errors import CoterieError, SettingError
from coterie.java import re2j_description

_NO_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version "
    "5.0, this command will require either --dry-run or --execute to be specified. You "
    "should add the --dry-run option explicitly if you are scripting this command and "
    "want to keep the current default behavior without prompting."
)


def main(words: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        report = _run(words)
    except KeyboardInterrupt:
        return 130
    _print(report)
    return 1 if report.failed else 0


def _run(words: Sequence[str]) -> Report:
    report = Report()
    try:
        line = command_line.parse(words)
        if line.has("help"):
            return output(usage())
        if not words:
            return refusal(usage())
        if line.has("version"):
            from importlib.metadata import version

            return output(f"{version('coterie')}\n")
        command_line.check_actions(line)
        if line.has("reset-offsets") and not line.has("dry-run", "execute"):
            report = warning(_NO_EXECUTE)
        command_line.check_combinations(line)
        return report + _run_action(line)
    except command_line.UsageError as failure:
        return report + refusal(f"{failure}\n\n{usage()}")


def _run_action(line: command_line.CommandLine) -> Report:
    """Run the action of a valid command line. Raises UsageError."""
    try:
        if line.has("validate-regex"):
            return validate_regex(line.one("validate-regex") or "")
        import asyncio

        return asyncio.run(_run_with_client(line))
    except command_line.UsageError:
        raise
    except SettingError as failure:
        return refusal(f"{failure}\n")
    except CoterieError as failure:
        return error(f"Executing consumer group command failed due to {failure}")


async def _run_with_client(line: command_line.CommandLine) -> Report:
    """Run the action of a command line with a client of its cluster."""
    action = _action(line)
    connection = argparse.Namespace(
        bootstrap_server=line.one("bootstrap-server"),
        command_config=line.one("command-config"),
        timeout=line.number("timeout") or TIMEOUT_MS,
    )
    async with connect.open_admin(connection) as admin:
        if line.has("delete"):  # Kafka's tool deletes groups of any type
            return await action(admin, line)
        from coterie.cli.kafka_consumer_groups.describe import as_consumer_groups

        return await action(as_consumer_groups(admin), line)


def _action(
    line: command_line.CommandLine,
) -> Callable[[client.AdminClient, command_line.CommandLine], Awaitable[Report]]:
    from coterie.cli.kafka_consumer_groups import delete, describe, reset, tables

    if line.has("list"):
        return describe.list_groups
    if line.has("delete"):
        return delete.delete_groups
    if line.has("reset-offsets"):
        return reset.reset_offsets
    if line.has("delete-offsets"):
        return delete.delete_offsets
    for name, table in (("members", tables.members), ("state", tables.state)):
        if line.has(name):
            shown = partial(table, verbose=line.has("verbose"))
            return partial(describe.describe_each, table=shown)
    return describe.describe_offsets


def validate_regex(text: str) -> Report:
    """Run `--validate-regex`: check the RE2 syntax of a subscription (KIP-848)."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error as failure:
        reason = re2j_description(failure.args[0])
        verdict = output(f"The regular expression `{text}` is invalid: {reason}.\n")
        return Report(verdict.parts, failed=True)
    return output(f"The regular expression `{text}` is valid.\n")


def _print(report: Report) -> None:
    """Print the parts in order, so that a terminal shows both streams as one text."""
    for is_stderr, parts in groupby(report.parts, key=lambda part: part.is_stderr):
        stream = sys.stderr if is_stderr else sys.stdout
        texts = (part.text for part in parts)
        # A client id may contain control characters; see `printable`.
        if stream.isatty():
            texts = ("\n".join(map(printable, text.split("\n"))) for text in texts)
            feed = printable(LINE_FEED), "\\n"
        else:
            feed = LINE_FEED, "\n"
        write(stream, [text.replace(*feed) for text in texts])
