"""How to do the same with Kafka's own kafka-consumer-groups.sh."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

_SCRIPT = "kafka-consumer-groups.sh"


def kafka_command(options: argparse.Namespace, *arguments: str) -> str:
    """A command line to be typed into a shell."""
    bootstrap = options.bootstrap_server or "HOST:PORT"
    return shlex.join([_SCRIPT, "--bootstrap-server", bootstrap, *arguments])


def repeated(option: str, values: Iterable[str]) -> list[str]:
    """An option once for each value."""
    return [word for value in values for word in (option, value)]
