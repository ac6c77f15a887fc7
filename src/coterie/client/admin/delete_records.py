"""DeleteRecords (key 21): what lies before an offset is gone for good (KIP-107)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from coterie.client.admin.controller import broker_timeout_ms
from coterie.client.admin.leaders import Outcomes, ask_leaders
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.types import LogOffset, TopicName, TopicPartition
from coterie.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)


async def delete_records(
    cluster: Cluster,
    before: Mapping[TopicPartition, LogOffset],
    *,
    progress: Progress | None = None,
) -> Results[TopicPartition, LogOffset]:
    """Delete the records of each partition before an offset; -1 means all there are.

    Gives the offset at which each log then starts. Doing it twice does no harm, so it
    is tried again as if it were a question.
    """

    async def ask(
        node_id: int, offsets: Mapping[TopicPartition, LogOffset]
    ) -> Outcomes[LogOffset]:
        topics: dict[TopicName, list[DeleteRecordsPartition]] = defaultdict(list)
        for (name, partition), offset in offsets.items():
            topics[name].append(
                DeleteRecordsPartition(partition_index=partition, offset=offset)
            )
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
            timeout_ms=broker_timeout_ms(cluster.options),
        )
        answer = await cluster.call(request, DeleteRecordsResponse, node_id=node_id)
        return _outcomes(answer)

    return await ask_leaders(cluster, before, ask, progress)


def _outcomes(answer: DeleteRecordsResponse) -> Outcomes[LogOffset]:
    return {
        TopicPartition(topic.name, each.partition_index): (
            refusal(each.error_code, f"partition {topic.name}-{each.partition_index}")
            if each.error_code
            else each.low_watermark
        )
        for topic in answer.topics
        for each in topic.partitions
    }
