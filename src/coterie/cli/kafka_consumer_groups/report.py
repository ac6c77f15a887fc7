"""What an action has to say: text for stdout and for stderr, and whether it went well.

Reports are values, put together in the order in which people should read them; nothing
is printed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Self


class Part(NamedTuple):
    """Some text for one of both streams."""

    text: str
    is_beside: bool = False
    """Whether it goes to stderr."""


@dataclass(frozen=True, slots=True)
class Report:
    """Parts in order; with one that failed, all of it has failed."""

    parts: tuple[Part, ...] = ()
    failed: bool = False

    @classmethod
    def of(cls, reports: Iterable[Report]) -> Self:
        """Many reports as one."""
        all_of_them = tuple(reports)
        return cls(
            tuple(part for each in all_of_them for part in each.parts),
            any(each.failed for each in all_of_them),
        )

    def __add__(self, other: Report) -> Report:
        return Report.of((self, other))

    @property
    def out(self) -> str:
        """All that goes to stdout."""
        return "".join(part.text for part in self.parts if not part.is_beside)

    @property
    def err(self) -> str:
        """All that goes to stderr."""
        return "".join(part.text for part in self.parts if part.is_beside)


def said(text: str) -> Report:
    """Results, as they are."""
    return Report((Part(text),)) if text else Report()


def warned(text: str) -> Report:
    """A line beside the results."""
    return Report((Part(f"{text}\n", is_beside=True),))


def misused(text: str) -> Report:
    """A command line that nothing was done for: why, and how it would be right."""
    return Report((Part(text, is_beside=True),), failed=True)


def failure(text: str, *, on_stdout: bool = False) -> Report:
    """What went wrong, with Apache's blank line and word before it.

    Apache's tool has it on stdout, where scripts take it for results.
    """
    part = Part(f"\nError: {text}\n", is_beside=not on_stdout)
    return Report((part,), failed=True)
