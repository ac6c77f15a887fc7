"""OffsetFetch as an admin asks it: what groups committed, all of it or by name
(KIP-88).

Versions 1 to 9, and never 10: that one has the ids of topics where 9 has their names.
An operator has names, and also wants to see what a group committed for a topic that is
deleted: no name belongs to its id any more. A broker that would serve 10 only will be
the reason to look up ids here.

Before version 8 a request is about one group (A-65). Before version 2 nobody can ask
for all partitions (A-24). Before version 7 nobody waits for transactions to end; then
the wish for that is dropped, as Kafka's admin does, unless the option says that it must
be heard (A-66).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from coterie.client.admin.driver import GroupDriver, Outcomes
from coterie.client.admin.group_values import Node
from coterie.client.admin.offset_values import CommittedOffset, GroupOffsets
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.errors import (
    CoterieError,
    NoBatchedOffsetFetchError,
    UnsupportedByBroker,
)
from coterie.types import GroupId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from coterie.wire.schema import Versions

OFFSETS_CHUNK: Final = 50
"""Groups in one OffsetFetch; their answers are larger than descriptions."""
BY_NAME: Final = Versions(1, 9)
_ALL_SINCE: Final = 2
_TOP_LEVEL_SINCE: Final = 2
_STABLE_SINCE: Final = 7
_GROUPS_SINCE: Final = 8
_OF_A_PARTITION: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Before version 2, an error of the group is told as one of its partitions."""

Wanted: TypeAlias = Mapping[GroupId, Collection[TopicPartition] | None]
_Partition: TypeAlias = OffsetFetchResponsePartition | OffsetFetchResponsePartitions
_Told: TypeAlias = Iterable[tuple[TopicName, _Partition]]


async def list_groups_offsets(
    cluster: Cluster,
    wanted: Wanted,
    *,
    require_stable: bool = False,
    progress: Progress | None = None,
) -> Results[GroupId, GroupOffsets]:
    """The committed offsets of groups; None of a group means all that it has.

    With `require_stable` a partition with a transaction under way is an error of that
    partition, UNSTABLE_OFFSET_COMMIT.
    """
    ask = _Fetcher(cluster, wanted, require_stable).ask
    driver = GroupDriver[GroupOffsets](
        cluster, ask, chunk=OFFSETS_CHUNK, progress=progress
    )
    return await driver.run(wanted)


class _Fetcher(NamedTuple):
    cluster: Cluster
    wanted: Wanted
    require_stable: bool

    async def ask(
        self, node: Node, group_ids: Sequence[GroupId]
    ) -> Outcomes[GroupOffsets]:
        connection = await self.cluster.connection(node.node_id)
        version = connection.version_of(OffsetFetchRequest, BY_NAME)
        is_batched = version >= _GROUPS_SINCE
        if not is_batched and len(group_ids) > 1:
            raise NoBatchedOffsetFetchError(
                f"{node} serves OffsetFetch v{version}, of one group a request"
            )
        request = (
            self._of_many(group_ids)
            if is_batched
            else self._of_one(group_ids[0], version)
        )
        request.require_stable = self._may_require_stable(version)
        answer = await connection.call(request, OffsetFetchResponse, wanted=BY_NAME)
        if is_batched:
            return {each.group_id: self._read_group(each) for each in answer.groups}
        return {group_ids[0]: self._read_only(group_ids[0], answer, version)}

    def _may_require_stable(self, version: int) -> bool:
        if not self.require_stable or version >= _STABLE_SINCE:
            return self.require_stable
        if self.cluster.options.stable_fetch_is_required:
            raise UnsupportedByBroker(
                f"OffsetFetch v{version} cannot wait for stable offsets; "
                f"{_STABLE_SINCE} is needed"
            )
        return False

    def _of_many(self, group_ids: Sequence[GroupId]) -> OffsetFetchRequest:
        groups = []
        for each in group_ids:
            named = self.wanted[each]
            topics = None if named is None else _topics(named)
            groups.append(OffsetFetchRequestGroup(group_id=each, topics=topics))
        return OffsetFetchRequest(groups=groups)

    def _of_one(self, group_id: GroupId, version: int) -> OffsetFetchRequest:
        named = self.wanted[group_id]
        if named is None and version < _ALL_SINCE:
            raise UnsupportedByBroker(
                f"OffsetFetch v{version} cannot tell all offsets of a group; "
                f"{_ALL_SINCE} is needed, or the partitions by name"
            )
        if named is None:
            return OffsetFetchRequest(group_id=group_id, topics=None)
        topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(named).items()
        ]
        return OffsetFetchRequest(group_id=group_id, topics=topics)

    def _read_group(
        self, group: OffsetFetchResponseGroup
    ) -> GroupOffsets | CoterieError:
        code = ErrorCode.read(group.error_code)
        told = [
            (topic.name, each) for topic in group.topics for each in topic.partitions
        ]
        return self._outcome(group.group_id, code, told)

    def _read_only(
        self, group_id: GroupId, answer: OffsetFetchResponse, version: int
    ) -> GroupOffsets | CoterieError:
        told = [
            (topic.name, each) for topic in answer.topics for each in topic.partitions
        ]
        code = ErrorCode.read(answer.error_code)
        if version < _TOP_LEVEL_SINCE:
            codes = (ErrorCode.read(each.error_code) for _, each in told)
            groups_own = (each for each in codes if each not in _OF_A_PARTITION)
            code = next(groups_own, ErrorCode.NONE)
        return self._outcome(group_id, code, told)

    def _outcome(
        self, group_id: GroupId, code: ErrorCode, told: _Told
    ) -> GroupOffsets | CoterieError:
        """The group's error comes before anything that is told of partitions (A-60)."""
        if code is not ErrorCode.NONE:
            return refusal(code, f"group {group_id}")
        offsets: dict[TopicPartition, CommittedOffset | None] = {}
        errors: dict[TopicPartition, CoterieError] = {}
        for topic, each in told:
            partition = TopicPartition(topic, each.partition_index)
            if each.error_code:
                what = f"partition {topic}-{each.partition_index}"
                errors[partition] = refusal(each.error_code, what)
            else:
                offsets[partition] = _committed(each)
        return GroupOffsets(offsets, errors)


def _committed(each: _Partition) -> CommittedOffset | None:
    """None when nothing is committed, which the protocol says with a negative offset
    (A-62)."""
    if each.committed_offset < 0:
        return None
    epoch = each.committed_leader_epoch
    return CommittedOffset(
        each.committed_offset, epoch if epoch >= 0 else None, each.metadata or ""
    )


def _topics(partitions: Collection[TopicPartition]) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
        for name, indexes in by_topic(partitions).items()
    ]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[TopicName, list[int]]:
    """Partitions under their topics, as requests name them."""
    topics: dict[TopicName, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
