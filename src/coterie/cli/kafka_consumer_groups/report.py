"""The output of an action as a value: text for stdout and stderr, and its success.

Reports are concatenated in the order in which they are printed; `command` prints them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self


class Part(NamedTuple):
    """Text for stdout or stderr."""

    text: str
    is_stderr: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Parts in order, and whether the action failed."""

    parts: tuple[Part, ...] = ()
    failed: bool = False

    @classmethod
    def of(cls, reports: Iterable[Report]) -> Self:
        """Concatenate reports; the result failed when any of them did."""
        parts = tuple(reports)
        return cls(
            tuple(part for each in parts for part in each.parts),
            any(each.failed for each in parts),
        )

    def __add__(self, other: Report) -> Report:
        return Report.of((self, other))


def output(text: str) -> Report:
    """Return a report with results for stdout."""
    return Report((Part(text),)) if text else Report()


def warning(text: str) -> Report:
    """Return a report with one line for stderr."""
    return Report((Part(f"{text}\n", is_stderr=True),))


def refusal(text: str) -> Report:
    """Return the failed report of a command line for which nothing was done."""
    return Report((Part(text, is_stderr=True),), failed=True)


def error(text: str, *, on_stdout: bool = False) -> Report:
    """Return a failed report with Apache's blank line and prefix before the message.

    On stdout when it is the headline of results, as in kafka-consumer-groups.sh.
    """
    return Report((Part(f"\nError: {text}\n", is_stderr=not on_stdout),), failed=True)
