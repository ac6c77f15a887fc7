"""Run `coterie kafka-consumer-groups` in this process.

The interop tests also use it, beside kafka-consumer-groups.sh of Apache Kafka; both
return a `CommandResult`.
"""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

from coterie.cli.kafka_consumer_groups.command import main


class CommandResult(NamedTuple):
    """The output and the exit code of a command."""

    stdout: str
    stderr: str
    exit_code: int


def run_in_process(*words: str) -> CommandResult:
    """Run the command with these arguments."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        exit_code = main(words)
    return CommandResult(out.getvalue(), err.getvalue(), exit_code)
