"""The admin client of a Kafka cluster.

    async with AdminClient("localhost:9092") as admin:
        listed = await admin.list_groups()
        described = await admin.describe_groups(g.group_id for g in listed.groups)

A call about many items returns `Results`: one outcome for each item, so a deleted
topic, an unavailable broker or a missing ACL is the error of that item and raises
nothing. A call raises only errors of the whole call: ClientError when no broker can be
reached and, for calls about one group, the error of that group. A call takes at most
`ClientOptions.api_timeout_ms`.

Brokers from Kafka 0.11 on are supported. A request that a broker is too old for fails
with UnsupportedByBroker; no argument is silently ignored.

`AdminClient` is the only declaration of these calls: `client.sync.SyncAdmin` derives
its methods from it; `operations` and the command line use the class itself. Each family
of calls is implemented in a module that is imported on the first call, so that commands
such as `coterie groups list` do not import messages that they do not send.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from coterie.client.admin.transaction_calls import TransactionCalls
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions

if TYPE_CHECKING:
    from types import TracebackType

    from coterie.auth.acl import AclBinding, AclBindingFilter
    from coterie.client.admin.api_versions import BrokerVersions
    from coterie.client.admin.configs import ConfigEntry, ConfigResource
    from coterie.client.admin.features import ClusterFeatures, FeatureUpdate
    from coterie.client.admin.fetch import FirstRecord
    from coterie.client.admin.group_changes import MemberToRemove
    from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
    from coterie.client.admin.groups import (
        ClusterDescription,
        GroupDescription,
        GroupListings,
        GroupState,
        GroupType,
        Node,
    )
    from coterie.client.admin.log_dirs import LogDir
    from coterie.client.admin.log_offsets import LogOffsetInfo, OffsetSpec
    from coterie.client.admin.quotas import QuotaEntity
    from coterie.client.admin.results import Progress, Results
    from coterie.client.admin.share_groups import ShareGroupOffsets
    from coterie.client.admin.topics import CreatedTopic, NewTopic, TopicDescription
    from coterie.client.admin.users import ScramDeletion, ScramInfo, ScramUpsertion
    from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
    from coterie.wire.configs import ConfigResourceType


class AdminClient(TransactionCalls):
    """An asynchronous admin client of one Kafka cluster.

    `bootstrap` holds addresses HOST:PORT, as a sequence or separated by commas; any
    brokers of the cluster suffice. The client connects on its first call and belongs to
    the event loop that runs then.
    """

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self._cluster = Cluster(bootstrap, options or ClientOptions())

    @property
    def cluster(self) -> Cluster:
        """The connections of this client, for a `Producer` or a `RecordReader`."""
        return self._cluster

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
        """Close every connection; pending calls raise ConnectionLost."""
        await self._cluster.close()

    async def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers."""
        from coterie.client.admin import calls

        return await calls.describe_cluster(self._cluster)

    async def describe_api_versions(
        self, node_ids: Iterable[int] | None = None
    ) -> Results[int, BrokerVersions]:
        """Return the versions of each API, by its key, that brokers serve; None means
        every broker. A broker that cannot be reached has an error, after one
        attempt."""
        from coterie.client.admin import api_versions

        return await api_versions.describe_api_versions(self._cluster, node_ids)

    # Groups.

    async def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        """List the groups of all brokers that match both filters; an empty filter
        matches every group.

        Raises UnsupportedByBroker when a broker is too old for a filter (E28-07).
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
        """Describe groups of any type. A group that does not exist has the error
        GROUP_ID_NOT_FOUND (E29-03), and a share or streams group on a broker that is
        too old to describe it UnsupportedGroupType. Brokers before 2.3 return no
        operations."""
        from coterie.client.admin import describe_groups

        return await describe_groups.describe_groups(
            self._cluster, group_ids, with_operations, progress
        )

    async def delete_groups(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        """Delete groups without members, with their offsets (KIP-229)."""
        from coterie.client.admin import group_changes

        return await group_changes.delete_groups(self._cluster, group_ids, progress)

    async def find_coordinators(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, Node]:
        """Look up the coordinator of each group again, bypassing the cache
        (KIP-699)."""
        from coterie.client.admin import group_driver

        return await group_driver.find_coordinators(self._cluster, group_ids)

    async def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        """Remove members from a group (KIP-345); None removes every member.

        `reason` is for the coordinator's log (KIP-800). Raises the group's ApiError.
        """
        from coterie.client.admin import group_changes

        return await group_changes.remove_members(
            self._cluster, group_id, members, reason
        )

    # Committed offsets.

    async def list_group_offsets(
        self,
        group_id: GroupId,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> GroupOffsets:
        """Fetch the committed offsets of one group; None means every partition with a
        commit (KIP-88).

        Raises the group's ApiError, and UnsupportedByBroker when `partitions` is None
        and the broker is older than 0.10.2.
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
        """Fetch the committed offsets of groups; None means every partition with a
        commit.

        With `require_stable`, a partition with an open transaction has the error
        UNSTABLE_OFFSET_COMMIT. Brokers before 2.5 cannot check that;
        `ClientOptions.stable_fetch_is_required` decides whether the request fails then
        (A-66).
        """
        from coterie.client.admin import group_offsets

        return await group_offsets.list_groups_offsets(
            self._cluster, wanted, require_stable, progress
        )

    async def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members.

        If the group has members, each partition has the error UNKNOWN_MEMBER_ID
        (E29-08). Raises the group's ApiError.
        """
        from coterie.client.admin import group_offsets

        return await group_offsets.alter_group_offsets(self._cluster, group_id, offsets)

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group (KIP-496).

        Partitions of a topic that a member subscribes to have the error
        GROUP_SUBSCRIBED_TO_TOPIC. Raises the group's ApiError.
        """
        from coterie.client.admin import group_offsets

        return await group_offsets.delete_group_offsets(
            self._cluster, group_id, partitions
        )

    # Start offsets of share groups.

    async def list_share_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        progress: Progress | None = None,
    ) -> Results[GroupId, ShareGroupOffsets]:
        """Fetch the start offsets and the lag of share groups (KIP-932); None means
        every partition of the group.

        Brokers before Kafka 4.1 have the error UnsupportedByBroker for each group.
        """
        from coterie.client.admin import share_groups

        return await share_groups.list_share_groups_offsets(
            self._cluster, wanted, progress
        )

    async def alter_share_group_offsets(
        self, group_id: GroupId, starts: Mapping[TopicPartition, LogOffset]
    ) -> Results[TopicPartition, None]:
        """Set start offsets of a share group without members; the group is created if
        it does not exist (KIP-932).

        Raises the group's ApiError: NON_EMPTY_GROUP when it has members.
        """
        from coterie.client.admin import share_groups

        return await share_groups.alter_share_group_offsets(
            self._cluster, group_id, starts
        )

    async def delete_share_group_offsets(
        self, group_id: GroupId, topics: Collection[TopicName]
    ) -> Results[TopicName, None]:
        """Delete the start offsets of whole topics from a share group without members
        (KIP-932). Raises as `alter_share_group_offsets` does."""
        from coterie.client.admin import share_groups

        return await share_groups.delete_share_group_offsets(
            self._cluster, group_id, topics
        )

    # Logs.

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetInfo]:
        """List log offsets: the start, the end, or the first offset at or after a time.

        With `committed_only`, LATEST is the last stable offset. A partition without an
        available leader is retried for `ClientOptions.leader_wait_ms`.
        """
        from coterie.client.admin import log_offsets

        return await log_offsets.list_offsets(
            self._cluster, wanted, committed_only=committed_only, progress=progress
        )

    async def first_records(
        self,
        wanted: Mapping[TopicPartition, Collection[LogOffset]],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, Mapping[LogOffset, FirstRecord | None]]:
        """Return the first record at or after each offset of each partition, with its
        timestamp (ms); None when no record follows.

        Transaction markers are not records, and with `committed_only` neither are those
        of aborted transactions (KIP-98). It sends one Fetch request for each offset, or
        more where others precede the record, and needs READ on the topic.
        """
        from coterie.client.admin import fetch

        return await fetch.first_records(
            self._cluster, wanted, committed_only=committed_only, progress=progress
        )

    async def delete_records(
        self,
        before: Mapping[TopicPartition, LogOffset],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffset]:
        """Delete the records before each offset (KIP-107), or all records with -1.

        Returns the new start of each log.
        """
        from coterie.client.admin import log_offsets

        return await log_offsets.delete_records(self._cluster, before, progress)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        """Describe the log directories of brokers with the sizes of their replicas;
        None means every broker (KIP-113). Each broker is asked once, without
        retries."""
        from coterie.client.admin import log_dirs

        return await log_dirs.describe_log_dirs(self._cluster, node_ids)

    # Topics.

    async def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        """Describe topics and their partitions; None means every topic that the
        principal may describe."""
        from coterie.client.admin import topics

        return await topics.describe_topics(self._cluster, names)

    async def create_topics(
        self, new: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[TopicName, CreatedTopic]:
        """Create topics, or with `validate_only` check whether they can be created.

        Raises RequestTimedOut or ConnectionLost when the outcome is unknown.
        """
        from coterie.client.admin import topics

        return await topics.create_topics(
            self._cluster, new, validate_only=validate_only
        )

    async def delete_topics(
        self, names: Iterable[TopicName]
    ) -> Results[TopicName, None]:
        """Delete topics with their records. Raises as `create_topics` does."""
        from coterie.client.admin import topics

        return await topics.delete_topics(self._cluster, names)

    async def create_partitions(
        self, counts: Mapping[TopicName, int], *, validate_only: bool = False
    ) -> Results[TopicName, None]:
        """Increase the number of partitions of topics to the given totals. Raises as
        `create_topics` does."""
        from coterie.client.admin import topics

        return await topics.create_partitions(
            self._cluster, counts, validate_only=validate_only
        )

    # Configurations.

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        with_synonyms: bool = False,
        with_documentation: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        """Describe the configurations of topics, brokers or groups, sorted by name;
        None means every name. A group with configurations need not exist (E21-10).

        Raises UnsupportedByBroker for brokers before Kafka 0.11.
        """
        from coterie.client.admin import configs

        return await configs.describe_configs(
            self._cluster,
            resources,
            names=names,
            with_synonyms=with_synonyms,
            with_documentation=with_documentation,
            progress=progress,
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, None]:
        """Alter configurations incrementally (KIP-339); None restores the default.
        Other configurations do not change. The group of a configuration need not exist
        (E21-02).

        Raises UnsupportedByBroker for brokers before Kafka 2.3, which can only replace
        every configuration of a resource.
        """
        from coterie.client.admin import configs

        return await configs.alter_configs(
            self._cluster, changes, validate_only=validate_only, progress=progress
        )

    async def list_config_resources(
        self, kinds: Collection[ConfigResourceType] = ()
    ) -> tuple[ConfigResource, ...]:
        """List the resources that have configurations, of the given kinds or of all,
        sorted. Groups are listed when they have a dynamic configuration (KIP-1142).

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 4.1.
        """
        from coterie.client.admin import configs

        return await configs.list_config_resources(self._cluster, kinds)

    # ACLs.

    async def describe_acls(
        self, wanted: AclBindingFilter | None = None
    ) -> tuple[AclBinding, ...]:
        """Return the ACL bindings that match a filter, sorted; None means all.

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 2.0.
        """
        from coterie.client.admin import acls

        return await acls.describe_acls(self._cluster, wanted)

    async def create_acls(self, new: Iterable[AclBinding]) -> Results[AclBinding, None]:
        """Create ACL bindings; existing ones are not changed.

        Raises UnsupportedByBroker for brokers before Kafka 2.0.
        """
        from coterie.client.admin import acls

        return await acls.create_acls(self._cluster, new)

    async def delete_acls(
        self, filters: Iterable[AclBindingFilter]
    ) -> Results[AclBindingFilter, Results[AclBinding, None]]:
        """Delete the ACL bindings that match each filter; return the outcome of each
        binding. Raises as `create_topics` and `create_acls` do."""
        from coterie.client.admin import acls

        return await acls.delete_acls(self._cluster, filters)

    # Client quotas.

    async def describe_client_quotas(
        self, match: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        """Describe the quotas of the entities that match; None matches all.

        A strict match leaves out entities with other types, such as the pairs of a user
        and a client id when `match` has only a user. Raises ApiError, and
        UnsupportedByBroker for brokers before Kafka 2.6.
        """
        from coterie.client.admin import quotas

        match = match or quotas.QuotaEntity()
        return await quotas.describe_client_quotas(self._cluster, match, strict=strict)

    async def alter_client_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> Results[QuotaEntity, None]:
        """Set quotas of entities by their keys, such as `producer_byte_rate`; None
        removes one. Raises as `create_topics` does."""
        from coterie.client.admin import quotas

        return await quotas.alter_client_quotas(
            self._cluster, changes, validate_only=validate_only
        )

    # SASL/SCRAM users.

    async def describe_scram_users(
        self, names: Iterable[str] | None = None
    ) -> Results[str, tuple[ScramInfo, ...]]:
        """Describe the SCRAM credentials of users; None means every user that has any.

        Mechanisms of newer brokers are left out. Raises ApiError, and
        UnsupportedByBroker for brokers before Kafka 2.7.
        """
        from coterie.client.admin import users

        return await users.describe_scram_users(self._cluster, names)

    async def alter_scram_users(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, None]:
        """Set and delete SCRAM credentials, one change for each user (KIP-554).

        Passwords are salted and hashed before they are sent. Raises as `create_topics`
        does.
        """
        from coterie.client.admin import users

        return await users.alter_scram_users(self._cluster, changes)

    # Features.

    async def describe_features(self, *, node_id: int | None = None) -> ClusterFeatures:
        """Return the finalized levels of features and the levels that a broker supports
        (KIP-584): the broker `node_id`, or any.

        Raises UnsupportedByBroker for brokers before Kafka 2.4. Brokers before 2.7 and
        clusters with ZooKeeper have none.
        """
        from coterie.client.admin import features

        return await features.describe_features(self._cluster, node_id)

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> Results[str, None]:
        """Change the finalized levels of features, all or none since Kafka 4.0, or with
        `validate_only` check the changes.

        Raises as `create_topics` does, and UnsupportedByBroker for brokers before Kafka
        2.7, or before 3.3 with `validate_only` or an unsafe downgrade.
        """
        from coterie.client.admin import features

        return await features.update_features(
            self._cluster, updates, validate_only=validate_only
        )
