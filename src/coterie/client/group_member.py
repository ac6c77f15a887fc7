"""A member of a KIP-848 consumer group, for asyncio.

It joins, heartbeats, reconciles its assignment, commits and leaves. It fetches no
records: the application decides what to do with a partition. An example:

    async def start(partitions):
        for partition in partitions:
            readers[partition] = asyncio.create_task(read(partition))

    async def stop(partitions):
        return {each: await finish(readers.pop(each)) for each in partitions}
        # the next offset of each partition, which the member commits

    async with GroupMember(
        "localhost:9092",
        group_id="billing",
        topics=["orders"],
        on_assigned=start,
        on_revoked=stop,
    ) as member:
        await member.ended()     # until the group rejects the member

At the end of the block every partition is revoked, the offsets that `on_revoked`
returns are committed, and the member leaves the group, in this order.

A partition is reported as revoked only after `on_revoked` has returned and its offsets
are committed. Heartbeats continue meanwhile, but the group fences a member that takes
longer than `rebalance_timeout_ms`. After that, or after a pause of the process,
`on_lost` is called: the partitions already belong to other members and their offsets
cannot be committed. The member then joins again automatically.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from base64 import urlsafe_b64encode
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Unpack
from uuid import uuid4

from coterie.client import member_states
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.client_assignors import (
    AssignmentComputer,
    ClientAssignor,
    assignor_declarations,
)
from coterie.client.cluster import Cluster, is_retriable
from coterie.client.member import (
    CommonOptions,
    Member,
    OnAssigned,
    OnLost,
    OnRevoked,
    Owned,
)
from coterie.client.member_offsets import MemberOffsets, Offset
from coterie.client.membership import (
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    Membership,
)
from coterie.client.options import ClientOptions
from coterie.errors import (
    ApiError,
    ClientError,
    CoterieError,
)
from coterie.types import GroupId, MemberId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)


class MemberOptions(CommonOptions, total=False):
    """The optional arguments of `GroupMember`."""

    on_assigned: OnAssigned
    """The callback for newly assigned partitions."""
    on_revoked: OnRevoked
    """The callback for partitions to revoke; it may return offsets to commit for them.
    """
    on_lost: OnLost
    """The callback for lost partitions, whose offsets cannot be committed."""
    rack_id: str | None
    """The member's rack, for rack-aware assignors."""
    pattern: str | None
    """A regular expression in RE2 syntax for whole topic names."""
    server_assignor: str | None
    """The preferred server-side assignor; the group uses the one most members
    prefer."""
    assignors: Sequence[ClientAssignor]
    """Client-side assignors by preference; only Coterie brokers support them."""


class GroupMember(Member):
    """A member of a consumer group (KIP-848); `Member` has its life."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        group_id: GroupId,
        topics: Iterable[TopicName] = (),
        **options: Unpack[MemberOptions],
    ) -> None:
        client = options.get("client") or ClientOptions()
        instance_id = options.get("instance_id")
        super().__init__(Cluster(bootstrap, client), group_id, instance_id)
        self._assignors = tuple(options.get("assignors", ()))
        self._membership = Membership(
            member_states.Identity(
                group_id=group_id,
                member_id=fresh_member_id(),
                instance_id=instance_id,
                rack_id=options.get("rack_id"),
                server_assignor=options.get("server_assignor"),
                rebalance_timeout_ms=options.get("rebalance_timeout_ms", 300_000),
                client_assignors=assignor_declarations(self._assignors)
                if self._assignors
                else None,
            ),
            member_states.Subscription(frozenset(topics), options.get("pattern")),
            member_states.Backoff(client.retry_backoff_ms, client.retry_backoff_max_ms),
        )
        self._offsets = MemberOffsets(self._cluster, self._membership, self._notifier)
        self._on_assigned = options.get("on_assigned")
        self._on_revoked = options.get("on_revoked")
        self._on_lost = options.get("on_lost")

    @property
    def member_id(self) -> MemberId:
        """The member id; it stays the same when the member is fenced (E10-06)."""
        return self._membership.member_id

    @property
    def member_epoch(self) -> int:
        """The member epoch; 0 outside the group."""
        return self._membership.epoch

    @property
    def state(self) -> member_states.MemberState:
        """The state of the member."""
        return self._membership.state

    @property
    def assignment(self) -> Owned:
        """The owned partitions, including those that `on_revoked` is revoking."""
        return self._membership.named(self._membership.owned)

    async def subscribe(
        self, topics: Iterable[TopicName] = (), pattern: str | None = None
    ) -> None:
        """Replace the subscription and return when the coordinator has accepted it.

        Raises ApiError: after INVALID_REGULAR_EXPRESSION the member keeps the previous
        subscription, after TOPIC_AUTHORIZATION_FAILED it retries (E7-74).
        """
        self._membership.subscribe(
            member_states.Subscription(frozenset(topics), pattern)
        )
        self._notifier.notify()
        await self._accepted()

    async def _committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        return await self._offsets.committed(partitions)

    async def _commit(
        self, offsets: Mapping[TopicPartition, Offset]
    ) -> Mapping[TopicPartition, ErrorCode]:
        return await self._offsets.commit(offsets)

    # Tasks: heartbeats, the callbacks of the application, and client-side assignors.

    def _begin(self) -> list[Coroutine[None, None, None]]:
        membership = self._membership
        membership.join()
        coroutines = [self._heartbeats(), self._steps()]
        if self._assignors:
            computing = AssignmentComputer(
                self._cluster, membership, self._notifier, self._assignors
            )
            coroutines.append(computing.run())
        return coroutines

    async def _heartbeats(self) -> None:
        membership = self._membership
        while not self._is_over():
            due_ms = membership.heartbeat_due_ms
            wait_s = None if due_ms is None else (due_ms - self._now_ms()) / 1000
            if wait_s is not None and wait_s <= 0:
                await self._heartbeat()
                self._notifier.notify()
            else:
                await self._notifier.wait(wait_s)

    async def _heartbeat(self) -> None:
        membership, cluster = self._membership, self._cluster
        try:
            connection = await cluster.coordinator(self.group_id)
            if membership.heartbeat_due_ms is None:
                return  # the state changed while the coordinator was looked up
            version = connection.version_of(m.ConsumerGroupHeartbeatRequest)
            request = membership.heartbeat(self._now_ms(), version)
            response = await connection.call(request, m.ConsumerGroupHeartbeatResponse)
        except CoterieError as error:
            _LOGGER.info("group %s: heartbeat failed: %s", self.group_id, error)
            membership.failed(self._now_ms())
            cluster.forget_coordinator(self.group_id)
            if not is_retriable(error):
                membership.fail(error)
        else:
            self._process(response)

    def _process(self, response: m.ConsumerGroupHeartbeatResponse) -> None:
        membership = self._membership
        if membership.answered(response, self._now_ms()):
            self._cluster.forget_coordinator(self.group_id)
        if response.error_code:
            _LOGGER.info(
                "group %s: heartbeat failed with error %d: %s",
                self.group_id,
                response.error_code,
                response.error_message,
            )

    async def _steps(self) -> None:
        membership = self._membership
        while True:
            if (step := membership.begin()) is not None:
                await self._run_callback(step)
                membership.finish()
                self._notifier.notify()
            elif self._is_over():
                return
            elif membership.unresolved:
                await self._resolve()
            else:
                await self._notifier.wait()

    async def _run_callback(self, step: member_states.Step) -> None:
        """Run a callback of the application. After an exception the member leaves the
        group."""
        partitions = self._membership.named(step.partitions)
        try:
            match step:
                case member_states.Assign() if self._on_assigned is not None:
                    await self._on_assigned(partitions)
                case member_states.Lose() if self._on_lost is not None:
                    await self._on_lost(partitions)
                case member_states.Revoke() if self._on_revoked is not None:
                    await self._commit_last(await self._on_revoked(partitions))
        except Exception as error:
            _LOGGER.exception(
                "group %s: leaving because a callback failed", self.group_id
            )
            self._fail(error)
            self._membership.leave(self._leave_epoch(for_good=not self._is_static))

    async def _resolve(self) -> None:
        try:
            names = await self._cluster.topic_names(self._membership.unresolved)
        except (ClientError, ApiError) as error:
            _LOGGER.info(
                "group %s: reading topic names failed: %s", self.group_id, error
            )
            names = {}
        self._membership.learn_names(names)
        if names:
            self._notifier.notify()
        else:
            wait_ms = self._cluster.options.retry_backoff_max_ms
            await self._notifier.wait(wait_ms / 1000)

    async def _leave(self, *, for_good: bool) -> None:
        self._membership.leave(self._leave_epoch(for_good=for_good))
        self._notifier.notify()
        await self._notifier.wait_until(
            lambda: self.state is member_states.MemberState.LEAVING or self._is_over()
        )
        limit_s = self._cluster.options.request_timeout_ms / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._notifier.wait_until(self._is_over)

    def _leave_epoch(self, *, for_good: bool) -> int | None:
        if self._is_static:
            return LEAVE_EPOCH if for_good else LEAVE_FOR_A_WHILE_EPOCH
        return LEAVE_EPOCH if for_good else None

    async def _until_joined(self) -> None:
        await self._accepted()

    async def _accepted(self) -> None:
        """Wait until the subscription is accepted. Raises the error that prevents
        it."""
        membership = self._membership
        await self._notifier.wait_until(
            lambda: (
                membership.is_accepted
                or membership.refusal is not None
                or membership.failure is not None
                or self._is_over()
            )
        )
        self._raise_failure()
        if membership.refusal is not None:
            raise membership.refusal
        if not membership.is_accepted:
            raise ClientError(f"the member is not in group {self.group_id}")

    def _is_over(self) -> bool:
        # A task that ends earlier has a bug.
        return self._membership.is_over or any(task.done() for task in self._tasks)

    def _raise_failure(self) -> None:
        if (failure := self._membership.failure) is not None:
            self._fail(failure)
        super()._raise_failure()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def fresh_member_id() -> MemberId:
    """Return a member id as Kafka's clients create them: 16 random bytes in URL-safe
    base64, without a leading dash, which command lines take for an option
    (KIP-1082)."""
    while True:
        text = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
