"""A transactional producer that commits offsets, by raw requests, and fetches of
offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.interop.exchanges.producers import (
    add_offsets,
    end_txn,
    new_producer,
    txn_commit,
)

from .members import Partition


class Transactions:
    """The transactions of one producer on a connection, one after another, in the
    versions before KIP-890."""

    def __init__(self, wire: WireClient, transactional_id: str) -> None:
        self.wire = wire
        self._producer = new_producer(wire, transactional_id, version=4)

    def begin(self, group: str) -> None:
        """Add the group's partition of __consumer_offsets to the transaction."""
        assert add_offsets(self.wire, self._producer, group, version=3) == 0

    def commit_errors(
        self,
        group: str,
        offsets: Mapping[Partition, int],
        *,
        member_id: str = "",
        epoch: int = -1,
    ) -> dict[Partition, int]:
        """Send a TxnOffsetCommit v3; return the error code of each partition."""
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, index), offset in offsets.items():
            by_topic.setdefault(topic, {})[index] = offset
        answers = txn_commit(
            self.wire,
            self._producer,
            group,
            by_topic.items(),
            version=3,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
        )
        return {
            (topic, index): code for topic, codes in answers for index, code in codes
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
        ended = end_txn(self.wire, self._producer, commit=commit, version=3)
        assert ended.error_code == 0, ended


def fetch(
    wire: WireClient,
    group: str,
    wanted: Mapping[str, Sequence[int]] | None = None,
    *,
    stable: bool = False,
    member_id: str | None = None,
    epoch: int = -1,
) -> m.OffsetFetchResponseGroup:
    """Send an OffsetFetch v9 for one group, by default for all its offsets."""
    topics = None
    if wanted is not None:
        topics = [
            m.OffsetFetchRequestTopics(name=name, partition_indexes=list(some))
            for name, some in wanted.items()
        ]
    each = m.OffsetFetchRequestGroup(
        group_id=group, topics=topics, member_id=member_id, member_epoch=epoch
    )
    request = m.OffsetFetchRequest(groups=[each], require_stable=stable)
    [answer] = wire.call(request, 9).groups
    assert isinstance(answer, m.OffsetFetchResponseGroup)
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
