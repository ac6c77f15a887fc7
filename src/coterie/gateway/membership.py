"""The membership of a node in the upstream group `coterie-NAME`.

Joining this group is how a node is alive. Its leader assigns the shards, and every
assignment names all live nodes with their shards, so each node knows each owner.

Nodes are cooperative members: a node serves its shards while the group rebalances. A
shard that moves from one live node to another has no owner for one generation. The old
owner releases it in this generation and joins again, and the new owner takes it over
in the next. So no two nodes respond from the state of one shard, even when one of them
receives its assignment late. The producer epoch and the barrier of the shard's log keep
late writes out (`gateway/log`).

Nodes are static members by name (KIP-345), so that one which restarts within the
session time-out gets its shards back without a rebalance.

The lease: `on_lease` gives the time at which a heartbeat was sent, once the coordinator
has answered it and has then accepted a commit of this member. A heartbeat alone proves
too little. A coordinator that is cut off from its cluster goes on answering heartbeats
while another one has taken the group over, and one that still loads the group answers
them without a check (`GroupCoordinatorService.heartbeat`). A commit has to be
replicated, by the leader of the group's partition.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.client import ClassicMember, ClientOptions, JoinedMember
from coterie.client.notifier import Notifier
from coterie.errors import (
    ApiError,
    CoterieError,
    MalformedFrame,
)
from coterie.gateway.node_assignment import assign_nodes
from coterie.gateway.node_protocol import (
    PROTOCOL,
    NodeMetadata,
    read_assignment,
    write_assignment,
    write_metadata,
)
from coterie.gateway.options import GatewayOptions
from coterie.gateway.preflight import PROTOCOL_TYPE
from coterie.gateway.shard_assignment import NO_CLAIM, Claim
from coterie.gateway.view import NO_VIEW, FormerNodes, NodeInfo, View
from coterie.types import MemberId, TopicPartition
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

_HEARTBEATS: Final = 10
"""Heartbeats in a session time-out. Nodes learn of a rebalance by a heartbeat."""


class MembershipEvents(NamedTuple):
    """The callbacks of a membership, which are called in order."""

    on_view: Callable[[View, frozenset[int]], None]
    """The nodes of a new generation, and the shards that this node owns in it."""
    on_lease: Callable[[int], None]
    """The time in ms, on the clock of the membership, after which the group keeps this
    node for the session time-out."""
    on_lost: Callable[[], None]
    """The group has removed the node, or might have: it owns no shard."""
    on_leave: Callable[[], Awaitable[None]]
    """The node is about to leave: release all shards, then return."""


class NodeMembership:
    """A node's membership in the group of the nodes of one gateway.

    `view` holds the nodes and owners of the last generation; it stays after `on_lost`,
    because the other nodes' addresses are still useful.
    """

    def __init__(
        self,
        plan: GatewayOptions,
        info: NodeInfo,
        shard_count: int,
        events: MembershipEvents,
        clock_ms: Callable[[], int],
    ) -> None:
        self.view = NO_VIEW
        self._plan = plan
        self._info = info
        self._shard_count = shard_count
        self._events = events
        self._clock_ms = clock_ms
        self._started_ms = time.time_ns() // 1_000_000
        self._former = FormerNodes(clock_ms)
        self._claim = NO_CLAIM
        self._generation = -1
        """The generation whose assignment the node has; -1 without one."""
        self._join = 0
        self._is_leaving = False
        self._is_excused = False
        """Whether all nodes know that this one is about to leave."""
        self._has_moved = False
        """Whether the node has told the others of its new addresses."""
        self._heartbeat_ms: int | None = None
        self._notifier = Notifier()
        self._renewals: asyncio.Task[None] | None = None
        self._member = self._new_member()

    async def start(self) -> None:
        """Join the group; return after the first `on_view`.

        Raises the errors of `ClassicMember.start`.
        """
        self._renewals = asyncio.create_task(self._renew())
        self._renewals.add_done_callback(self._renewals_ended)
        try:
            await self._member.start()
        except ApiError as error:
            raise self._explained(error) from error

    async def leave(self) -> None:
        """Call `on_leave` and leave the group, so that the shards move at once.

        The other nodes are told before: they then expect the rebalance, so the shards
        are without an owner for a short time only. Raises the errors of `ended`.
        """
        try:
            await self._announce_leave()
            await self._member.leave(for_good=True, reason="the node is drained")
        except ApiError as error:
            raise self._explained(error) from error
        finally:
            if self._renewals is not None:
                self._renewals.cancel()
                await asyncio.gather(self._renewals, return_exceptions=True)

    async def _announce_leave(self) -> None:
        if self._generation < 0 or not self._claim.shards or len(self.view.nodes) < 2:
            return  # no other node waits for a shard
        self._is_leaving = True
        self._rejoin("the node is about to leave")
        waits = [
            asyncio.ensure_future(
                self._notifier.wait_until(
                    lambda: self._is_excused or self._generation < 0
                )
            ),
            asyncio.ensure_future(self._member.ended()),
        ]
        limit_s = self._plan.session_timeout_ms / 1000
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        await asyncio.gather(*waits, return_exceptions=True)

    async def ended(self) -> None:
        """Wait for the end of the membership.

        Raises ApiError when upstream rejected the node for good, as when a second node
        with its name joined (FENCED_INSTANCE_ID).
        """
        try:
            await self._member.ended()
        except ApiError as error:
            raise self._explained(error) from error

    def _explained(self, error: ApiError) -> ApiError:
        """Return the error of a rejected node with what to do about it."""
        plan, code = self._plan, error.code
        if code is ErrorCode.FENCED_INSTANCE_ID:
            advice = (
                f"another process has joined as node {plan.node}; give each node a "
                "name of its own with --node"
            )
        elif code is ErrorCode.INVALID_SESSION_TIMEOUT:
            advice = (
                f"--session-timeout {plan.session_timeout_ms} is outside of upstream's "
                "group.min.session.timeout.ms and group.max.session.timeout.ms"
            )
        else:
            return error
        return ApiError(code, f"{advice} ({error})")

    def _new_member(self) -> ClassicMember:
        plan = self._plan
        session_ms = plan.session_timeout_ms
        return ClassicMember(
            plan.bootstrap,
            group_id=plan.group_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=self._metadata,
            assign=self._assign,
            on_assigned=self._assigned,
            on_revoked=self._events.on_leave,
            on_lost=self._lost,
            on_heartbeat=self._heartbeat_answered,
            instance_id=plan.node,
            cooperative=True,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // _HEARTBEATS,
            clock=lambda: self._clock_ms() / 1000,
            client=_impatient(plan.client, session_ms),
        )

    def _metadata(self) -> Mapping[str, bytes]:
        metadata = NodeMetadata(
            info=self._info,
            started_ms=self._started_ms,
            join=self._join,
            generation=self._claim.generation,
            shards=sorted(self._claim.shards),
            is_serving=self._generation >= 0,
            is_leaving=self._is_leaving,
        )
        return {PROTOCOL: write_metadata(metadata)}

    async def _assign(
        self, _: str, members: Sequence[JoinedMember]
    ) -> Mapping[MemberId, bytes]:
        """Assign the shards, as the leader."""
        assignments = assign_nodes(members, self._shard_count, self.view)
        return {
            member_id: write_assignment(
                assignment._replace(view=self._with_former(assignment.view))
            )
            for member_id, assignment in assignments.items()
        }

    def _with_former(self, view: View) -> View:
        return view._replace(former=self._former.of_next(self.view, view))

    async def _assigned(self, assignment: bytes, generation: int) -> None:
        try:
            read = read_assignment(assignment, generation)
        except MalformedFrame as error:
            # As when the group has members that are no nodes, and one of them leads.
            _LOGGER.error("the assignment of generation %d: %s", generation, error)
            await self._lost()
            return
        view = self._with_former(read.view)
        shards = frozenset(view.shards_of(self._info.name))
        _LOGGER.info(
            "generation %d: nodes %s; this one has %d of %d shards%s",
            generation,
            ", ".join(node.name for node in view.nodes),
            len(shards),
            len(view.owners),
            "; some move in the next one" if read.is_interim else "",
        )
        self.view = view
        self._generation = generation
        self._notifier.notify()
        if self._is_leaving and not shards:
            self._is_excused = True  # the shards are served until `on_leave`
            return
        self._claim = Claim(shards, generation)
        self._events.on_view(view, shards)
        if self._info not in view.nodes and not self._has_moved:
            # A static member that returns gets the assignment of its predecessor, which
            # may have other addresses.
            self._has_moved = True
            self._rejoin("the addresses of the node have changed")
        elif read.has_to_release:
            self._rejoin("the node has released shards for other nodes")
        elif read.is_interim:
            # The shards have no owner meanwhile: learn of the rebalance soon.
            self._member.expect_rebalance()

    def _rejoin(self, reason: str) -> None:
        self._join += 1
        self._member.rejoin(reason)

    async def _lost(self) -> None:
        # The claim stays: the node gets the same shards again unless another node has
        # them by now.
        self._generation = -1
        self._heartbeat_ms = None
        self._notifier.notify()
        self._events.on_lost()

    # The lease.

    def _heartbeat_answered(self, sent_s: float) -> None:
        self._heartbeat_ms = int(sent_s * 1000)
        self._notifier.notify()

    async def _renew(self) -> None:
        partition = TopicPartition(self._plan.topic, 0)
        while True:
            await self._notifier.wait_until(self._can_renew)
            sent_ms, self._heartbeat_ms = self._heartbeat_ms, None
            assert sent_ms is not None
            generation = self._generation
            try:
                await self._member.commit({partition: 0})
            except CoterieError as error:
                _LOGGER.info("the lease is not renewed: %s", error)
            else:
                if generation == self._generation:
                    self._events.on_lease(sent_ms)

    def _can_renew(self) -> bool:
        """Return whether a heartbeat was answered in the generation of the assignment.
        A node that has joined the next one may no longer own its shards."""
        is_current = 0 <= self._generation == self._member.generation
        return is_current and self._heartbeat_ms is not None

    def _renewals_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOGGER.error("the lease is renewed no more", exc_info=error)


def _impatient(client: ClientOptions, session_ms: int) -> ClientOptions:
    """Return options whose calls end within a session."""
    limit_ms = max(session_ms // 3, 1)
    return dataclasses.replace(
        client,
        request_timeout_ms=min(client.request_timeout_ms, limit_ms),
        api_timeout_ms=min(client.api_timeout_ms, session_ms),
    )
