"""The half of AdminClient that is not about groups: topics, logs, configurations, ACLs.

Rules of this file: those of admin_client.py. A family is imported when it is first
called: a command that lists groups does not pay for ACLs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coterie.auth.acl import Acl, AclFilter
    from coterie.client.admin.config_values import ConfigEntry, ConfigResource
    from coterie.client.admin.offset_values import (
        LogOffsetFound,
        OffsetSpec,
        TopicDescription,
    )
    from coterie.client.admin.results import Progress, Results
    from coterie.client.admin.topic_values import CreatedTopic, NewTopic
    from coterie.client.admin.user_values import (
        ScramDeletion,
        ScramInfo,
        ScramUpsertion,
    )
    from coterie.client.cluster import Cluster
    from coterie.types import LogOffset, TopicName, TopicPartition
    from coterie.wire.config_kinds import ResourceKind


class BrokerCalls:
    """What is asked of leaders, of the controller, or of any broker."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    # Logs.

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetFound]:
        """Offsets of logs: their ends, their beginnings, or what was written when.

        With `committed_only`, LATEST is the last stable offset: nothing of an open
        transaction lies before it. A partition that has no leader, or one that cannot
        be reached, is waited for `ClientOptions.leader_wait_ms`.
        """
        from coterie.client.admin import log_offsets

        return await log_offsets.list_offsets(
            self._cluster, wanted, committed_only=committed_only, progress=progress
        )

    async def record_times(
        self,
        wanted: Mapping[TopicPartition, LogOffset],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, int]:
        """When the first record at or after an offset of each partition was written, in
        ms, or -1 when it does not say. It takes the right to read the topic, and one
        request for each partition."""
        from coterie.client.admin import record_times

        return await record_times.record_times(self._cluster, wanted, progress=progress)

    async def delete_records(
        self,
        before: Mapping[TopicPartition, LogOffset],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffset]:
        """Delete what lies before an offset, or with -1 all there is (KIP-107). Gives
        the offset at which each log then starts."""
        from coterie.client.admin import delete_records

        return await delete_records.delete_records(
            self._cluster, before, progress=progress
        )

    # Topics.

    async def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        """Topics and their partitions; None means all that the caller may see."""
        from coterie.client.admin import topics

        return await topics.describe_topics(self._cluster, names)

    async def create_topics(
        self, new: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[TopicName, CreatedTopic]:
        """Make topics, or with `validate_only` only see whether they could be made.

        Raises RequestTimedOut or ConnectionLost when it is unknown whether they were.
        """
        from coterie.client.admin import topics

        return await topics.create_topics(
            self._cluster, new, validate_only=validate_only
        )

    async def delete_topics(
        self, names: Iterable[TopicName]
    ) -> Results[TopicName, None]:
        """Delete topics and all they hold. Raises as `create_topics` does."""
        from coterie.client.admin import topics

        return await topics.delete_topics(self._cluster, names)

    async def create_partitions(
        self, counts: Mapping[TopicName, int], *, validate_only: bool = False
    ) -> Results[TopicName, None]:
        """Let topics have so many partitions in all; no topic can have fewer than it
        has. Raises as `create_topics` does."""
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
        """The configurations of topics, brokers or groups, those of some `names` or
        all, in the order of names. A group needs not exist to have some (E21-10)."""
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
        """Set configurations one by one, and with None go back to their defaults; what
        is not named stays as it is (KIP-339).

        Raises UnsupportedByBroker for brokers before Kafka 2.3, which can only replace
        all that a resource has set.
        """
        from coterie.client.admin import configs

        return await configs.alter_configs(
            self._cluster, changes, validate_only=validate_only, progress=progress
        )

    async def list_config_resources(
        self, kinds: Collection[ResourceKind] = ()
    ) -> tuple[ConfigResource, ...]:
        """What has configurations, of some kinds or of all: of groups those that have
        set something (KIP-1142).

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 4.1.
        """
        from coterie.client.admin import configs

        return await configs.list_config_resources(self._cluster, kinds)

    # Who may do what.

    async def describe_acls(self, wanted: AclFilter | None = None) -> tuple[Acl, ...]:
        """The bindings that a filter means, sorted; None means every one.

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 2.0.
        """
        from coterie.client.admin import acls

        return await acls.describe_acls(self._cluster, wanted)

    async def create_acls(self, new: Iterable[Acl]) -> Results[Acl, None]:
        """Add bindings; one that is there already stays."""
        from coterie.client.admin import acls

        return await acls.create_acls(self._cluster, new)

    async def delete_acls(
        self, filters: Iterable[AclFilter]
    ) -> Results[AclFilter, Results[Acl, None]]:
        """Take away what each filter means; of each the bindings that are gone, or
        could not be taken away. Raises as `create_topics` does."""
        from coterie.client.admin import acls

        return await acls.delete_acls(self._cluster, filters)

    # Who they are.

    async def describe_scram_users(
        self, names: Iterable[str] | None = None
    ) -> Results[str, tuple[ScramInfo, ...]]:
        """The kinds of passwords that users have; None means every user that has one.

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 2.7.
        """
        from coterie.client.admin import users

        return await users.describe_scram_users(self._cluster, names)

    async def alter_scram_users(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, None]:
        """Set and delete passwords, one change a user; what is sent is salted and
        hashed (KIP-554). Raises as `create_topics` does."""
        from coterie.client.admin import users

        return await users.alter_scram_users(self._cluster, changes)
