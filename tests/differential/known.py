"""Differences from Kafka that stay, each with its reason and a matcher.

`python -m tests.differential.page` renders docs/differences-from-kafka.md from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.differential.play import Found


class Known(NamedTuple):
    """A difference that stays: the situation, both answers, the reason, a matcher.

    `is_final` says that the servers' states differ from then on: the sequence ends.
    """

    situation: str
    kafka: str
    coterie: str
    reason: str
    matches: Callable[[Found], bool]
    is_final: bool = True


KNOWN: Final[tuple[Known, ...]] = ()


def known(found: Found) -> Known | None:
    """Return the known difference that a difference is an instance of."""
    return next((each for each in KNOWN if each.matches(found)), None)
