"""A member of a KIP-848 consumer group, for asyncio: public API.

It joins, heartbeats, gives up and takes partitions, commits and leaves. It fetches
nothing: what to do with a partition is the application's. A worked example:

    async def start(partitions):
        for partition in partitions:
            readers[partition] = asyncio.create_task(read(partition))

    async def stop(partitions):
        return {each: await finish(readers.pop(each)) for each in partitions}
        # the next offset of each, which are committed for us

    async with GroupMember(
        "localhost:9092",
        group_id="billing",
        topics=["orders"],
        on_assigned=start,
        on_revoked=stop,
    ) as member:
        await member.ended()     # for ever, or until the group refuses the member

Inside the block the member is in the group. At its end everything is given up, what
`on_revoked` returns is committed, and the group is told, in this order.

The group hears that a partition is free only when `on_revoked` has returned and its
offsets are committed. Heartbeats go on meanwhile, but not for ever: the group throws a
member out that takes longer than `rebalance_timeout_ms`. Then, as after a pause of the
whole process, `on_lost` is called: its partitions belong to others already, and their
offsets cannot be committed. The member joins anew by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias, TypedDict, Unpack
from uuid import uuid4

from coterie.client.assignor import ClientAssignor
from coterie.client.cluster import Cluster, may_pass
from coterie.client.computing import Computing
from coterie.client.member_offsets import MemberOffsets, Offset, OffsetAndMetadata
from coterie.client.member_states import MemberState
from coterie.client.member_values import (
    Assign,
    Backoff,
    Identity,
    Lose,
    Revoke,
    Step,
    Subscription,
)
from coterie.client.membership import (
    LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
    Membership,
)
from coterie.client.options import ClientOptions
from coterie.client.pulse import Pulse
from coterie.errors import (
    ApiError,
    ClientError,
    CoterieError,
)
from coterie.types import GroupId, MemberId, TopicName, TopicPartition
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

_LOGGER = logging.getLogger(__name__)

Owned: TypeAlias = frozenset[TopicPartition]
OnAssigned: TypeAlias = Callable[[Owned], Awaitable[None]]
OnRevoked: TypeAlias = Callable[
    [Owned], Awaitable[Mapping[TopicPartition, Offset] | None]
]
OnLost: TypeAlias = Callable[[Owned], Awaitable[None]]


class MemberOptions(TypedDict, total=False):
    """What a `GroupMember` may be told besides group and topics."""

    pattern: str | None
    """Topics by regular expression, in RE2's syntax; it must match the whole name."""
    on_assigned: OnAssigned
    """Called with the partitions that are new."""
    on_revoked: OnRevoked
    """Called with the partitions to give up; may return offsets to commit for them."""
    on_lost: OnLost
    """Called with partitions that are gone already: they cannot be committed."""
    instance_id: str | None
    """Makes a static member: who comes back under this name within the session
    time-out finds its partitions again (KIP-345)."""
    rack_id: str | None
    """Where the member stands, for assignors that care."""
    server_assignor: str | None
    """The server-side assignor it asks for; the group uses what most members want."""
    rebalance_timeout_ms: int
    """How long the member may take to give partitions up; 300,000 by default."""
    assignors: Sequence[ClientAssignor]
    """Client-side assignors it offers, best first; only Coterie has a use for them."""
    client: ClientOptions
    """How it talks to brokers."""


class GroupMember:
    """A member of a consumer group. See the module's docstring.

    It ends by itself when the coordinator refuses it for good, or when a callback
    raises; `ended` then raises why, and so does the end of the `async with` block.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        group_id: GroupId,
        topics: Iterable[TopicName] = (),
        **options: Unpack[MemberOptions],
    ) -> None:
        client = options.get("client") or ClientOptions()
        self._cluster = Cluster(bootstrap, client)
        self._membership = Membership(
            Identity(
                group_id=group_id,
                member_id=fresh_member_id(),
                instance_id=options.get("instance_id"),
                rack_id=options.get("rack_id"),
                server_assignor=options.get("server_assignor"),
                rebalance_timeout_ms=options.get("rebalance_timeout_ms", 300_000),
                assignors=tuple(options.get("assignors", ())),
            ),
            Subscription(frozenset(topics), options.get("pattern")),
            Backoff(client.retry_backoff_ms, client.retry_backoff_max_ms),
        )
        self._pulse = Pulse()
        self._offsets = MemberOffsets(self._cluster, self._membership, self._pulse)
        self._on_assigned = options.get("on_assigned")
        self._on_revoked = options.get("on_revoked")
        self._on_lost = options.get("on_lost")
        self._tasks: list[asyncio.Task[None]] = []
        self._failure: Exception | None = None
        self._is_broken = False

    # What it is.

    @property
    def group_id(self) -> GroupId:
        """The group's name."""
        return self._membership.identity.group_id

    @property
    def member_id(self) -> MemberId:
        """The id in the group; it stays when the member is fenced (E10-06)."""
        return self._membership.member_id

    @property
    def member_epoch(self) -> int:
        """The epoch of the group that the member has reached; 0 outside the group."""
        return self._membership.epoch

    @property
    def state(self) -> MemberState:
        """Where the member stands."""
        return self._membership.state

    @property
    def assignment(self) -> Owned:
        """The partitions it owns now, those that `on_revoked` is giving up included."""
        return self._membership.named(self._membership.owned)

    # Its life.

    async def start(self) -> None:
        """Join the group, and return when it has accepted the member.

        Raises ApiError when it has not, and ClientError when nobody can be reached.
        """
        assert not self._tasks, "a member is started once"
        try:
            await self._cluster.coordinator(self.group_id)
            self._membership.join()
            for work in self._works():
                task = asyncio.create_task(work)
                task.add_done_callback(self._task_ended)
                self._tasks.append(task)
            await self._accepted()
        except BaseException:
            await self._leave_quietly()
            raise

    async def subscribe(
        self, topics: Iterable[TopicName] = (), pattern: str | None = None
    ) -> None:
        """Ask for other topics instead, and return when the group has accepted that.

        Raises ApiError when it has not: INVALID_REGULAR_EXPRESSION, after which the
        member goes on with what it had before, or TOPIC_AUTHORIZATION_FAILED, after
        which it keeps asking (E7-74).
        """
        self._membership.subscribe(Subscription(frozenset(topics), pattern))
        self._pulse.beat()
        await self._accepted()

    async def leave(self, *, for_good: bool | None = None) -> None:
        """Give everything up, commit, and leave the group; what `async with` does.

        A static member leaves its place open for a session time-out, unless it leaves
        `for_good`. A dynamic one always frees its place, unless that is False: then the
        group is not told and finds out when the session times out (KIP-1092).

        Raises what `ended` does. A callback cannot leave, for leaving waits for it: it
        may raise, which ends the membership too, or have another task leave.
        """
        if asyncio.current_task() in self._tasks:
            raise ClientError("a callback cannot wait for its own member to leave")
        try:
            if not self._is_over():
                await self._leave(self._leave_epoch(for_good=for_good))
        finally:
            await self._stop()
        if (failure := self._failure or self._membership.failure) is not None:
            raise failure

    async def ended(self) -> None:
        """Wait until the member is none any more, and return when it was told to leave.

        Raises ApiError when the coordinator refused it for good, and what a callback
        raised when that was the end.
        """
        await self._pulse.until(self._is_over)
        if (failure := self._failure or self._membership.failure) is not None:
            raise failure

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

    # Offsets.

    async def commit(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Commit the next offset to read of each partition, or an `OffsetAndMetadata`.

        Raises CommitRefused with the code of each partition that was refused; ApiError
        when the member is not in the group; ClientError when nobody answers.
        """
        await self._offsets.commit(offsets)

    async def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each partition; None for nothing.

        It waits for open transactions to end. Raises ApiError, of a partition too, and
        ClientError.
        """
        return await self._offsets.committed(partitions)

    # Its tasks: one heartbeats, one speaks to the application, one may compute.

    def _works(self) -> list[Coroutine[None, None, None]]:
        membership = self._membership
        works = [self._heartbeats(), self._steps()]
        if assignors := membership.identity.assignors:
            computing = Computing(self._cluster, membership, self._pulse, assignors)
            works.append(computing.run())
        return works

    async def _heartbeats(self) -> None:
        membership = self._membership
        while not self._is_over():
            due_ms = membership.heartbeat_due_ms
            wait_s = None if due_ms is None else (due_ms - self._now_ms()) / 1000
            if wait_s is not None and wait_s <= 0:
                await self._heartbeat()
                self._pulse.beat()
            else:
                await self._pulse.wait(wait_s)

    async def _heartbeat(self) -> None:
        membership, cluster = self._membership, self._cluster
        try:
            connection = await cluster.coordinator(self.group_id)
            if membership.heartbeat_due_ms is None:
                return  # what was due is no more, while the coordinator was looked up
            version = connection.version_of(ConsumerGroupHeartbeatRequest)
            request = membership.heartbeat(self._now_ms(), version)
            answer = await connection.call(request, ConsumerGroupHeartbeatResponse)
        except CoterieError as error:
            _LOGGER.info("group %s: no heartbeat: %s", self.group_id, error)
            membership.failed(self._now_ms())
            cluster.forget_coordinator(self.group_id)
            if not may_pass(error):
                membership.fail(error)
        else:
            self._take(answer)

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        membership = self._membership
        if membership.answered(answer, self._now_ms()):
            self._cluster.forget_coordinator(self.group_id)
        if answer.error_code:
            _LOGGER.info(
                "group %s: the coordinator answered a heartbeat with error %d: %s",
                self.group_id,
                answer.error_code,
                answer.error_message,
            )

    async def _steps(self) -> None:
        membership = self._membership
        while True:
            if (step := membership.begin()) is not None:
                await self._carry_out(step)
                membership.finish()
                self._pulse.beat()
            elif self._is_over():
                return
            elif membership.unresolved:
                await self._resolve()
            else:
                await self._pulse.wait()

    async def _carry_out(self, step: Step) -> None:
        """Call the application. What it raises is the end of the membership, but not
        before the group was left properly."""
        partitions = self._membership.named(step.partitions)
        try:
            match step:
                case Assign() if self._on_assigned is not None:
                    await self._on_assigned(partitions)
                case Lose() if self._on_lost is not None:
                    await self._on_lost(partitions)
                case Revoke() if self._on_revoked is not None:
                    await self._commit_last(await self._on_revoked(partitions))
        except Exception as error:
            _LOGGER.exception("group %s: a callback failed: leaving", self.group_id)
            self._failure = self._failure or error
            self._membership.leave(self._leave_epoch())

    async def _commit_last(
        self, offsets: Mapping[TopicPartition, Offset] | None
    ) -> None:
        """Commit before the group is told (E25-08). A commit that fails holds nothing
        up: whoever gets the partitions reads some records again."""
        if not offsets:
            return
        try:
            await self.commit(offsets)
        except CoterieError as error:
            _LOGGER.warning("group %s: the last commit: %s", self.group_id, error)

    async def _resolve(self) -> None:
        try:
            names = await self._cluster.topic_names(self._membership.unresolved)
        except (ClientError, ApiError) as error:
            _LOGGER.info("group %s: names of topics: %s", self.group_id, error)
            names = {}
        self._membership.learn_names(names)
        if names:
            self._pulse.beat()
        else:
            wait_ms = self._cluster.options.retry_backoff_max_ms
            await self._pulse.wait(wait_ms / 1000)

    # Leaving and ending.

    async def _leave(self, epoch: int | None) -> None:
        self._membership.leave(epoch)
        self._pulse.beat()
        await self._pulse.until(
            lambda: self.state is MemberState.LEAVING or self._is_over()
        )
        limit_s = self._cluster.options.request_timeout_ms / 1000
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._pulse.until(self._is_over)

    async def _leave_quietly(self) -> None:
        """Leave because of an error that is being raised, which matters more."""
        try:
            await self.leave()
        except Exception as failure:
            _LOGGER.info("group %s: while leaving: %s", self.group_id, failure)

    def _leave_epoch(self, *, for_good: bool | None = None) -> int | None:
        if self._membership.identity.instance_id is not None:
            return LEAVE_EPOCH if for_good else LEAVE_FOR_A_WHILE_EPOCH
        return None if for_good is False else LEAVE_EPOCH

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close()

    async def _accepted(self) -> None:
        """Wait for the subscription to be accepted, or raise why it is not."""
        membership = self._membership
        await self._pulse.until(
            lambda: (
                membership.is_accepted
                or membership.refusal is not None
                or membership.failure is not None
                or self._is_over()
            )
        )
        error = self._failure or membership.failure or membership.refusal
        if error is not None:
            raise error
        if not membership.is_accepted:
            raise ClientError(f"the member is not in group {self.group_id}")

    def _is_over(self) -> bool:
        return self._membership.is_over or self._is_broken

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """A task that ends with an error is a bug of ours: the member must not live on
        half dead."""
        if not task.cancelled() and (error := task.exception()) is not None:
            assert isinstance(error, Exception)
            self._failure = self._failure or error
            self._is_broken = True
        self._pulse.beat()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def fresh_member_id() -> MemberId:
    """An id as Kafka's own clients make them: 16 random bytes in URL-safe base64, with
    no dash in front, which a command line would take for an option (KIP-1082)."""
    while True:
        text = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
