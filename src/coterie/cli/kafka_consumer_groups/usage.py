"""The help text: Apache's options, then what Coterie adds, then examples."""

from __future__ import annotations

from typing import Final

from coterie.cli.kafka_consumer_groups.options import OPTIONS, Option, Takes

_INTRODUCTION: Final = """\
List, describe and delete consumer groups, and reset or delete their offsets: with the
options, tables and messages of Apache Kafka's kafka-consumer-groups.sh.
"""

_ADDITIONS: Final = """\
additions of Coterie (all off under --strict):
  --describe [--offsets] --topic TOPIC[:0,1,2]  only these partitions
  --describe --state                            columns GENERATION-ID and LEADER-ID
  --describe --members                          column ASSIGNMENT-STRATEGY
  --describe --members --verbose                and column SUBSCRIPTION
  a LAG that is never negative and counts no record that is deleted
  a row for each member that owns nothing
"""

_EXAMPLES: Final = """\
examples:
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 --list --state
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group g
  coterie kafka-consumer-groups --bootstrap-server localhost:9092 \\
      --group g --reset-offsets --to-earliest --topic orders:0,1 --dry-run
  printf '#!/bin/sh\\nexec coterie kafka-consumer-groups "$@"\\n' \\
      > kafka-consumer-groups.sh; chmod +x kafka-consumer-groups.sh
      a script of the old name

exit codes: 0 it went well, 1 something failed or was asked for wrongly
"""

_LEFT: Final = 40


def usage() -> str:
    """All of it."""
    theirs = "".join(_line(option) for option in OPTIONS if not option.is_ours)
    ours = "".join(_line(option) for option in OPTIONS if option.is_ours)
    return f"{_INTRODUCTION}\noptions:\n{theirs}\n{_ADDITIONS}{ours}\n{_EXAMPLES}"


def _line(option: Option) -> str:
    left = f"  --{option.name}"
    if option.takes is Takes.ARGUMENT:
        left += f" {option.argument}"
    if option.takes is Takes.MAYBE_ARGUMENT:
        left += f" [{option.argument}]"
    gap = " " if len(left) < _LEFT else "\n" + " " * (_LEFT + 1)
    return f"{left:<{_LEFT}}{gap}{option.help}\n"
