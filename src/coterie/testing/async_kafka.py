"""A Kafka server for tests that are coroutines: `Kafka` with await.

    async with AsyncKafka() as kafka:
        await kafka.topic("orders")
        await kafka.groups["billing"].wait_for(state="Stable")

The server still runs in a thread of its own, and calls wait for it in a worker thread,
so the test's event loop goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from coterie.testing.clock import Clock
from coterie.testing.faults.registry import Faults
from coterie.testing.groups import POLL_S, Delivery, Group, Offsets, RecordId
from coterie.testing.in_process import TIMEOUT_S
from coterie.testing.kafka import Kafka
from coterie.testing.recorder import Rebalances, Requests
from coterie.types import GroupId, LogOffset, TopicPartition

if TYPE_CHECKING:
    from coterie.client.admin.groups import GroupDescription, MemberDescription

P = ParamSpec("P")
T = TypeVar("T")


def _in_worker(
    method: Callable[Concatenate[Kafka, P], T],
) -> Callable[Concatenate[AsyncKafka, P], Coroutine[Any, Any, T]]:
    """Return a method of `Kafka` as a coroutine function."""

    async def call(self: AsyncKafka, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.sync, *args, **kwargs)

    update_wrapper(call, method)
    return call


def _of_group(
    method: Callable[Concatenate[Group, P], T],
) -> Callable[Concatenate[AsyncGroup, P], Coroutine[Any, Any, T]]:
    """Return a method of `Group` as a coroutine function."""

    async def call(self: AsyncGroup, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.sync, *args, **kwargs)

    update_wrapper(call, method)
    return call


class AsyncKafka:
    """A Kafka server; `start` and `close` it, or use it in `async with`.

    `AsyncKafka(Kafka(nodes=3))` has three nodes. A server that is running already can
    be used as well, from any event loop.
    """

    def __init__(self, kafka: Kafka | None = None) -> None:
        self.sync = Kafka() if kafka is None else kafka
        """The same server for code that is not a coroutine."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def is_running(self) -> bool:
        """Whether the server is started, and was not closed or killed since."""
        return self.sync.is_running

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as in "127.0.0.1:40001,127.0.0.1:40002"."""
        return self.sync.bootstrap_servers

    @property
    def clock(self) -> Clock:
        """The server's time, which `await clock.advance_async(days=8)` moves."""
        return self.sync.clock

    @property
    def faults(self) -> Faults:
        """The faults that tests inject, see docs/testing/faults.md."""
        return self.sync.faults

    @property
    def requests(self) -> Requests:
        """The requests that the server received, the latest 10,000."""
        return self.sync.requests

    @property
    def rebalances(self) -> Rebalances:
        """The rebalances of groups, with their reasons, the latest 1,000."""
        return self.sync.rebalances

    @property
    def groups(self) -> AsyncGroups:
        """The groups by id, whether they exist or not."""
        return AsyncGroups(self.sync)

    def history(self, group: str | None = None) -> str:
        """Return the requests and rebalances of a group, or of all, as a table."""
        return self.sync.history(group)

    start = _in_worker(Kafka.start)
    close = _in_worker(Kafka.close)
    kill = _in_worker(Kafka.kill)
    restart = _in_worker(Kafka.restart)
    pause = _in_worker(Kafka.pause)
    resume = _in_worker(Kafka.resume)
    topic = _in_worker(Kafka.topic)
    produce = _in_worker(Kafka.produce)
    records = _in_worker(Kafka.records)


class AsyncGroups:
    """The groups of a server by id."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def __getitem__(self, group_id: GroupId) -> AsyncGroup:
        return AsyncGroup(self._kafka.groups[group_id])

    async def list(self) -> list[GroupId]:
        """Return the ids of the groups that exist."""
        return await asyncio.to_thread(list, self._kafka.groups)


class AsyncGroup:
    """A group of a server. Its properties are awaited, as in `await group.state`."""

    def __init__(self, group: Group) -> None:
        self.sync = group
        """The same group for code that is not a coroutine."""
        self.group_id = group.group_id

    def __repr__(self) -> str:
        return f"AsyncGroup({self.group_id!r})"

    @property
    def description(self) -> Coroutine[Any, Any, GroupDescription | None]:
        return asyncio.to_thread(lambda: self.sync.description)

    @property
    def state(self) -> Coroutine[Any, Any, str]:
        return asyncio.to_thread(lambda: self.sync.state)

    @property
    def type(self) -> Coroutine[Any, Any, str | None]:
        return asyncio.to_thread(lambda: self.sync.type)

    @property
    def members(self) -> Coroutine[Any, Any, tuple[MemberDescription, ...]]:
        return asyncio.to_thread(lambda: self.sync.members)

    @property
    def assignment(self) -> Coroutine[Any, Any, dict[str, tuple[TopicPartition, ...]]]:
        return asyncio.to_thread(lambda: self.sync.assignment)

    @property
    def offsets(self) -> Coroutine[Any, Any, dict[TopicPartition, LogOffset]]:
        return asyncio.to_thread(lambda: self.sync.offsets)

    @property
    def lags(self) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        return asyncio.to_thread(lambda: self.sync.lags)

    @property
    def lag(self) -> Coroutine[Any, Any, int | None]:
        return asyncio.to_thread(lambda: self.sync.lag)

    @property
    def deliveries(self) -> Coroutine[Any, Any, dict[RecordId, Delivery]]:
        return asyncio.to_thread(lambda: self.sync.deliveries)

    @property
    def in_flight(self) -> Coroutine[Any, Any, int]:
        return asyncio.to_thread(lambda: self.sync.in_flight)

    async def wait_for(
        self,
        *,
        state: str | None = None,
        members: int | None = None,
        lag: int | None = None,
        committed: Offsets | None = None,
        in_flight: int | None = None,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 - as in Group.wait_for
    ) -> AsyncGroup:
        """Wait until all that is given is true at the same time, as `Group.wait_for`.

        Raises AssertionError and ValueError. It can be cancelled.
        """
        attempts = self.sync.attempts(
            state, members, lag, committed, in_flight, timeout
        )
        met = object()
        while await asyncio.to_thread(next, attempts, met) is not met:  # noqa: ASYNC110 - no event
            await asyncio.sleep(POLL_S)
        return self

    def history(self) -> str:
        """Return the group's recorded requests and rebalances as a table."""
        return self.sync.history()

    assert_state = _of_group(Group.assert_state)
    assert_members = _of_group(Group.assert_members)
    assert_lag = _of_group(Group.assert_lag)
    assert_committed = _of_group(Group.assert_committed)
    seek = _of_group(Group.seek)
    commit = _of_group(Group.commit)
    configure = _of_group(Group.configure)
    delete = _of_group(Group.delete)
