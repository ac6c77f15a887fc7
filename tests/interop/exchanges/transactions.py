"""A transactional producer that commits offsets, by raw requests, and fetches of
offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.end_txn import EndTxnRequest
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.wire.schema import Message
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import Partition

RETRIABLE = {14, 15, 16, 51}
"""Loading and missing coordinators; a transaction whose end is under way."""


class Producer:
    """A producer with one transaction after another; the first has begun."""

    def __init__(self, wire: WireClient, transactional_id: str) -> None:
        self.wire = wire
        self.transactional_id = transactional_id
        init = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        made = self._call(init, 4)
        assert made.error_code == 0, made
        self.id, self.epoch = made.producer_id, made.producer_epoch

    def begin(self, group: str) -> None:
        """Add the group's partition of __consumer_offsets to the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        answer = self._call(request, 3)
        assert answer.error_code == 0, answer

    def commit_errors(
        self,
        group: str,
        offsets: Mapping[Partition, int],
        *,
        member_id: str = "",
        epoch: int = -1,
    ) -> dict[Partition, int]:
        """Send a TxnOffsetCommit v3; return the error code of each partition."""
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            each = TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            by_topic.setdefault(topic, []).append(each)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in by_topic.items()
            ],
        )
        return {
            (topic.name, each.partition_index): each.error_code
            for topic in self.wire.call(request, 3).topics
            for each in topic.partitions
        }

    def commit(
        self, group: str, offsets: Mapping[Partition, int], **fields: Any
    ) -> None:
        """Begin a transaction and commit offsets in it; all must succeed."""
        self.begin(group)
        errors = self.commit_errors(group, offsets, **fields)
        assert set(errors.values()) <= {0}, errors

    def end(self, *, commit: bool) -> None:
        """End the transaction; its markers may be written later."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self._call(request, 3)
        assert answer.error_code == 0, answer

    def _call(self, request: Message, version: int) -> Any:
        answer: Any = None

        def answered() -> bool:
            nonlocal answer
            answer = self.wire.call(request, version)
            return answer.error_code not in RETRIABLE

        eventually(answered, expected="an answer of the transaction coordinator")
        return answer


def fetch(
    wire: WireClient,
    group: str,
    wanted: Mapping[str, Sequence[int]] | None = None,
    *,
    stable: bool = False,
    member_id: str | None = None,
    epoch: int = -1,
) -> OffsetFetchResponseGroup:
    """Send an OffsetFetch v9 for one group, by default for all its offsets."""
    topics = None
    if wanted is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(some))
            for name, some in wanted.items()
        ]
    each = OffsetFetchRequestGroup(
        group_id=group, topics=topics, member_id=member_id, member_epoch=epoch
    )
    request = OffsetFetchRequest(groups=[each], require_stable=stable)
    [answer] = wire.call(request, 9).groups
    assert isinstance(answer, OffsetFetchResponseGroup)
    return answer


def offsets(
    wire: WireClient,
    group: str,
    wanted: Mapping[str, Sequence[int]] | None = None,
    **fields: Any,
) -> dict[Partition, int | str]:
    """Return the offsets that `fetch` gets; for an error its code with a word."""
    answer = fetch(wire, group, wanted, **fields)
    assert answer.error_code == 0, answer
    return {
        (topic.name, each.partition_index): f"error {each.error_code}"
        if each.error_code
        else each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }
