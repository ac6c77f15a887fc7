"""Reads of upstream that are repeated in the background."""

from __future__ import annotations

import asyncio

import pytest

from coterie.gateway.upstream.poller import Poller

pytestmark = pytest.mark.asyncio

LIMIT_S = 60


async def test_a_poller_reads_again_after_a_bug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reads = 0
    has_read, was_told = asyncio.Event(), asyncio.Event()

    class Failing(Poller):
        async def poll(self) -> None:
            nonlocal reads
            reads += 1
            if reads == 1:
                raise RuntimeError("a bug")
            has_read.set()

    poller = Failing(1, "the topics")
    poller.refresh(was_told.set)
    poller.repeat()
    try:
        async with asyncio.timeout(LIMIT_S):
            await was_told.wait()
            await has_read.wait()
    finally:
        await poller.close()
    assert caplog.records[0].exc_info
