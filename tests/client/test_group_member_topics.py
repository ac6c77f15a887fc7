"""Topics that are created, extended and deleted under members, over sockets.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another broker, such as Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest

from coterie.broker.coordinator.consumer import subscriptions
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer
from tests.client.test_group_member_server import INTERVAL_MS, LIMIT_MS, Stage

pytestmark = pytest.mark.asyncio


class TopicStage(Stage):
    """A stage with changing topics."""

    def grow(self, name: str, partitions: int) -> None:
        topic = m.CreatePartitionsTopic(
            name=name + self.suffix, count=partitions, assignments=None
        )
        self.ask(
            m.CreatePartitionsRequest(
                topics=[topic], timeout_ms=LIMIT_MS, validate_only=False
            )
        )

    def delete(self, name: str) -> None:
        topic = m.DeleteTopicState(name=name + self.suffix)
        self.ask(m.DeleteTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))

    def pattern(self, text: str) -> str:
        return text + self.suffix


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[TopicStage]:
    if elsewhere := os.environ.get("COTERIE_TEST_BOOTSTRAP"):
        host, _, port = elsewhere.partition(":")
        yield TopicStage(host, int(port), f"-{uuid4().hex[:8]}")
        return
    monkeypatch.setattr(subscriptions, "MIN_INTERVAL_MS", 0)
    with ThreadServer(
        group_consumer_heartbeat_interval_ms=INTERVAL_MS,
        group_consumer_assignment_interval_ms=0,
    ) as server:
        yield TopicStage(*server.addresses[0])


@pytest.mark.fact("H-12", "E6-11")
async def test_a_topic_created_later_is_assigned(stage: TopicStage) -> None:
    recorded = stage.recorded("it")
    async with stage.member(recorded, topics=["orders", "later"]):
        await recorded.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        stage.topic("later", 3)
        await recorded.wait_for("assigned", stage.of("later", 0, 1, 2))
    assert not recorded.owned


@pytest.mark.fact("E6-10")
async def test_added_partitions_are_shared_between_members(stage: TopicStage) -> None:
    first, second = stage.recorded("first"), stage.recorded("second")
    async with stage.member(first), stage.member(second):
        await first.wait_for_count(2)
        await second.wait_for_count(2)
        stage.grow("orders", 10)
        await first.wait_for_count(5)
        await second.wait_for_count(5)
        assert first.owned | second.owned == stage.of("orders", *range(10))
    stage.check_owners()


async def test_a_recreated_topic_is_revoked_and_assigned(
    stage: TopicStage,
) -> None:
    stage.topic("more", 2)
    recorded = stage.recorded("it")
    async with stage.member(recorded, topics=["orders", "more"]):
        await recorded.wait_for_count(6)
        stage.delete("more")
        await recorded.wait_for_count(4)
        stage.topic("more", 1)
        await recorded.wait_for_count(5)
        assert recorded.owned == stage.of("orders", 0, 1, 2, 3) | stage.of("more", 0)


@pytest.mark.fact("E14-03", "E6-12", "E14-06a")
async def test_matching_topics_are_assigned_and_revoked(stage: TopicStage) -> None:
    for name in ("log-a", "log-b", "xlog-c"):
        stage.topic(name, 1)
    recorded = stage.recorded("it")
    pattern = stage.pattern("log-.*")
    async with stage.member(recorded, topics=["orders"], pattern=pattern) as member:
        await recorded.wait_for_count(6)
        logs = stage.of("log-a", 0) | stage.of("log-b", 0)
        assert recorded.owned == stage.of("orders", 0, 1, 2, 3) | logs
        stage.topic("log-c", 2)
        await recorded.wait_for_count(8)
        assert stage.of("log-c", 0, 1) < recorded.owned
        stage.delete("log-a")
        await recorded.wait_for_count(7)
        await member.subscribe(pattern=stage.pattern("(log-b|x.*)"))
        both = stage.of("log-b", 0) | stage.of("xlog-c", 0)
        await recorded.until(lambda: recorded.owned == both)
        await member.subscribe([f"orders{stage.suffix}"])
        await recorded.wait_for_count(4)
        assert recorded.owned == stage.of("orders", 0, 1, 2, 3)


async def test_members_with_one_regex_share_its_topics(
    stage: TopicStage,
) -> None:
    first, second = stage.recorded("first"), stage.recorded("second")
    pattern = stage.pattern("o.*s")
    async with stage.member(first, topics=[], pattern=pattern):
        await first.wait_for_count(4)
        async with stage.member(second, topics=[], pattern=pattern):
            await second.wait_for_count(2)
        await first.wait_for_count(4)
    stage.check_owners()


@pytest.mark.fact("E14-04")
async def test_an_invalid_regex_is_rejected(stage: TopicStage) -> None:
    with pytest.raises(ApiError) as caught:
        await stage.member(stage.recorded("it"), pattern="log-(").start()
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
