"""The life of a group member of either protocol, for asyncio.

`GroupMember` and `ClassicMember` start, end, commit and leave in the same way; what
they send to the coordinator is their own.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias, TypedDict

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.cluster import Cluster
from coterie.client.member_offsets import Offset
from coterie.client.notifier import Notifier
from coterie.client.options import ClientOptions
from coterie.errors import ClientError, CommitRefused, CoterieError
from coterie.types import GroupId, MemberId, TopicPartition
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

Owned: TypeAlias = frozenset[TopicPartition]
"""The assigned partitions of a member."""
OnAssigned: TypeAlias = Callable[[Owned], Awaitable[None]]
"""A callback that gets the partitions that were added."""
OnRevoked: TypeAlias = Callable[
    [Owned], Awaitable[Mapping[TopicPartition, Offset] | None]
]
"""A callback that gets the partitions to give up, and returns offsets to commit for
them, or None."""
OnLost: TypeAlias = Callable[[Owned], Awaitable[None]]
"""A callback that gets the partitions that were lost without a commit, as when the
member was fenced."""


class CommonOptions(TypedDict, total=False):
    """The optional arguments of every member."""

    instance_id: str | None
    """The instance id of a static member, which keeps its assignment when it rejoins
    within the session time-out (KIP-345); in a classic group it needs Kafka 2.3."""
    rebalance_timeout_ms: int
    """The limit for revoking partitions and, in a classic group, for joining again;
    60,000 by default there, 300,000 with KIP-848."""
    client: ClientOptions
    """The options of its connections."""


class Member(ABC):
    """A member of a group, from `start` to `leave`.

    The membership ends when the coordinator rejects the member for good or a callback
    raises; `ended` and the end of the `async with` block then raise the error. A
    subclass has the protocol: the tasks of the member, and how it leaves.
    """

    def __init__(
        self, cluster: Cluster, group_id: GroupId, instance_id: str | None
    ) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._is_static = instance_id is not None
        self._notifier = Notifier()
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: Exception | None = None

    @property
    def group_id(self) -> GroupId:
        """The id of the group."""
        return self._group_id

    @property
    @abstractmethod
    def member_id(self) -> MemberId:
        """The member id."""

    async def start(self) -> None:
        """Join the group, and return when the member is in it.

        A member of a classic group has got its first assignment then. Raises ApiError
        when the coordinator rejects the member, RequestTimedOut when a classic group
        does not complete a rebalance in time, ClientError when no broker can be
        reached, and the exception of a callback.
        """
        assert not self._tasks, "a member can be started only once"
        try:
            await self._cluster.coordinator(self.group_id)
            for coroutine in self._begin():
                task = asyncio.create_task(coroutine)
                task.add_done_callback(self._task_ended)
                self._tasks.append(task)
            await self._until_joined()
        except BaseException:
            await self._leave_quietly()
            raise

    async def leave(self, *, for_good: bool | None = None) -> None:
        """Revoke the assignment, commit, and leave the group, as `async with` does.

        A static member keeps its assignment for the session time-out, unless it leaves
        `for_good`. A dynamic member leaves for good, unless `for_good` is False: then
        it only stops its heartbeats, and its session times out (KIP-1092).

        When it is cancelled, the member goes on to leave, and its last commit is sent;
        `leave` may be called again to wait for that.

        Raises the errors of `ended`. A callback cannot leave, because leaving waits for
        callbacks: it may raise, or let another task leave.
        """
        if asyncio.current_task() in self._tasks:
            raise ClientError("a callback cannot wait until its own member has left")
        if not self._is_over():
            is_for_good = not self._is_static if for_good is None else for_good
            await self._leave(for_good=is_for_good)
        await self._stop()
        self._raise_failure()

    async def ended(self) -> None:
        """Wait for the end of the membership; return after `leave`.

        Raises ApiError when the coordinator rejected the member for good, and the
        exception of a callback.
        """
        await self._notifier.wait_until(self._is_over)
        self._raise_failure()

    async def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Commit the next offset to read of each partition, or an `CommittedOffset`.

        A member of a classic group may commit from `on_assigned` to the end of
        `on_revoked`. Raises CommitRefused with the codes of refused partitions,
        ApiError when the member is not in the group, and ClientError when the
        coordinator is unavailable.
        """
        codes = await self._commit(offsets) if offsets else {}
        if refused := {each: code for each, code in codes.items() if code}:
            raise CommitRefused(refused)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of each partition; None without a commit.

        It waits for open transactions to end, from Kafka 2.5 on. Raises ApiError, also
        for an error of one partition, and ClientError.
        """
        return await self._committed(list(partitions))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.leave()
        else:
            await self._leave_quietly()

    # The parts of a protocol.

    @abstractmethod
    def _begin(self) -> Iterable[Coroutine[None, None, None]]:
        """Begin to join, and return the tasks of the member."""

    @abstractmethod
    async def _until_joined(self) -> None:
        """Wait until the member is in the group. Raises the errors of `start`."""

    @abstractmethod
    async def _leave(self, *, for_good: bool) -> None:
        """Leave the group, and return when the membership is over."""

    @abstractmethod
    def _is_over(self) -> bool:
        """Return whether the membership has not begun, or has ended."""

    @abstractmethod
    async def _commit(
        self, offsets: Mapping[TopicPartition, Offset]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """Send a commit; return the code of each partition."""

    @abstractmethod
    async def _committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        """Return the committed offset of each partition; None without a commit."""

    # Common to both protocols.

    async def _commit_last(
        self, offsets: Mapping[TopicPartition, Offset] | None
    ) -> None:
        """Commit before the partitions are given up (E25-08a). A failed commit does not
        delay the revocation: the next owner reads some records again."""
        try:
            await self.commit(offsets or {})
        except CoterieError as error:
            _LOGGER.warning(
                "group %s: the commit before revocation failed: %s",
                self.group_id,
                error,
            )

    def _fail(self, error: Exception) -> None:
        """Set the error that ended the membership, unless there is one."""
        self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, Exception)
            self._fail(error)
        self._notifier.notify()

    async def _leave_quietly(self) -> None:
        """Leave the group while another error is being raised; only log errors of
        leaving."""
        try:
            await self.leave()
        except Exception as failure:
            _LOGGER.info("group %s: leaving failed: %s", self.group_id, failure)

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close()
