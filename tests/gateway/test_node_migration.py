"""Groups move to a gateway with their offsets, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from coterie.gateway.node import Gateway
from coterie.testing import Kafka

from .test_node import PARTITION, commit_all, committed, make_plan, share

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


@pytest.fixture(scope="module")
def upstream() -> Iterator[Kafka]:
    with Kafka() as kafka:
        kafka.topic(PARTITION.topic, partitions=4)
        yield kafka


async def test_offsets_are_adopted_and_repeated_upstream(upstream: Kafka) -> None:
    await commit_all(upstream.bootstrap_servers, 7)
    plan = make_plan(upstream, "migration", "a")
    plan = replace(plan, is_adopting=True, mirror_interval_ms=60_000)
    node = Gateway(plan)
    await node.start()
    try:
        await share(node)
        assert await committed(node.address) == {7}
        await commit_all(node.address, 9)
        assert await committed(upstream.bootstrap_servers) == {7}
    finally:
        await node.stop()
    assert await committed(upstream.bootstrap_servers) == {9}, "the last pass"
