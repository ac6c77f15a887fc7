"""What an operator asks of a cluster, in one place.

    async with AdminClient("localhost:9092") as admin:
        listed = await admin.list_groups()
        described = await admin.describe_groups(g.group_id for g in listed.groups)

A call about many things gives an outcome for each of them (`Results`): a deleted topic,
a dead broker or a missing right is the error of what it concerns, and never raises.
What raises concerns the whole call: ClientError when no broker can be reached, and for
calls about one group whatever is wrong with it. A call takes at most `api_timeout_ms`.

Any broker from Kafka 0.11 on will do. What one is too old for is UnsupportedByBroker;
nothing is silently left out.

Rules of this file: it is a face. Each family of calls is a module of functions, which
is imported when it is first called: a command that lists groups pays for nothing else.
What is not about groups is in broker_calls.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from coterie.client.admin.broker_calls import BrokerCalls
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions

if TYPE_CHECKING:
    from types import TracebackType

    from coterie.client.admin.cluster_values import ClusterDescription
    from coterie.client.admin.group_values import (
        GroupDescription,
        GroupListings,
        GroupState,
        GroupType,
        Node,
    )
    from coterie.client.admin.offset_values import CommittedOffset, GroupOffsets
    from coterie.client.admin.remove_members import MemberToRemove
    from coterie.client.admin.results import Progress, Results
    from coterie.types import GroupId, TopicPartition


class AdminClient(BrokerCalls):
    """A client for operators. See the module's docstring. `bootstrap` are addresses
    HOST:PORT, in a sequence or with commas between; any broker of the cluster does.

    It connects when it is first asked, and belongs to the event loop that runs then.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        super().__init__(Cluster(bootstrap, options or ClientOptions()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; calls that wait get ConnectionLost."""
        await self._cluster.close()

    async def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        from coterie.client.admin import describe_cluster

        return await describe_cluster.describe_cluster(self._cluster)

    # Groups.

    async def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        """The groups of all brokers that pass both filters; an empty one passes all.

        Raises UnsupportedByBroker when a broker is too old to filter so (E28-07).
        """
        from coterie.client.admin import list_groups

        return await list_groups.list_groups(self._cluster, states, types)

    async def describe_groups(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        """Describe groups of either protocol. One that does not exist is the error
        GROUP_ID_NOT_FOUND (E29-03)."""
        from coterie.client.admin import describe_groups

        return await describe_groups.describe_groups(
            self._cluster,
            group_ids,
            with_operations=with_operations,
            progress=progress,
        )

    async def delete_groups(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        """Delete groups that have no members, with their offsets (KIP-229)."""
        from coterie.client.admin import delete_groups

        return await delete_groups.delete_groups(
            self._cluster, group_ids, progress=progress
        )

    async def find_coordinators(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, Node]:
        """Which broker coordinates which group, asked anew (KIP-699)."""
        from coterie.client.admin import find_coordinators

        return await find_coordinators.find_coordinators(self._cluster, group_ids)

    async def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        """Make members leave a group; None means all that it has. The reason is for
        the coordinator's log. Raises ApiError for what is wrong with the group."""
        from coterie.client.admin import remove_members

        return await remove_members.remove_members(
            self._cluster, group_id, members, reason=reason
        )

    # What groups committed.

    async def list_group_offsets(
        self,
        group_id: GroupId,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> GroupOffsets:
        """What one group committed for partitions; None means for all (KIP-88).

        Raises ApiError for what is wrong with the group, and UnsupportedByBroker when
        all are wanted of a broker before 0.10.2.
        """
        results = await self.list_groups_offsets(
            {group_id: partitions}, require_stable=require_stable
        )
        return results.one(group_id)

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        """What groups committed, for the named partitions or, with None, for all.

        With `require_stable`, a partition with a transaction under way is the error
        UNSTABLE_OFFSET_COMMIT of that partition; brokers before 2.5 do not know the
        wish, and `ClientOptions.stable_fetch_is_required` says what then (A-66).
        """
        from coterie.client.admin import group_offsets

        return await group_offsets.list_groups_offsets(
            self._cluster, wanted, require_stable=require_stable, progress=progress
        )

    async def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        """Commit for a group that has no members; with members, UNKNOWN_MEMBER_ID is
        the error of each partition (E29-08). Raises ApiError for what is wrong with
        the group."""
        from coterie.client.admin import change_offsets

        return await change_offsets.alter_group_offsets(
            self._cluster, group_id, offsets
        )

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete what a group committed (KIP-496). A topic that a member reads is the
        error GROUP_SUBSCRIBED_TO_TOPIC of its partitions. Raises ApiError for what is
        wrong with the group."""
        from coterie.client.admin import change_offsets

        return await change_offsets.delete_group_offsets(
            self._cluster, group_id, partitions
        )
