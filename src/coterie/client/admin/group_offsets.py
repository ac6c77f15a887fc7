"""Committed offsets of groups: OffsetFetch, OffsetCommit and OffsetDelete for admins.

Topics are named, so OffsetFetch and OffsetCommit stop at version 9: version 10 names
topics by id, and offsets of deleted topics, which have no id any more, would be hidden.

OffsetFetch is about one group before version 8 (A-65), needs the partitions by name
before version 2 (A-24), and cannot check for open transactions before version 7 (A-66).

A commit without a member id and with epoch -1 is accepted while the group has no
members; else each partition has the error UNKNOWN_MEMBER_ID (E29-08).

Rules of this file: an error of a group is raised or returned as the outcome of that
group; an error of one partition does not affect the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import (
    Partial,
    Progress,
    Results,
    api_error,
    partition_name,
)
from coterie.client.admin.routing import (
    Outcomes,
    send_to_coordinator,
    send_to_coordinators,
)
from coterie.client.cluster import RETRIED_CODES
from coterie.errors import (
    ApiError,
    CoterieError,
    MalformedFrame,
    NoBatchedOffsetFetchError,
    UnsupportedByBroker,
)
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

OFFSETS_CHUNK: Final = 50
"""Groups in one OffsetFetch; the responses are larger than descriptions."""
FETCH_BY_NAME: Final = Versions(1, 9)
_COMMIT_BY_NAME: Final = Versions(2, 9)
_ALL_SINCE: Final = 2
_TOP_LEVEL_SINCE: Final = 2
_STABLE_SINCE: Final = 7
_GROUPS_SINCE: Final = 8
_NO_EPOCH: Final = -1
_PARTITION_CODES: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Codes of single partitions; before version 2 of OffsetFetch, an error of the group is
the code of a partition, too."""
GROUP_CODES: Final = RETRIED_CODES | {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
"""Codes that are repeated for each partition or member and concern the group."""


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset: the next offset that the group reads."""

    offset: LogOffset
    leader_epoch: int | None = None
    """The leader epoch of the record before it, when known."""
    metadata: str = ""
    """A text of the application."""


@dataclass(frozen=True, slots=True)
class GroupOffsets(Partial[TopicPartition]):
    """The committed offsets of one group.

    A requested partition without a commit is None (A-62); a partition that could not be
    read is in `errors` only (A-63).
    """

    offsets: Mapping[TopicPartition, CommittedOffset | None]
    errors: Mapping[TopicPartition, CoterieError] = field(default_factory=dict)

    def all(self) -> Mapping[TopicPartition, CommittedOffset | None]:
        """Return every offset. Raises the first partition's error, if any."""
        self.raise_any()
        return self.offsets


Wanted: TypeAlias = Mapping[GroupId, Collection[TopicPartition] | None]
_Partition: TypeAlias = (
    "m.OffsetFetchResponsePartition | m.OffsetFetchResponsePartitions"
)
_Changed = Results[TopicPartition, None]


class CommittedOffsets(Family):
    """Calls about committed offsets of groups."""

    async def fetch(
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
        wanted = {group_id: partitions}
        results = await self.fetch_many(wanted, require_stable=require_stable)
        return results.one(group_id)

    async def fetch_many(
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

        async def request(
            node_id: int, group_ids: Sequence[GroupId]
        ) -> Outcomes[GroupId, GroupOffsets]:
            connection = await self._cluster.connection(node_id)
            version = connection.version_of(m.OffsetFetchRequest, FETCH_BY_NAME)
            is_batched = version >= _GROUPS_SINCE
            if not is_batched and len(group_ids) > 1:
                raise NoBatchedOffsetFetchError(
                    f"{connection.address} serves OffsetFetch v{version}, which is "
                    "about one group"
                )
            fetch = (
                _fetch_groups({each: wanted[each] for each in group_ids})
                if is_batched
                else _fetch_group(group_ids[0], wanted[group_ids[0]], version)
            )
            fetch.require_stable = require_stable and version >= _STABLE_SINCE
            is_refused = self._cluster.options.stable_fetch_is_required
            if require_stable and not fetch.require_stable and is_refused:
                raise UnsupportedByBroker(
                    f"OffsetFetch v{version} cannot require stable offsets; "
                    f"{_STABLE_SINCE} is needed"
                )
            response = await connection.call(
                fetch, m.OffsetFetchResponse, wanted=FETCH_BY_NAME
            )
            if is_batched:
                return {
                    group.group_id: _group_offsets(
                        group.group_id,
                        group.error_code,
                        [
                            (topic.name, p)
                            for topic in group.topics
                            for p in topic.partitions
                        ],
                    )
                    for group in response.groups
                }
            partitions: list[tuple[TopicName, _Partition]] = [
                (topic.name, each)
                for topic in response.topics
                for each in topic.partitions
            ]
            code = response.error_code
            if version < _TOP_LEVEL_SINCE:
                codes = (each.error_code for _, each in partitions)
                code = next((each for each in codes if each not in _PARTITION_CODES), 0)
            return {group_ids[0]: _group_offsets(group_ids[0], code, partitions)}

        return await send_to_coordinators(
            self._cluster, wanted, request, chunk=OFFSETS_CHUNK, progress=progress
        )

    async def alter(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members.

        If the group has members, each partition has the error UNKNOWN_MEMBER_ID
        (E29-08). Raises the group's ApiError.
        """
        commit = m.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=_NO_EPOCH,
            topics=topics_to_commit(offsets),
        )

        async def request(node_id: int) -> _Changed | CoterieError:
            response = await self._cluster.call(
                commit,
                m.OffsetCommitResponse,
                node_id=node_id,
                wanted=_COMMIT_BY_NAME,
            )
            codes = {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in response.topics
                for each in topic.partitions
            }
            return _changed(group_id, offsets, codes)

        return await send_to_coordinator(self._cluster, group_id, request)

    async def delete(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group (KIP-496).

        Partitions of a topic that a member subscribes to have the error
        GROUP_SUBSCRIBED_TO_TOPIC. Raises the group's ApiError.
        """
        topics = []
        for name, indexes in by_topic(partitions).items():
            deleted = [
                m.OffsetDeleteRequestPartition(partition_index=each) for each in indexes
            ]
            topics.append(m.OffsetDeleteRequestTopic(name=name, partitions=deleted))
        delete = m.OffsetDeleteRequest(group_id=group_id, topics=topics)

        async def request(node_id: int) -> _Changed | CoterieError:
            response = await self._cluster.call(
                delete, m.OffsetDeleteResponse, node_id=node_id
            )
            if response.error_code:  # precedes the codes of partitions (D-50)
                return api_error(response.error_code, f"group {group_id}")
            codes = {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in response.topics
                for each in topic.partitions
            }
            return _changed(group_id, partitions, codes)

        return await send_to_coordinator(self._cluster, group_id, request)


class SyncCommittedOffsets(SyncFamily[CommittedOffsets]):
    """The blocking methods of `CommittedOffsets`."""

    fetch = blocking(CommittedOffsets.fetch)
    fetch_many = blocking(CommittedOffsets.fetch_many)
    alter = blocking(CommittedOffsets.alter)
    delete = blocking(CommittedOffsets.delete)


def _fetch_groups(wanted: Wanted) -> m.OffsetFetchRequest:
    groups = []
    for group_id, named in wanted.items():
        topics = None
        if named is not None:
            topics = [
                m.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(named).items()
            ]
        groups.append(m.OffsetFetchRequestGroup(group_id=group_id, topics=topics))
    return m.OffsetFetchRequest(groups=groups)


def _fetch_group(
    group_id: GroupId, named: Collection[TopicPartition] | None, version: int
) -> m.OffsetFetchRequest:
    if named is None and version < _ALL_SINCE:
        raise UnsupportedByBroker(
            f"OffsetFetch v{version} cannot fetch all offsets of a group; "
            f"{_ALL_SINCE} is needed, or the partitions by name"
        )
    if named is None:
        return m.OffsetFetchRequest(group_id=group_id, topics=None)
    topics = [
        m.OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
        for name, indexes in by_topic(named).items()
    ]
    return m.OffsetFetchRequest(group_id=group_id, topics=topics)


def _group_offsets(
    group_id: GroupId, code: int, partitions: Iterable[tuple[TopicName, _Partition]]
) -> GroupOffsets | CoterieError:
    if code:  # an error of the group precedes those of its partitions
        return api_error(code, f"group {group_id}")
    offsets: dict[TopicPartition, CommittedOffset | None] = {}
    errors: dict[TopicPartition, CoterieError] = {}
    for topic, each in partitions:
        partition = TopicPartition(topic, each.partition_index)
        epoch = each.committed_leader_epoch
        if each.error_code:
            errors[partition] = api_error(each.error_code, partition_name(partition))
        elif each.committed_offset < 0:  # no commit
            offsets[partition] = None
        else:
            offsets[partition] = CommittedOffset(
                each.committed_offset,
                epoch if epoch >= 0 else None,
                each.metadata or "",
            )
    return GroupOffsets(offsets, errors)


def _changed(
    group_id: GroupId,
    wanted: Collection[TopicPartition],
    codes: Mapping[TopicPartition, int],
) -> _Changed | CoterieError:
    for code in map(ErrorCode.read, codes.values()):
        if code in GROUP_CODES:
            return api_error(code, f"group {group_id}")
    done: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, CoterieError] = {}
    for each in dict.fromkeys(wanted):
        name = partition_name(each)
        if each not in codes:
            errors[each] = MalformedFrame(f"the response omits {name}")
        elif codes[each] == ErrorCode.UNKNOWN_MEMBER_ID:
            # The commit has no member id, so this code means that the group has
            # members.
            errors[each] = ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"{name}: the group has members; stop them first",
            )
        elif codes[each] == ErrorCode.GROUP_ID_NOT_FOUND:
            errors[each] = ApiError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{name}: group {group_id} commits no offsets: it is a share group, or"
                " it does not exist",
            )
        elif codes[each]:
            errors[each] = api_error(codes[each], name)
        else:
            done[each] = None
    return Results(done, errors)


def topics_to_commit(
    offsets: Mapping[TopicPartition, LogOffset | CommittedOffset],
) -> list[m.OffsetCommitRequestTopic]:
    """Return offsets as the topics of an OffsetCommit request."""
    topics = []
    for name, indexes in by_topic(offsets).items():
        partitions = []
        for index in indexes:
            given = offsets[TopicPartition(name, index)]
            offset = CommittedOffset(given) if isinstance(given, int) else given
            epoch = offset.leader_epoch
            partitions.append(
                m.OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset.offset,
                    committed_leader_epoch=_NO_EPOCH if epoch is None else epoch,
                    committed_metadata=offset.metadata,
                )
            )
        topics.append(m.OffsetCommitRequestTopic(name=name, partitions=partitions))
    return topics


def by_topic(partitions: Iterable[TopicPartition]) -> dict[TopicName, list[int]]:
    """Group partitions by topic, as in requests."""
    topics: dict[TopicName, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
