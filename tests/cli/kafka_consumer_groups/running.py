"""The command, run in this process as a shell would run it.

`run_here` is what tests beside Apache's own tool use: both have the same `Ran`.
"""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

from coterie.cli.kafka_consumer_groups import main


class Ran(NamedTuple):
    """What a command said and how it ended."""

    stdout: str
    stderr: str
    exit_code: int


def run_here(*words: str) -> Ran:
    """Run the command with these words."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        exit_code = main(words)
    return Ran(out.getvalue(), err.getvalue(), exit_code)
