"""What the requests to all brokers share: the topic, its tasks, and its leaders."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from coterie.errors import ConnectionLost, CoterieError
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The errors after which the leader of a partition is looked up again."""


def call_back(done: Callable[[Any], None], result: object) -> None:
    """Call a callback; a bug in it must not stop the client."""
    try:
        done(result)
    except Exception:
        _LOGGER.exception("a bug in a callback of a response from upstream")


def bug_in(what: str) -> ConnectionLost:
    """Log the exception that is being handled; return the error for those who wait."""
    _LOGGER.exception("a bug in %s", what)
    return ConnectionLost(f"a bug in {what}")


@dataclass(slots=True, eq=False, kw_only=True)
class PendingCall:
    """A call to a partition, until `done` was called."""

    partition: int
    done: Callable[[Any], None]
    is_done: bool = False

    def finish(self, result: object) -> None:
        """Call `done`, unless it was called."""
        if not self.is_done:
            self.is_done = True
            call_back(self.done, result)


class Tasks:
    """The tasks of a client whose callers wait by callbacks."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, job: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until it ends or the client is closed."""
        task = asyncio.get_running_loop().create_task(job)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def call(
        self, job: Coroutine[Any, Any, Any], done: Callable[[Any], None], what: str
    ) -> None:
        """Run a coroutine, and call `done` with its result or its error."""

        async def run() -> None:
            result: Any
            try:
                result = await job
            except CoterieError as error:
                result = error
            except asyncio.CancelledError:
                result = ConnectionLost("the client is closed")
            except Exception:
                result = bug_in(what)
            call_back(done, result)

        self.spawn(run())

    async def close(self) -> None:
        """Cancel all tasks, and wait for their ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class TopicState(Tasks):
    """A topic, the tasks of its requests, and the request to look up its leaders."""

    def __init__(self, name: TopicName, refresh: Callable[[], None]) -> None:
        super().__init__()
        self.name = name
        self.refresh = refresh
