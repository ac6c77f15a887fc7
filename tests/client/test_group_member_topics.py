"""Topics come, grow and go under members of a group: end to end, over sockets.

With COTERIE_TEST_BOOTSTRAP=HOST:PORT it is another broker: Apache Kafka is the judge.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest

from coterie.coordinator.consumer import resolve
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.client.test_group_member_server import INTERVAL_MS, LIMIT_MS, Stage
from tests.server.harness import ThreadServer

pytestmark = pytest.mark.asyncio


class TopicStage(Stage):
    """A stage whose topics change."""

    def grow(self, name: str, partitions: int) -> None:
        topic = CreatePartitionsTopic(
            name=name + self.suffix, count=partitions, assignments=None
        )
        self.ask(
            CreatePartitionsRequest(
                topics=[topic], timeout_ms=LIMIT_MS, validate_only=False
            )
        )

    def delete(self, name: str) -> None:
        topic = DeleteTopicState(name=name + self.suffix)
        self.ask(DeleteTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))

    def pattern(self, text: str) -> str:
        return text + self.suffix


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[TopicStage]:
    if elsewhere := os.environ.get("COTERIE_TEST_BOOTSTRAP"):
        host, _, port = elsewhere.partition(":")
        yield TopicStage(host, int(port), f"-{uuid4().hex[:8]}")
        return
    monkeypatch.setattr(resolve, "MIN_INTERVAL_MS", 0)
    with ThreadServer(
        group_consumer_heartbeat_interval_ms=INTERVAL_MS,
        group_consumer_assignment_interval_ms=0,
    ) as server:
        yield TopicStage(*server.addresses[0])


@pytest.mark.fact("H-12", "E6-11")
async def test_a_topic_that_is_made_later_is_assigned(stage: TopicStage) -> None:
    diary = stage.diary("it")
    async with stage.member(diary, topics=["orders", "later"]):
        await diary.told("assigned", stage.of("orders", 0, 1, 2, 3))
        stage.topic("later", 3)
        await diary.told("assigned", stage.of("later", 0, 1, 2))
    assert not diary.held


@pytest.mark.fact("E6-10")
async def test_partitions_that_are_added_are_shared(stage: TopicStage) -> None:
    first, second = stage.diary("first"), stage.diary("second")
    async with stage.member(first), stage.member(second):
        await first.holds(2)
        await second.holds(2)
        stage.grow("orders", 10)
        await first.holds(5)
        await second.holds(5)
        assert first.held | second.held == stage.of("orders", *range(10))
    stage.check_owners()


@pytest.mark.fact("E15-07")
async def test_a_topic_that_is_made_anew_is_given_up_and_assigned(
    stage: TopicStage,
) -> None:
    stage.topic("more", 2)
    diary = stage.diary("it")
    async with stage.member(diary, topics=["orders", "more"]):
        await diary.holds(6)
        stage.delete("more")
        await diary.holds(4)
        stage.topic("more", 1)
        await diary.holds(5)
        assert diary.held == stage.of("orders", 0, 1, 2, 3) | stage.of("more", 0)


@pytest.mark.fact("E14-01", "E14-03", "E14-05", "E6-12", "E14-06", "E14-12")
async def test_topics_that_match_come_and_go(stage: TopicStage) -> None:
    for name in ("log-a", "log-b", "xlog-c"):
        stage.topic(name, 1)
    diary = stage.diary("it")
    pattern = stage.pattern("log-.*")
    async with stage.member(diary, topics=["orders"], pattern=pattern) as member:
        await diary.holds(6)
        logs = stage.of("log-a", 0) | stage.of("log-b", 0)
        assert diary.held == stage.of("orders", 0, 1, 2, 3) | logs
        stage.topic("log-c", 2)
        await diary.holds(8)
        assert stage.of("log-c", 0, 1) < diary.held
        stage.delete("log-a")
        await diary.holds(7)
        await member.subscribe(pattern=stage.pattern("(log-b|x.*)"))
        both = stage.of("log-b", 0) | stage.of("xlog-c", 0)
        await diary.until(lambda: diary.held == both)
        await member.subscribe([f"orders{stage.suffix}"])
        await diary.holds(4)
        assert diary.held == stage.of("orders", 0, 1, 2, 3)


@pytest.mark.fact("E14-10")
async def test_members_that_share_an_expression_share_its_topics(
    stage: TopicStage,
) -> None:
    first, second = stage.diary("first"), stage.diary("second")
    pattern = stage.pattern("o.*s")
    async with stage.member(first, topics=[], pattern=pattern):
        await first.holds(4)
        async with stage.member(second, topics=[], pattern=pattern):
            await second.holds(2)
        await first.holds(4)
    stage.check_owners()


@pytest.mark.fact("E14-04")
async def test_what_is_no_expression_is_refused(stage: TopicStage) -> None:
    with pytest.raises(ApiError) as caught:
        await stage.member(stage.diary("it"), pattern="log-(").start()
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
