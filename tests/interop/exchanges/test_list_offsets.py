"""ListOffsets and OffsetForLeaderEpoch: edge answers, as Kafka gives them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .test_fetch import create

LATEST, UNKNOWN_SPECIAL = -1, -7
UNSUPPORTED_VERSION, FENCED_LEADER_EPOCH = 35, 74
VERSIONS: Final = [2, 6, 11]


def list_offset(
    wire: WireClient,
    topic: str,
    version: int,
    *,
    timestamp: int = LATEST,
    isolation_level: int = 0,
    leader_epoch: int = -1,
) -> Any:
    part = m.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=leader_epoch
    )
    request = m.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation_level,
        topics=[m.ListOffsetsTopic(name=topic, partitions=[part])],
        timeout_ms=60_000,
    )
    (found,) = wire.call(request, version).topics
    (response,) = found.partitions
    return response


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", [-1, 2])
def test_an_unknown_isolation_level_fails(
    wire: WireClient, name: str, version: int, level: int
) -> None:
    create(wire, name)
    response = list_offset(wire, name, version, isolation_level=level)
    assert (response.error_code, response.offset) == (-1, -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_special_timestamp_is_refused_before_the_topic_is_found(
    wire: WireClient, name: str, version: int
) -> None:
    response = list_offset(wire, name, version, timestamp=UNKNOWN_SPECIAL)
    assert response.error_code == UNSUPPORTED_VERSION


def test_an_epoch_before_the_first(wire: WireClient, name: str) -> None:
    create(wire, name)
    response = list_offset(wire, name, 6, leader_epoch=-2)
    assert response.error_code == FENCED_LEADER_EPOCH
    part = m.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=-1, leader_epoch=-2
    )
    topics = [m.OffsetForLeaderTopic(topic=name, partitions=[part])]
    request = m.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
    (found,) = wire.call(request, 4).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (0, -2, 0)
