"""Many things at once, in portions that a broker and a network can bear."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from coterie.client.options import ClientOptions

T = TypeVar("T")


def in_chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in their order, `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def backoff_s(options: ClientOptions, tries: int) -> float:
    """How long to wait after `tries` tries, in seconds; it doubles with each."""
    delay_ms = options.retry_backoff_ms * (1 << min(tries - 1, 16))
    return min(delay_ms, options.retry_backoff_max_ms) / 1000
