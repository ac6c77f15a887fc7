"""A member of a share group that sends ShareFetch and ShareAcknowledge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.broker.coordinator.share.state_requests import (
    InitializeShareState,
    SharePartitions,
)
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import (
    FakeBroker,
    FakePeer,
    batch_of,
    produce_request,
)

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
LATEST = 2
GROUP = "queue"
Acks = Mapping[int, Sequence[tuple[int, int, Sequence[int]]]]
"""The acknowledgements of a request: first and last offset and types, by partition."""


def initialize(
    broker: FakeBroker,
    *,
    topic: str = "a",
    group: str = GROUP,
    partitions: Sequence[int] = (0,),
    start_offset: int = 0,
    state_epoch: int = 2,
) -> list[ErrorCode]:
    """Initialize share partitions, as the group's coordinator does."""
    topic_id = broker.catalog.topic_id(topic)
    assert topic_id is not None
    topics = (SharePartitions(topic_id, topic, tuple(partitions), start_offset),)
    codes: list[ErrorCode] = []
    request = InitializeShareState(group, state_epoch, topics)
    broker.share_states.handle(request, codes.append)
    broker.loop.end_turn()
    return codes


def produce(
    broker: FakeBroker, *values: bytes, topic: str = "a", index: int = 0
) -> None:
    """Produce one batch."""
    batches = [*[None] * index, batch_of(*values)]
    response = broker.call(produce_request(*batches, topic=topic), 12)
    parts = response.responses[0].partition_responses
    assert [part.error_code for part in parts] == [0]


class Fetched(NamedTuple):
    """The result of one partition."""

    acquired: list[tuple[int, int, int]]
    error: int
    acknowledge_error: int
    records: bytes


class ShareMember:
    """A member with a session at one node."""

    def __init__(
        self,
        broker: FakeBroker,
        name: str = "m1",
        *,
        group: str = GROUP,
        topic: str = "a",
        partitions: Sequence[int] = (0,),
        node: int = 0,
    ) -> None:
        topic_id = broker.catalog.topic_id(topic)
        assert topic_id is not None
        self.topic_id = topic_id
        self.epoch = 0
        self._broker = broker
        self._name = name
        self._group = group
        self._partitions = list(partitions)
        self._node = node
        self.opened: FakePeer | None = None
        """The connection that opened the session."""

    def request(self, acks: Acks | None = None, **options: Any) -> m.ShareFetchRequest:
        """Return the next request of the session."""
        acks = acks or {}
        indexes = self._partitions if self.epoch == 0 else list(acks)
        fields: dict[str, Any] = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
        }
        topic = m.ShareFetchTopic(
            topic_id=self.topic_id,
            partitions=[
                m.ShareFetchPartition(
                    partition_index=index,
                    acknowledgement_batches=_batches(acks.get(index, ())),
                )
                for index in indexes
            ],
        )
        return m.ShareFetchRequest(
            **{
                "group_id": self._group,
                "member_id": self._name,
                "share_session_epoch": self.epoch,
                "topics": [topic] if indexes else [],
                **fields,
                **options,
            }
        )

    def start(
        self, acks: Acks | None = None, *, version: int = LATEST, **options: Any
    ) -> FakePeer:
        """Send a ShareFetch; return the connection, which may wait."""
        request = self.request(acks, **options)
        peer = self._broker.start_call(request, version, node=self._node)
        if self.epoch == 0:
            self.opened = peer
        if self.epoch >= 0:
            self.epoch += 1
        return peer

    def fetch(self, acks: Acks | None = None, **options: Any) -> dict[int, Fetched]:
        """Send a ShareFetch; return the results by partition."""
        return results(self.start(acks, **options).response)

    def take(
        self, acks: Acks | None = None, **options: Any
    ) -> list[tuple[int, int, int]]:
        """Send a ShareFetch; return what was acquired of partition 0."""
        fetched = self.fetch(acks, **options)
        return fetched[0].acquired if 0 in fetched else []

    def acknowledge(self, acks: Acks, *, version: int = LATEST, **options: Any) -> Any:
        """Send a ShareAcknowledge; return the response, None while it waits."""
        request = m.ShareAcknowledgeRequest(
            **{
                "group_id": self._group,
                "member_id": self._name,
                "share_session_epoch": self.epoch,
                "topics": [
                    m.ShareAcknowledgeTopic(
                        topic_id=self.topic_id,
                        partitions=[
                            m.ShareAcknowledgePartition(
                                partition_index=index,
                                acknowledgement_batches=_batches(batches),
                            )
                        ],
                    )
                    for index, batches in acks.items()
                ],
                **options,
            }
        )
        if self.epoch >= 0:
            self.epoch += 1
        return self._broker.call(request, version, node=self._node)

    def codes(self, acks: Acks, **options: Any) -> list[int]:
        """Send a ShareAcknowledge; return the error codes of its partitions."""
        response = self.acknowledge(acks, **options)
        assert response.error_code == 0
        return [
            part.error_code for each in response.responses for part in each.partitions
        ]


def results(response: Any) -> dict[int, Fetched]:
    """Return the results of a ShareFetch by partition."""
    assert response is not None, "the fetch waits"
    assert response.error_code == 0
    return {
        part.partition_index: Fetched(
            [
                (each.first_offset, each.last_offset, each.delivery_count)
                for each in part.acquired_records
            ],
            part.error_code,
            part.acknowledge_error_code,
            part.records,
        )
        for topic in response.responses
        for part in topic.partitions
    }


def _batches(
    acks: Sequence[tuple[int, int, Sequence[int]]],
) -> list[m.ShareAcknowledgementBatch]:
    return [
        m.ShareAcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=list(types)
        )
        for first, last, types in acks
    ]
