"""`--topic t` and `--topic t:0,1,2`, with Apache's words for what is neither (C-64)."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.cli.kafka_consumer_groups.grammar import CommandLine, UsageError
from coterie.operations.scope import TopicSelector

_PARTITION_MAX = 2**31 - 1


def selectors(line: CommandLine) -> tuple[TopicSelector, ...]:
    """What every `--topic` selects. Raises UsageError."""
    return tuple(_selector(text) for text in line.all("topic"))


def _selector(text: str) -> TopicSelector:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return TopicSelector(text)
    if not topic or not numbers or ":" in numbers:
        raise UsageError(
            f"Invalid topic arg '{text}', expected topic name and partitions"
        )
    return TopicSelector(topic, tuple(sorted(set(_partitions(text, numbers)))))


def _partitions(text: str, numbers: str) -> Iterable[int]:
    for number in numbers.split(","):
        if not (
            number.isascii() and number.isdigit() and int(number) <= _PARTITION_MAX
        ):
            raise UsageError(
                f"Invalid partition '{number}' specified in topic arg '{text}'"
            )
        yield int(number)
