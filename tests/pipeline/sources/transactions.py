"""Transactions with committed offsets, made by requests of the Kafka protocol."""

from __future__ import annotations

from typing import Any, Self

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

LIMIT_MS = 60_000


class Transaction:
    """A transaction of a transactional id, open until `end`."""

    def __init__(self, client: WireClient, name: str) -> None:
        self._client = client
        self._name = name
        request = m.InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=LIMIT_MS
        )
        made = client.call(request, 4)
        assert made.error_code == 0
        self._ids: dict[str, Any] = {
            "producer_id": made.producer_id,
            "producer_epoch": made.producer_epoch,
        }

    def commit(self, group: str, offset: int, topic: str = "t") -> Self:
        """Commit an offset of a topic's partition 0."""
        ids = {**self._ids, "transactional_id": self._name, "group_id": group}
        added = self._client.call(m.AddOffsetsToTxnRequest(**ids), 3)
        assert added.error_code == 0
        part = m.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        commit_topic = m.TxnOffsetCommitRequestTopic(name=topic, partitions=[part])
        answer = self._client.call(
            m.TxnOffsetCommitRequest(**ids, topics=[commit_topic]), 2
        )
        assert answer.topics[0].partitions[0].error_code == 0
        return self

    def end(self, *, commit: bool) -> None:
        """Commit or abort the transaction."""
        request = m.EndTxnRequest(
            **self._ids, transactional_id=self._name, committed=commit
        )
        assert self._client.call(request, 3).error_code == 0
