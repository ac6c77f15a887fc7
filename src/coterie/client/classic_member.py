"""A member of a group of the classic protocol, for asyncio.

It joins, heartbeats, rebalances, commits and leaves; as the leader it also assigns. The
protocol type, the metadata and the assignments are the application's, as bytes, so a
group may divide anything: Kafka Connect and Schema Registry use groups in this way. An
example that divides jobs:

    async def assign(protocol, members):
        names = sorted(member.member_id for member in members)
        return {name: b"jobs of %d" % number for number, name in enumerate(names)}

    async def start(assignment, generation):
        print(generation, assignment)

    async with ClassicMember(
        "localhost:9092",
        group_id="workers",
        protocol_type="jobs",
        protocols={"even": b"this member's metadata"},
        assign=assign,
        on_assigned=start,
    ) as member:
        await member.ended()     # until the group rejects the member

Each rebalance calls `on_revoked`, joins, and calls `on_assigned` with the whole new
assignment. A member that is `cooperative` keeps its assignment meanwhile: `on_revoked`
is only called before it leaves, and `on_assigned` replaces the assignment. `on_lost` is
called when the group has removed the member, or might have: it calls `on_lost` shortly
before the coordinator can have expired its session. The member then joins again.

Heartbeats have a connection of their own, because a broker answers the requests of a
connection in order and a JoinGroup may wait for minutes. They continue during a
rebalance. It works with Apache Kafka from 0.11 on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Final, TypeAlias, Unpack

from coterie.client import classic_requests, member_offsets
from coterie.client.admin.group_offsets import (
    CommittedOffset,
    CommittedOffsets,
    topics_to_commit,
)
from coterie.client.classic_requests import JoinedMember
from coterie.client.classic_session import ClassicSession, Effect
from coterie.client.cluster import COORDINATOR_ELSEWHERE, Cluster, is_retriable
from coterie.client.connection import BrokerConnection
from coterie.client.member import CommonOptions, Member
from coterie.client.member_states import Backoff
from coterie.client.notifier import Notifier
from coterie.client.options import ClientOptions
from coterie.errors import (
    ApiError,
    CoterieError,
    RequestTimedOut,
    code_of,
)
from coterie.types import GroupId, MemberId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

_LOGGER = logging.getLogger(__name__)

_JOIN_GRACE_MS: Final = 5_000
"""The time beyond the rebalance time-out that the response to JoinGroup may take, as in
AbstractCoordinator of Apache Kafka."""
_HURRIED_S: Final = 0.05
"""The time between heartbeats while a rebalance is expected."""
_AT_ONCE: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)
"""Refusals after which the first retry does not back off."""
_COMMITS_BY_NAME: Final = Versions(2, 9)
"""Version 9 of OffsetCommit is the last one that names topics."""
_REJOINED: Final = _AT_ONCE | {ErrorCode.REQUEST_TIMED_OUT}


Metadata: TypeAlias = Mapping[str, bytes]
"""The metadata of a member by protocol name, the preferred protocol first."""
AssignMembers: TypeAlias = Callable[
    [str, Sequence[JoinedMember]], Awaitable[Mapping[MemberId, bytes]]
]
"""A function of the leader: from the chosen protocol and the members to assignments. A
member that the result omits gets an empty one."""


class ClassicOptions(CommonOptions, total=False):
    """The optional arguments of `ClassicMember`."""

    session_timeout_ms: int
    """The time without heartbeats after which the group removes the member; 45,000 by
    default."""
    heartbeat_interval_ms: int
    """The time between heartbeats; by default 3,000, or a third of the session
    time-out if that is less."""
    on_assigned: Callable[[bytes, int], Awaitable[None]]
    """The callback for a new assignment, with its generation."""
    on_revoked: Callable[[], Awaitable[None]]
    """The callback before the member joins again, unless it is `cooperative`, and
    before it leaves."""
    on_lost: Callable[[], Awaitable[None]]
    """The callback for a lost assignment: other members may already have it."""
    on_heartbeat: Callable[[float], None]
    """The callback for each answer that prolonged the session, with the time on `clock`
    at which its request was sent. The coordinator keeps the member at least for the
    session time-out after this time."""
    cooperative: bool
    """Whether the member keeps its assignment during a rebalance."""
    clock: Callable[[], float]
    """A clock that never goes back, in seconds; `time.monotonic` by default."""


async def _ignore(*_: object) -> None:
    """Do nothing, as the default of a callback."""


class ClassicMember(Member):
    """A member of a classic group; `Member` has its life.

    `protocols` holds the metadata by protocol name, or is a function that returns it
    for each JoinGroup.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        group_id: GroupId,
        protocol_type: str,
        protocols: Metadata | Callable[[], Metadata],
        assign: AssignMembers,
        **options: Unpack[ClassicOptions],
    ) -> None:
        client = options.get("client") or ClientOptions()
        session_ms = options.get("session_timeout_ms", 45_000)
        rebalance_ms = options.get("rebalance_timeout_ms", 60_000)
        instance_id = options.get("instance_id")
        # A lost heartbeat can be sent again before the session ends.
        limit_ms = min(client.request_timeout_ms, max(session_ms // 3, 1))
        cluster_options = dataclasses.replace(
            client,
            request_timeout_ms=limit_ms,
            connect_timeout_ms=min(client.connect_timeout_ms, limit_ms),
        )
        super().__init__(Cluster(bootstrap, cluster_options), group_id, instance_id)
        self._identity = classic_requests.ClassicIdentity(
            group_id=group_id,
            protocol_type=protocol_type,
            instance_id=instance_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
        )
        self._protocols = protocols if callable(protocols) else lambda: protocols
        self._assign = assign
        self._on_assigned = options.get("on_assigned", _ignore)
        self._on_revoked = options.get("on_revoked", _ignore)
        self._on_lost = options.get("on_lost", _ignore)
        self._is_cooperative = options.get("cooperative", False)
        self._interval_s = (
            options.get("heartbeat_interval_ms", min(3_000, session_ms // 3)) / 1000
        )
        self._clock = options.get("clock", time.monotonic)
        self._session = ClassicSession(
            session_ms / 1000,
            options.get("on_heartbeat", lambda _: None),
        )
        self._join_options = dataclasses.replace(
            client,
            request_timeout_ms=max(
                client.request_timeout_ms, rebalance_ms + _JOIN_GRACE_MS
            ),
        )
        self._join_connection: BrokerConnection | None = None
        self._backoff = Backoff(client.retry_backoff_ms, client.retry_backoff_max_ms)
        self._hurry = Notifier()
        self._hurries_until_s = 0.0
        self._assignment: bytes | None = None
        self._is_leader = False
        self._join_reason: str | None = None
        self._is_leaving = False
        self._leaves_group = True
        self._leave_reason: str | None = None

    @property
    def cluster(self) -> Cluster:
        """The connections of this member, for other requests."""
        return self._cluster

    @property
    def member_id(self) -> MemberId:
        """The member id that the coordinator gave; empty before."""
        return self._session.member_id

    @property
    def generation(self) -> int:
        """The generation of the group that the member is in; -1 outside the group."""
        return self._session.generation

    @property
    def is_leader(self) -> bool:
        """Whether the member was the leader of the last rebalance."""
        return self._is_leader

    @property
    def assignment_data(self) -> bytes | None:
        """The assignment of the member as the leader sent it; None without one."""
        return self._assignment

    def rejoin(self, reason: str | None = None) -> None:
        """Start a rebalance, as after a change of the metadata. A coordinator gives a
        member that is not the leader its old assignment when its metadata is the same.
        """
        self._join_reason = reason or "the member asked for a rebalance"
        self._notifier.notify()

    def expect_rebalance(self, within_s: float = 5.0) -> None:
        """Send heartbeats often, until the next rebalance or for `within_s`, as a
        member learns of a rebalance by a heartbeat."""
        self._hurries_until_s = self._clock() + within_s
        self._hurry.notify()

    async def leave(
        self, *, for_good: bool | None = None, reason: str | None = None
    ) -> None:
        """Call `on_revoked` and leave the group, as `Member.leave` does; `reason` is
        for the coordinator's log (KIP-800)."""
        self._leave_reason = self._leave_reason or reason
        await super().leave(for_good=for_good)

    async def _committed(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | None]:
        fetched = await CommittedOffsets(self._cluster).fetch(
            self.group_id, partitions, require_stable=True
        )
        offsets = fetched.all()
        return {each: offsets.get(each) for each in partitions}

    async def _commit(
        self, offsets: Mapping[TopicPartition, member_offsets.Offset]
    ) -> Mapping[TopicPartition, ErrorCode]:
        if self._session.generation < 0:
            message = f"the member is not in group {self.group_id}"
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        request = m.OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self._session.generation,
            member_id=self._session.member_id,
            group_instance_id=self._identity.instance_id,
            topics=topics_to_commit(offsets),
        )
        return await member_offsets.commit_offsets(
            self._cluster, request, _COMMITS_BY_NAME
        )

    # The life of a member.

    def _begin(self) -> list[Coroutine[None, None, None]]:
        return [self._run(), self._heartbeats()]

    async def _until_joined(self) -> None:
        client_ms = self._cluster.options.api_timeout_ms
        limit_s = (client_ms + self._identity.rebalance_timeout_ms) / 1000
        try:
            async with asyncio.timeout(limit_s):
                await self._notifier.wait_until(
                    lambda: self._assignment is not None or self._is_over()
                )
        except TimeoutError:
            raise RequestTimedOut(
                f"group {self.group_id} completed no rebalance within {limit_s:.0f} s"
            ) from None
        self._raise_failure()

    async def _run(self) -> None:
        try:
            while not self._is_leaving:
                await self._rebalance()
                await self._until_next_rebalance()
        except Exception as error:
            _LOGGER.info("group %s: leaving because of: %s", self.group_id, error)
            self._fail(error)
        await self._end()

    async def _leave(self, *, for_good: bool) -> None:
        if not self._is_leaving:
            self._leaves_group = for_good
            self._is_leaving = True
            self._notifier.notify()
        await self._notifier.wait_until(self._is_over)

    def _is_over(self) -> bool:
        return not self._tasks or self._tasks[0].done()

    async def _rebalance(self) -> None:
        """Join and give the assignment to the application. A session that ends
        meanwhile loses the old assignment."""
        joining = asyncio.create_task(self._joined())
        joining.add_done_callback(lambda _: self._notifier.notify())
        try:
            while not joining.done() and not self._is_leaving:
                if await self._lose_if_expired():
                    continue
                self._raise_failure()
                await self._notifier.wait(self._session_remaining_s())
            if not joining.done():
                return
            assignment = joining.result()
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
        if self._session.generation < 0:
            return  # lost while the response was on its way
        self._assignment = assignment
        await self._on_assigned(assignment, self._session.generation)
        self._notifier.notify()

    async def _until_next_rebalance(self) -> None:
        while not self._is_leaving:
            if await self._lose_if_expired() or self._session.generation < 0:
                return
            self._raise_failure()
            if self._join_reason is not None or self._session.is_rebalancing:
                if not self._is_cooperative:
                    await self._revoke()
                return
            await self._notifier.wait(self._session_remaining_s())

    async def _lose_if_expired(self) -> bool:
        """Call `on_lost` when the group has removed the member or may have."""
        if self._session_remaining_s() == 0:
            _LOGGER.warning(
                "group %s: no heartbeat was answered in time: the session ended",
                self.group_id,
            )
            self._session.end()
        if self._assignment is None or self._session.generation >= 0:
            return False
        self._assignment = None
        await self._on_lost()
        return True

    async def _revoke(self) -> None:
        if self._assignment is not None:
            await self._on_revoked()
            self._assignment = None

    async def _end(self) -> None:
        """Give up the assignment and leave the group."""
        try:
            if not await self._lose_if_expired():
                await self._revoke()
        except Exception as error:
            _LOGGER.exception("group %s: a callback failed", self.group_id)
            self._fail(error)
        if self._leaves_group and self._session.member_id:
            await self._leave_group()
        self._session.end()

    async def _leave_group(self) -> None:
        """Send LeaveGroup once. After a failure the session times out."""
        try:
            connection = await self._coordinator_once()
            request = classic_requests.leave_request(
                self._identity, self._session.member_id, self._leave_reason
            )
            await connection.call(request, m.LeaveGroupResponse)
        except (CoterieError, TimeoutError) as error:
            _LOGGER.info("group %s: leaving failed: %s", self.group_id, error)

    async def _coordinator_once(self) -> BrokerConnection:
        limit_ms = self._cluster.options.request_timeout_ms
        async with asyncio.timeout(limit_ms / 1000):
            return await self._cluster.coordinator(self.group_id)

    # Join and sync.

    async def _joined(self) -> bytes:
        """Join and sync until both succeed; return the assignment."""
        failures = 0
        while True:
            try:
                return await self._join_once()
            except CoterieError as error:
                code = code_of(error)
                self._session.join_failed(code)
                if code not in _REJOINED and not is_retriable(error):
                    raise
                _LOGGER.info("group %s: joining again: %s", self.group_id, error)
                if code in COORDINATOR_ELSEWHERE or code is None:
                    self._forget_coordinator()
            failures += 1
            if code not in _AT_ONCE or failures > 1:
                await asyncio.sleep(self._backoff.wait_ms(failures) / 1000)

    async def _join_once(self) -> bytes:
        connection = await self._connect_to_join()
        session = self._session
        reason, self._join_reason = self._join_reason, None
        session.begin_join()
        self._hurries_until_s = 0.0
        request = classic_requests.join_request(
            self._identity, session.member_id, self._protocols(), reason
        )
        joined, sent_s = await classic_requests.join(
            connection, request, session, self._clock
        )
        session.joined(joined.member_id, joined.generation, sent_s)
        self._is_leader = joined.is_leader
        self._notifier.notify()
        assignments = await self._assignments(joined)
        sync = classic_requests.sync_request(self._identity, joined, assignments)
        sent_s = self._clock()
        response = await connection.call(sync, m.SyncGroupResponse)
        if response.error_code:
            code = ErrorCode.read(response.error_code)
            raise ApiError(code, f"SyncGroup of group {self.group_id}: {code.name}")
        session.synced(joined.generation, sent_s)
        return response.assignment

    async def _assignments(
        self, joined: classic_requests.Joined
    ) -> Mapping[MemberId, bytes]:
        if not joined.is_leader or joined.skips_assignment:
            return {}
        return await self._assign(joined.protocol, joined.members)

    async def _connect_to_join(self) -> BrokerConnection:
        """Return the connection for requests that wait for other members."""
        coordinator = await self._cluster.coordinator(self.group_id)
        current = self._join_connection
        if current is None or not current.is_open or self._is_elsewhere(coordinator):
            self._close_join_connection()
            current = await BrokerConnection.open(
                coordinator.address, self._join_options
            )
            self._join_connection = current
        return current

    def _is_elsewhere(self, coordinator: BrokerConnection) -> bool:
        current = self._join_connection
        return current is not None and current.address != coordinator.address

    def _close_join_connection(self) -> None:
        if self._join_connection is not None:
            self._join_connection.close()
            self._join_connection = None

    def _forget_coordinator(self) -> None:
        """Find the coordinator again. A JoinGroup that waits at the old one fails."""
        self._cluster.forget_coordinator(self.group_id)
        self._close_join_connection()

    # Heartbeats.

    async def _heartbeats(self) -> None:
        failures = 0
        while True:
            generation = self._session.generation
            if generation < 0:
                await self._notifier.wait_until(lambda: self._session.generation >= 0)
                continue
            effect = await self._heartbeat(generation)
            if effect is Effect.RETRY:
                failures += 1
                wait_s = self._backoff.wait_ms(failures) / 1000
            else:
                failures = 0
                wait_s = self._wait_s()
            self._notifier.notify()
            await self._hurry.wait(wait_s)

    def _wait_s(self) -> float:
        is_hurried = self._clock() < self._hurries_until_s
        return min(_HURRIED_S, self._interval_s) if is_hurried else self._interval_s

    async def _heartbeat(self, generation: int) -> Effect:
        """Send a heartbeat. Raises CoterieError when the member is rejected for
        good."""
        session = self._session
        request = m.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation,
            member_id=session.member_id,
            group_instance_id=self._identity.instance_id,
        )
        was_synced = session.is_synced
        try:
            connection = await self._cluster.coordinator(self.group_id)
            sent_s = self._clock()
            response = await connection.call(request, m.HeartbeatResponse)
        except CoterieError as error:
            if not is_retriable(error):
                raise
            _LOGGER.info("group %s: heartbeat failed: %s", self.group_id, error)
            self._forget_coordinator()
            return Effect.RETRY
        code = ErrorCode.read(response.error_code)
        effect = session.heartbeat_answered(
            code, generation, sent_s, was_synced=was_synced
        )
        if effect is Effect.REJECTED:
            raise ApiError(code, f"Heartbeat of group {self.group_id}: {code.name}")
        if code:
            _LOGGER.info("group %s: heartbeat: %s", self.group_id, code.name)
        if code in COORDINATOR_ELSEWHERE:
            self._forget_coordinator()
        return effect

    def _session_remaining_s(self) -> float | None:
        """Return the time until the session may end; None outside a session."""
        if self._session.ends_s is None:
            return None
        return max(0.0, self._session.ends_s - self._clock())

    async def _stop(self) -> None:
        self._close_join_connection()
        await super()._stop()
