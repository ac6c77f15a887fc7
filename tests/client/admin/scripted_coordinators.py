"""A cluster of scripted brokers of any version that coordinate groups.

    async with ScriptedCoordinators(2, KAFKA_2_8) as coordinators:
        coordinators.where = {"g": 1}                  # the second broker is its
        coordinator async with coordinators.admin() as admin:
            await admin.groups.describe(["g"])
        assert coordinators.count(DescribeGroupsRequest) == 1

Groups are empty classic groups, or KIP-848 groups in `consumer_groups`; each has
committed the offset 5 of partition 0 of the topic "t".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from coterie.client import AdminClient, ClientOptions
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.scripted_broker import OPTIONS, ScriptedBroker

NEW: Final[Mapping[ApiKey, Versions]] = {
    key: versions for key, versions in ADVERTISED.items() if "SHARE" not in key.name
}
KAFKA_0_11: Final[Mapping[ApiKey, Versions]] = {
    ApiKey.API_VERSIONS: Versions(0, 1),
    ApiKey.METADATA: Versions(0, 4),
    ApiKey.FIND_COORDINATOR: Versions(0, 1),
    ApiKey.OFFSET_COMMIT: Versions(0, 3),
    ApiKey.OFFSET_FETCH: Versions(0, 3),
    ApiKey.LEAVE_GROUP: Versions(0, 1),
    ApiKey.DESCRIBE_GROUPS: Versions(0, 1),
    ApiKey.LIST_GROUPS: Versions(0, 1),
}
KAFKA_2_8: Final[Mapping[ApiKey, Versions]] = {
    ApiKey.API_VERSIONS: Versions(0, 3),
    ApiKey.METADATA: Versions(0, 11),
    ApiKey.FIND_COORDINATOR: Versions(0, 3),
    ApiKey.OFFSET_COMMIT: Versions(0, 8),
    ApiKey.OFFSET_FETCH: Versions(0, 7),
    ApiKey.LEAVE_GROUP: Versions(0, 4),
    ApiKey.DESCRIBE_GROUPS: Versions(0, 5),
    ApiKey.LIST_GROUPS: Versions(0, 4),
    ApiKey.DELETE_GROUPS: Versions(0, 2),
    ApiKey.OFFSET_DELETE: Versions(0, 0),
}
ONCE: Final = ClientOptions(
    retry_backoff_ms=60_000,
    retry_backoff_max_ms=60_000,
    api_timeout_ms=30_000,
)
"""Fails on the first error: the deadline precedes a retry."""
IN_A_SECOND: Final = ClientOptions(
    retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=1_000
)
"""Times out after enough time for every other response."""
PLACE: Final = TopicPartition("t", 0)
OFFSET: Final = 5


class ScriptedCoordinators:
    """Scripted brokers that coordinate groups."""

    def __init__(
        self, count: int = 1, versions: Mapping[ApiKey, Versions] = NEW
    ) -> None:
        self.brokers = [ScriptedBroker(node_id) for node_id in range(count)]
        self.where: dict[str, int] = {}
        self.consumer_groups: set[str] = set()
        for broker in self.brokers:
            broker.versions = dict(versions)
            broker.answers |= {
                ApiKey.METADATA: self._metadata,
                ApiKey.FIND_COORDINATOR: self.found,
                ApiKey.LIST_GROUPS: partial(self._listed, broker.node_id),
                ApiKey.CONSUMER_GROUP_DESCRIBE: self.consumers,
                ApiKey.DESCRIBE_GROUPS: classics,
                ApiKey.OFFSET_FETCH: offsets,
                ApiKey.DELETE_GROUPS: deleted,
            }

    async def __aenter__(self) -> Self:
        for broker in self.brokers:
            await broker.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self.brokers:
            await broker.__aexit__(kind, error, trace)

    def admin(self, options: ClientOptions = OPTIONS) -> AdminClient:
        return AdminClient(self.brokers[0].bootstrap, options)

    def asked(self, kind: type[Any]) -> list[Any]:
        """Return the requests of one type to all brokers."""
        return [each for broker in self.brokers for each in broker.asked_of(kind)]

    def count(self, kind: type[Any]) -> int:
        return len(self.asked(kind))

    def found(self, request: Any) -> m.FindCoordinatorResponse:
        keys = request.coordinator_keys
        return m.FindCoordinatorResponse(
            **self.place(request.key),
            coordinators=[m.Coordinator(key=key, **self.place(key)) for key in keys],
        )

    def place(self, group_id: str) -> dict[str, Any]:
        broker = self.brokers[self.where.get(group_id, 0)]
        host = "127.0.0.1"
        return {"node_id": broker.node_id, "host": host, "port": broker.port}

    def consumers(self, request: Any) -> m.ConsumerGroupDescribeResponse:
        """Return descriptions, with GROUP_ID_NOT_FOUND for groups that are not KIP-848
        groups."""
        groups = []
        for group_id in request.group_ids:
            is_known = group_id in self.consumer_groups
            code = ErrorCode.NONE if is_known else ErrorCode.GROUP_ID_NOT_FOUND
            groups.append(
                m.DescribedConsumerGroup(
                    group_id=group_id, error_code=code, group_state="Empty"
                )
            )
        return m.ConsumerGroupDescribeResponse(groups=groups)

    def _metadata(self, request: Any) -> m.MetadataResponse:
        return m.MetadataResponse(
            cluster_id="coordinators",
            controller_id=0,
            brokers=[
                m.MetadataResponseBroker(
                    node_id=broker.node_id, host="127.0.0.1", port=broker.port
                )
                for broker in self.brokers
            ],
        )

    def _listed(self, node_id: int, request: Any) -> m.ListGroupsResponse:
        return m.ListGroupsResponse(
            groups=[
                m.ListedGroup(
                    group_id=group_id,
                    protocol_type="consumer",
                    group_state="Empty",
                    group_type="classic",
                )
                for group_id, own in self.where.items()
                if own == node_id
            ]
        )


def refused(request: Any, code: ErrorCode, *group_ids: str) -> m.DescribeGroupsResponse:
    """Return descriptions of the requested groups, with an error for some of them."""
    answer = classics(request)
    for group in answer.groups:
        if group.group_id in group_ids:
            group.error_code = code
    return answer


def classics(request: Any) -> m.DescribeGroupsResponse:
    groups = [
        m.DescribedGroup(group_id=each, group_state="Empty") for each in request.groups
    ]
    return m.DescribeGroupsResponse(groups=groups)


def deleted(request: Any) -> m.DeleteGroupsResponse:
    results = [m.DeletableGroupResult(group_id=each) for each in request.groups_names]
    return m.DeleteGroupsResponse(results=results)


def offsets(request: Any) -> m.OffsetFetchResponse:
    fields: dict[str, Any] = {
        "partition_index": PLACE.partition,
        "committed_offset": OFFSET,
        "metadata": "",
    }
    old = m.OffsetFetchResponsePartition(**fields)
    new = m.OffsetFetchResponsePartitions(**fields)
    topics = [m.OffsetFetchResponseTopics(name=PLACE.topic, partitions=[new])]
    return m.OffsetFetchResponse(
        topics=[m.OffsetFetchResponseTopic(name=PLACE.topic, partitions=[old])],
        groups=[
            m.OffsetFetchResponseGroup(group_id=each.group_id, topics=topics)
            for each in request.groups
        ],
    )
