"""The command: read its line, ask the cluster, print. Nothing else here prints.

Exit codes: 0 it went well, 1 something failed, or was asked for wrongly. Apache's tool
leaves with 0 whatever the cluster said; that is never copied.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from itertools import groupby
from typing import Final

from coterie.cli.kafka_consumer_groups.checks import check
from coterie.cli.kafka_consumer_groups.grammar import CommandLine, UsageError, parse
from coterie.cli.kafka_consumer_groups.options import TIMEOUT_MS
from coterie.cli.kafka_consumer_groups.report import (
    Report,
    failure,
    misused,
    said,
    warned,
)
from coterie.errors import CoterieError, SettingError

_WELL: Final = 0
_FAILED: Final = 1
_INTERRUPTED: Final = 130
_NO_EXECUTE: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version "
    "5.0, this command will require either --dry-run or --execute to be specified. You "
    "should add the --dry-run option explicitly if you are scripting this command and "
    "want to keep the current default behavior without prompting."
)


def run(words: Sequence[str]) -> int:
    """Run a command line; its exit code."""
    try:
        report = _report(words)
    except KeyboardInterrupt:
        return _INTERRUPTED
    _print(report)
    return _FAILED if report.failed else _WELL


def _print(report: Report) -> None:
    """In order, should both streams be one terminal; which no client id commands."""
    from coterie.cli.output.emit import write
    from coterie.cli.output.values import plain

    for is_beside, parts in groupby(report.parts, key=lambda part: part.is_beside):
        stream = sys.stderr if is_beside else sys.stdout
        texts = (part.text for part in parts)
        if stream.isatty():
            texts = ("\n".join(map(plain, text.split("\n"))) for text in texts)
        write(stream, texts)


def _report(words: Sequence[str]) -> Report:
    report = Report()
    try:
        line = parse(words)
        if line.has("help") or not words:
            return _help(words)
        if line.has("version"):
            return said(f"{_version()}\n")
        check(line)
        if line.has("reset-offsets") and not line.has("dry-run", "execute"):
            report = warned(_NO_EXECUTE)
        return report + _act(line)
    except UsageError as error:
        return report + _misused(str(error))


def _act(line: CommandLine) -> Report:
    if line.has("validate-regex"):
        from coterie.cli.kafka_consumer_groups import validate_regex

        return validate_regex.run(line)
    import asyncio

    try:
        return asyncio.run(_ask(line))
    except UsageError:
        raise
    except SettingError as error:
        return misused(f"{error}\n")
    except CoterieError as error:
        return _whole_command_failed(line, error)


async def _ask(line: CommandLine) -> Report:
    """Run an action with a client of the cluster."""
    from coterie.cli.connect import open_admin

    action = import_module(f"coterie.cli.kafka_consumer_groups.{module_of(line)}")
    connection = argparse.Namespace(
        bootstrap_server=line.one("bootstrap-server"),
        command_config=line.one("command-config"),
        timeout=line.number("timeout") or TIMEOUT_MS,
    )
    async with open_admin(connection) as admin:
        report: Report = await action.run(admin, line)
        return report


def module_of(line: CommandLine) -> str:
    """The module whose `run` does what a command line asks for."""
    if line.has("list"):
        return "list_groups"
    if line.has("delete"):
        return "delete_groups"
    if line.has("reset-offsets"):
        return "reset_offsets"
    if line.has("delete-offsets"):
        return "delete_offsets"
    if line.has("members"):
        return "describe_members"
    return "describe_state" if line.has("state") else "describe_offsets"


def _whole_command_failed(line: CommandLine, error: CoterieError) -> Report:
    from coterie.cli.kafka_consumer_groups.describing import FAILED
    from coterie.cli.kafka_consumer_groups.java import as_exception

    if line.is_strict:
        return failure(FAILED + as_exception(error), on_stdout=True)
    return failure(f"{FAILED}{error}")


def _misused(why: str) -> Report:
    from coterie.cli.kafka_consumer_groups.usage import usage

    return misused(f"{why}\n\n{usage()}")


def _help(words: Sequence[str]) -> Report:
    """Asked for it is a result; without any word it is a hint."""
    from coterie.cli.kafka_consumer_groups.usage import usage

    return said(usage()) if words else misused(usage())


def _version() -> str:
    from importlib.metadata import version

    return version("coterie")
