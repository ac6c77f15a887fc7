"""`coterie kafka-consumer-groups`: parse the command line, run its action, print.

Exit codes: 0 success, 1 failure or usage error. kafka-consumer-groups.sh exits with 0
even after errors of the cluster; this command does not, not even with --strict.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.cli.kafka_consumer_groups.command_line import (
    ONLY_ONE,
    ActionFailed,
    CommandLine,
    UsageError,
    check_actions,
    check_combinations,
    check_late,
    check_reset_scope,
    check_values,
    parse,
    timeout_ms,
)
from coterie.cli.kafka_consumer_groups.options import usage
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

_NO_CLIENT: Final = "Failed to create new KafkaAdminClient"
_NO_ADDRESS: Final = "Configuration 'bootstrap.servers' values must not be empty."
_ADDRESS: Final = re.compile(
    r"(?:[0-9A-Za-z\-%._]*://)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[0-9A-Za-z\-%._]+)"
    r":(?P<port>[0-9]{1,5})"
)
"""An address that Java's client accepts; see Utils.getHost of Apache Kafka."""


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
        if line.has("help"):
            return output(usage())
        if set(words) <= {"--strict"}:
            return refusal(usage())
        if line.has("version"):
            from importlib.metadata import version

            return output(f"{version('coterie')}\n")
        check_actions(line)
        if line.has("reset-offsets") and not line.has("dry-run", "execute"):
            report = warning(_NO_EXECUTE)
        check_combinations(line)
        return report + _run_action(line)
    except UsageError as failure:
        return report + refusal(f"{failure}\n\n{usage()}")


def _run_action(line: CommandLine) -> Report:
    """Run the action of a valid command line. Raises UsageError."""
    from coterie.cli.kafka_consumer_groups.describe import COMMAND_FAILED

    try:
        if line.has("validate-regex"):
            check_values(line, "validate-regex")
            return validate_regex(line.one("validate-regex") or "")
        import asyncio

        return asyncio.run(_run_with_client(line))
    except UsageError:
        raise
    except ActionFailed as failure:
        report = error(f"{COMMAND_FAILED}{failure.text}", on_stdout=True)
        return report + warning(failure.reason) if failure.reason else report
    except SettingError as failure:
        return refusal(f"{failure}\n")
    except CoterieError as failure:
        if not line.is_strict:
            return error(f"{COMMAND_FAILED}{failure}")
        from coterie.cli.kafka_consumer_groups.java import as_exception

        text = COMMAND_FAILED + as_exception(failure)
        return error(text, on_stdout=True)


async def _run_with_client(line: CommandLine) -> Report:
    """Run the action of a command line with a client of its cluster."""
    action = _action(line)
    if line.is_strict:
        check_late(line, "command-config")
        _check_file(line.one("command-config"))
        check_late(line, "bootstrap-server")
        _check_addresses(line.one("bootstrap-server") or "")
    admin = _open_admin(line)
    async with admin:
        if line.is_strict:
            check_late(line, "to-offset", "by-duration", "shift-by", "timeout")
            if line.has("delete-offsets") and len(line.given["group"]) > 1:
                raise ActionFailed(ONLY_ONE.format("group"))
            if line.has("reset-offsets"):
                check_reset_scope(line)
        if line.has("delete"):  # Kafka's tool deletes groups of any type
            return await action(admin, line)
        from coterie.cli.kafka_consumer_groups.describe import as_consumer_groups

        return await action(as_consumer_groups(admin), line)


def _action(
    line: CommandLine,
) -> Callable[[AdminClient, CommandLine], Awaitable[Report]]:
    from coterie.cli.kafka_consumer_groups import delete, describe, reset, tables

    if line.has("list"):
        return describe.list_groups
    if line.has("delete"):
        return delete.delete_groups
    if line.has("reset-offsets"):
        return reset.reset_offsets
    if line.has("delete-offsets"):
        return delete.delete_offsets
    if line.has("members"):
        return partial(describe.describe_each, table=tables.members)
    if line.has("state"):
        return partial(describe.describe_each, table=tables.state)
    return describe.describe_offsets


def _open_admin(line: CommandLine) -> AdminClient:
    """Return a client with the connection options. Raises CoterieError."""
    from coterie.cli import connect

    limit_ms = timeout_ms(line)
    connection = argparse.Namespace(
        bootstrap_server=line.one("bootstrap-server"),
        command_config=line.one("command-config"),
        timeout=limit_ms or 1,
    )
    try:
        if limit_ms:
            return connect.open_admin(connection)
        from coterie.client.admin.admin_client import AdminClient

        target = connect.read_target(connection)
        never = replace(target.options, connect_timeout_ms=0, api_timeout_ms=0)
        return AdminClient(target.bootstrap, never)
    except CoterieError as failure:
        if line.is_strict:
            raise ActionFailed(_NO_CLIENT, str(failure)) from failure
        raise


def _check_addresses(text: str) -> None:
    """Check the form of addresses. Raises ActionFailed."""
    addresses = [each.strip() for each in text.strip().split(",")]
    if len(addresses) > 1 and not all(addresses):
        raise ActionFailed(_NO_ADDRESS)
    for each in addresses:
        match = _ADDRESS.fullmatch(each)
        if match is None or int(match["port"]) > 65_535:
            raise ActionFailed(_NO_CLIENT, f"{each!r} is not an address HOST:PORT")


def _check_file(path: str | None) -> None:
    """Check that the file of --command-config can be read. Raises ActionFailed, with
    the message of Java's exception."""
    if path is None:
        return
    try:
        Path(path or ".").read_bytes()
    except FileNotFoundError as failure:
        text = f"java.nio.file.NoSuchFileException: {path}"
        raise ActionFailed(text) from failure
    except PermissionError as failure:
        text = f"java.nio.file.AccessDeniedException: {path}"
        raise ActionFailed(text) from failure
    except OSError as failure:
        text = f"java.io.IOException: {failure.strerror}"
        raise ActionFailed(text) from failure


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
