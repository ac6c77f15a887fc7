"""`coterie kafka-consumer-groups`: parse the command line, run its action, print.

Exit codes: 0 success, 1 failure or usage error. kafka-consumer-groups.sh exits with 0
even after errors of the cluster; this command does not, not even with --strict.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

from coterie.cli.kafka_consumer_groups.command_line import (
    CommandLine,
    UsageError,
    check,
    parse,
)
from coterie.cli.kafka_consumer_groups.options import TIMEOUT_MS, usage
from coterie.cli.kafka_consumer_groups.report import (
    Report,
    error,
    output,
    refusal,
    warning,
)
from coterie.errors import CoterieError, SettingError
from coterie.java import re2j_description

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient

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
        line = parse(words)
        if line.has("help") or not words:
            return output(usage()) if words else refusal(usage())
        if line.has("version"):
            from importlib.metadata import version

            return output(f"{version('coterie')}\n")
        check(line)
        if line.has("validate-regex"):
            return validate_regex(line.one("validate-regex") or "")
        if line.has("reset-offsets") and not line.has("dry-run", "execute"):
            report = warning(_NO_EXECUTE)
        import asyncio

        return report + asyncio.run(_run_action(line))
    except UsageError as failure:
        return report + refusal(f"{failure}\n\n{usage()}")
    except SettingError as failure:
        return report + refusal(f"{failure}\n")
    except CoterieError as failure:
        from coterie.cli.kafka_consumer_groups.describe import COMMAND_FAILED
        from coterie.cli.kafka_consumer_groups.java import as_exception

        if line.is_strict:
            text = COMMAND_FAILED + as_exception(failure)
            return report + error(text, on_stdout=True)
        return report + error(f"{COMMAND_FAILED}{failure}")


async def _run_action(line: CommandLine) -> Report:
    """Run the action of a command line with a client of its cluster."""
    from coterie.cli import connect
    from coterie.cli.kafka_consumer_groups import delete, describe, reset, tables

    action: Callable[[AdminClient, CommandLine], Awaitable[Report]]
    if line.has("list"):
        action = describe.list_groups
    elif line.has("delete"):
        action = delete.delete_groups
    elif line.has("reset-offsets"):
        action = reset.reset_offsets
    elif line.has("delete-offsets"):
        action = delete.delete_offsets
    elif line.has("members"):
        action = partial(describe.describe_each, table=tables.members)
    elif line.has("state"):
        action = partial(describe.describe_each, table=tables.state)
    else:
        action = describe.describe_offsets
    connection = argparse.Namespace(
        bootstrap_server=line.one("bootstrap-server"),
        command_config=line.one("command-config"),
        timeout=line.number("timeout") or TIMEOUT_MS,
    )
    async with connect.open_admin(connection) as admin:
        return await action(admin, line)


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
    from coterie.cli.kafka_consumer_groups.tables import LINE_FEED
    from coterie.cli.output.emit import write
    from coterie.cli.output.outcome import printable

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
