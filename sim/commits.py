"""What members commit, and what must be readable because they were told so."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.shard import Shard
from coterie.types import GroupId
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

Name = tuple[GroupId, str, int]


class Commits:
    """Every commit has a number of its own, which is the offset it commits.

    The order in which the server took commits in is noted as it does; one that its
    member was told of may only be followed by one that was taken in later.
    """

    def __init__(self) -> None:
        self._made = 0
        self._taken: dict[Name, dict[int, int]] = {}
        self._acknowledged: dict[Name, int] = {}

    def request(
        self, group_id: GroupId, member_id: str, epoch: int, topic: str, partition: int
    ) -> OffsetCommitRequest:
        """A commit of a partition by a member."""
        self._made += 1
        return OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=self._made,
                            committed_metadata="",
                        )
                    ],
                )
            ],
        )

    def handled(self, shard: Shard, request: OffsetCommitRequest) -> None:
        """The server has looked at a commit just now: note whether it took it in."""
        name, offset = _name(request), _offset(request)
        if stored(shard, name) == offset:
            order = self._taken.setdefault(name, {})
            order[offset] = len(order)

    def answered(self, request: OffsetCommitRequest, response: Any) -> bool:
        """A member has been told; whether its commit was accepted."""
        if response.topics[0].partitions[0].error_code:
            return False
        name, offset = _name(request), _offset(request)
        place = self._taken.get(name, {}).get(offset)
        assert place is not None, f"{name}: commit {offset} was never taken in"
        self._acknowledged[name] = max(place, self._acknowledged.get(name, -1))
        return True

    def forget(self, topic: str) -> None:
        """A topic is gone, and its offsets with it."""
        for name in [name for name in self._taken if name[1] == topic]:
            self._taken.pop(name)
            self._acknowledged.pop(name, None)

    def check(self, shard: Shard, group_id: GroupId) -> None:
        """Every commit that a member was told of, or a later one, can be read."""
        for name, place in self._acknowledged.items():
            if name[0] == group_id:
                found = stored(shard, name)
                newer = self._taken[name].get(found if found is not None else -1, -1)
                assert newer >= place, f"{name}: an acknowledged commit is lost"


def stored(shard: Shard, name: Name) -> int | None:
    """The offset that a client would be told."""
    group_id, topic, partition = name
    committed = shard.state.offsets.stored.get(group_id, topic, partition)
    return None if committed is None else committed.offset


def _name(request: OffsetCommitRequest) -> Name:
    (topic,) = request.topics
    return request.group_id, topic.name, topic.partitions[0].partition_index


def _offset(request: OffsetCommitRequest) -> int:
    offset: int = request.topics[0].partitions[0].committed_offset
    return offset
