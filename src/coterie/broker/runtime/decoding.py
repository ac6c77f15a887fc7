"""Decode batches in the event loop, or in a worker thread when they may be large.

A few kilobytes can decompress to `batch.decompressed.bytes.max`, and a small batch can
have `batch.records.max` records: decoding it takes up to a second. A request decodes in
the event loop up to a `LoopBudget`. The rest is work for the only worker thread, one
batch at a time, so that requests take turns and one large batch is in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from coterie.wire.compression import Codec
from coterie.wire.record_batch import BatchHeader

_LOGGER = logging.getLogger(__name__)

LOOP_RECORDS: Final = 10_000
"""Records that a request decodes in the event loop: a few milliseconds."""
LOOP_BATCHES: Final = 16
"""Compressed batches that a request decodes in the event loop."""
LOOP_BATCH_BYTES: Final = 256 * 1024
"""Largest size of each of them when decompressed."""

Outcome: TypeAlias = Callable[[], Any]
"""A function that returns the result of some work or raises its error."""
RunInWorker: TypeAlias = Callable[[Callable[[], Any], Callable[[Outcome], None]], None]
"""A function that runs its first argument in a worker thread, and then its second one
in the event loop."""


class LoopBudget:
    """The decoding that one request may do in the event loop."""

    __slots__ = ("_batches", "_records")

    def __init__(self) -> None:
        self._records = LOOP_RECORDS
        self._batches = LOOP_BATCHES

    def fits(self, header: BatchHeader) -> bool:
        """Return whether to decode a batch in the event loop, and count it.

        A compressed batch may still be too large: its decompression has to end after
        `LOOP_BATCH_BYTES`.
        """
        self._records -= header.record_count
        if header.codec is not Codec.NONE:
            self._batches -= 1
        return self._records >= 0 <= self._batches


class DecodeWorker:
    """The worker thread. It starts when it is first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="decoder")

    def run(self, work: Callable[[], Any], done: Callable[[Outcome], None]) -> None:
        """Run `work` in the thread, then `done` in the event loop."""

        def finished(future: asyncio.Future[Any]) -> None:
            if future.cancelled():
                return  # the server stops
            future.exception()  # retrieved, or asyncio would log it as unretrieved
            try:
                done(future.result)
            except Exception:
                _LOGGER.exception("a bug after the decoding of a batch")

        self._loop.run_in_executor(self._executor, work).add_done_callback(finished)

    def close(self) -> None:
        """Stop the thread; work that has not begun is dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def run_inline(work: Callable[[], Any], done: Callable[[Outcome], None]) -> None:
    """Run `work` in the event loop, for tests and the simulation."""
    done(work)
