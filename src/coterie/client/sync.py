"""The admin client for callers without an event loop.

    with SyncAdmin("localhost:9092") as admin:
        print(admin.list_groups().groups)

Every coroutine of `AdminClient` is here as a method that waits, with the same words for
its arguments and the same errors; its docstring there says all. Calls may come from any
thread, many at once, and share their connections; a `progress` is called in the
client's own thread. Ctrl-C ends the call that waits, and leaves the client usable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from coterie.auth.acl import Acl, AclFilter
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.cluster_values import ClusterDescription
from coterie.client.admin.config_values import ConfigEntry, ConfigResource
from coterie.client.admin.group_values import (
    GroupDescription,
    GroupListings,
    GroupState,
    GroupType,
    Node,
)
from coterie.client.admin.offset_values import (
    CommittedOffset,
    GroupOffsets,
    LogOffsetFound,
    OffsetSpec,
    TopicDescription,
)
from coterie.client.admin.remove_members import MemberToRemove
from coterie.client.admin.results import Progress, Results
from coterie.client.admin.topic_values import CreatedTopic, NewTopic
from coterie.client.admin.user_values import ScramDeletion, ScramInfo, ScramUpsertion
from coterie.client.loop_thread import LoopThread
from coterie.client.options import ClientOptions
from coterie.errors import ClientError
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire.config_kinds import ResourceKind

T = TypeVar("T")


class SyncAdmin:
    """A client for operators. See the module's docstring; `bootstrap` and `options` are
    those of AdminClient."""

    def __init__(
        self, bootstrap: str | Sequence[str], options: ClientOptions | None = None
    ) -> None:
        self._admin = AdminClient(bootstrap, options)
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; calls that wait get ConnectionLost. Twice does no
        harm."""
        with contextlib.suppress(ClientError):  # another thread was quicker
            self._wait(self._admin.close())
        self._thread.close()

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        return self._thread.wait(call)

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, its controller and its brokers."""
        return self._wait(self._admin.describe_cluster())

    def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        """The groups of all brokers that pass both filters."""
        return self._wait(self._admin.list_groups(states=states, types=types))

    def describe_groups(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        """Describe groups of either protocol."""
        return self._wait(
            self._admin.describe_groups(
                group_ids, with_operations=with_operations, progress=progress
            )
        )

    def delete_groups(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        """Delete groups that have no members, with their offsets (KIP-229)."""
        return self._wait(self._admin.delete_groups(group_ids, progress=progress))

    def find_coordinators(self, group_ids: Iterable[GroupId]) -> Results[GroupId, Node]:
        """Which broker coordinates which group, asked anew (KIP-699)."""
        return self._wait(self._admin.find_coordinators(group_ids))

    def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        """Make members leave a group."""
        return self._wait(self._admin.remove_members(group_id, members, reason=reason))

    def list_group_offsets(
        self,
        group_id: GroupId,
        partitions: Collection[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> GroupOffsets:
        """What one group committed for partitions."""
        return self._wait(
            self._admin.list_group_offsets(
                group_id, partitions, require_stable=require_stable
            )
        )

    def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        """What groups committed, for the named partitions or, with None, for all."""
        return self._wait(
            self._admin.list_groups_offsets(
                wanted, require_stable=require_stable, progress=progress
            )
        )

    def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        """Commit for a group that has no members."""
        return self._wait(self._admin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete what a group committed (KIP-496)."""
        return self._wait(self._admin.delete_group_offsets(group_id, partitions))

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetFound]:
        """Offsets of logs: their ends, their beginnings, or what was written when."""
        return self._wait(
            self._admin.list_offsets(
                wanted, committed_only=committed_only, progress=progress
            )
        )

    def record_times(
        self,
        wanted: Mapping[TopicPartition, LogOffset],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, int]:
        """When the first record at or after an offset of each was written, in ms."""
        return self._wait(self._admin.record_times(wanted, progress=progress))

    def delete_records(
        self,
        before: Mapping[TopicPartition, LogOffset],
        *,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffset]:
        """Delete what lies before an offset, or with -1 all there is (KIP-107)."""
        return self._wait(self._admin.delete_records(before, progress=progress))

    def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        """Topics and their partitions."""
        return self._wait(self._admin.describe_topics(names))

    def create_topics(
        self, new: Iterable[NewTopic], *, validate_only: bool = False
    ) -> Results[TopicName, CreatedTopic]:
        """Make topics, or with `validate_only` only see whether they could be made."""
        return self._wait(self._admin.create_topics(new, validate_only=validate_only))

    def delete_topics(self, names: Iterable[TopicName]) -> Results[TopicName, None]:
        """Delete topics and all they hold."""
        return self._wait(self._admin.delete_topics(names))

    def create_partitions(
        self, counts: Mapping[TopicName, int], *, validate_only: bool = False
    ) -> Results[TopicName, None]:
        """Let topics have so many partitions in all."""
        return self._wait(
            self._admin.create_partitions(counts, validate_only=validate_only)
        )

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Collection[str] | None = None,
        with_synonyms: bool = False,
        with_documentation: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        """The configurations of topics, brokers or groups, those of some `names` or
        all, in the order of names."""
        return self._wait(
            self._admin.describe_configs(
                resources,
                names=names,
                with_synonyms=with_synonyms,
                with_documentation=with_documentation,
                progress=progress,
            )
        )

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[ConfigResource, None]:
        """Set configurations one by one, and with None go back to their defaults."""
        return self._wait(
            self._admin.alter_configs(
                changes, validate_only=validate_only, progress=progress
            )
        )

    def list_config_resources(
        self, kinds: Collection[ResourceKind] = ()
    ) -> tuple[ConfigResource, ...]:
        """What has configurations, of some kinds or of all: of groups those that
        have set something (KIP-1142)."""
        return self._wait(self._admin.list_config_resources(kinds))

    def describe_acls(self, wanted: AclFilter | None = None) -> tuple[Acl, ...]:
        """The bindings that a filter means, sorted."""
        return self._wait(self._admin.describe_acls(wanted))

    def create_acls(self, new: Iterable[Acl]) -> Results[Acl, None]:
        """Add bindings."""
        return self._wait(self._admin.create_acls(new))

    def delete_acls(
        self, filters: Iterable[AclFilter]
    ) -> Results[AclFilter, Results[Acl, None]]:
        """Take away what each filter means."""
        return self._wait(self._admin.delete_acls(filters))

    def describe_scram_users(
        self, names: Iterable[str] | None = None
    ) -> Results[str, tuple[ScramInfo, ...]]:
        """The kinds of passwords that users have."""
        return self._wait(self._admin.describe_scram_users(names))

    def alter_scram_users(
        self, changes: Iterable[ScramUpsertion | ScramDeletion]
    ) -> Results[str, None]:
        """Set and delete passwords, one change a user."""
        return self._wait(self._admin.alter_scram_users(changes))
