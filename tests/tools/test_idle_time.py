"""The clock that skips idle time waits for the threads of the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.client.idle_time import IDLE_S, skip_idle_time


def test_the_end_of_threads_is_not_idle_time() -> None:
    is_waited_for = threading.Event()

    async def main() -> None:
        loop: Any = asyncio.get_running_loop()
        select = loop._selector.select

        def observe(timeout_s: float | None) -> Any:
            if timeout_s is None or timeout_s > IDLE_S:
                is_waited_for.set()
            return select(timeout_s)

        loop._selector.select = observe
        skip_idle_time()
        work = loop.run_in_executor(None, is_waited_for.wait, 60)
        try:
            async with asyncio.timeout(300):
                await loop.shutdown_default_executor()
        finally:
            is_waited_for.set()
        assert await work

    asyncio.run(main())
