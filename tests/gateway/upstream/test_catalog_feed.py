"""The copy of upstream's topics, from scripted brokers that agree or do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import pytest_asyncio

from coterie.client.cluster import Cluster
from coterie.errors import ApiError, ClientError, ConnectionLost, CoterieError
from coterie.gateway.upstream import catalog_feed
from coterie.gateway.upstream.catalog_feed import CatalogFeed
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.client.scripted_broker import HANG_UP, OPTIONS, ScriptedBroker

from .read_model import ReadModel

pytestmark = pytest.mark.asyncio

CLUSTER_ID = "upstream"
OLD, NEW = b"old-id".ljust(16), b"new-id".ljust(16)


@dataclass(frozen=True)
class T:
    """A topic as a broker has it; `replicas` are those of every partition."""

    partitions: int = 1
    topic_id: bytes = OLD
    error: ErrorCode = ErrorCode.NONE
    replicas: tuple[int, ...] = (1, 2)
    is_offline: bool = False

    def describe(self, name: str) -> m.MetadataResponseTopic:
        listed = 0 if self.error else self.partitions
        return m.MetadataResponseTopic(
            error_code=self.error,
            name=name,
            topic_id=self.topic_id,
            partitions=[
                m.MetadataResponsePartition(
                    error_code=ErrorCode.LEADER_NOT_AVAILABLE * self.is_offline,
                    partition_index=index,
                    leader_id=-1 if self.is_offline else 1,
                    replica_nodes=list(self.replicas),
                )
                for index in range(listed)
            ],
        )


@dataclass
class View:
    """The metadata of one broker."""

    topics: dict[str, T] = field(default_factory=dict)


class World:
    """An upstream of two brokers, each with a view of its own, and a feed from it.

    Requests for all topics go to the first broker.
    """

    def __init__(self, *brokers: ScriptedBroker) -> None:
        self.brokers = {broker.node_id: broker for broker in brokers}
        self.views = {node_id: View() for node_id in self.brokers}
        self.racks: dict[int, str | None] = {}
        self.live = set(self.brokers)
        self.error = ErrorCode.NONE
        self.cluster_id = CLUSTER_ID
        for broker in brokers:
            broker.answers[ApiKey.METADATA] = self._responder(broker.node_id)
        self.cluster = Cluster(brokers[0].bootstrap, OPTIONS)
        self.model = ReadModel()
        self.feed = CatalogFeed(self.cluster, self.model.data, cluster_id=CLUSTER_ID)

    def _responder(self, node_id: int) -> Any:
        return lambda request: self._respond(self.views[node_id], request)

    def _respond(self, view: View, request: m.MetadataRequest) -> Any:
        topics = view.topics
        if request.topics is None:
            listed = dict(topics)
        else:
            unknown = T(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            names = [topic.name for topic in request.topics]
            listed = {name: topics.get(name, unknown) for name in names if name}
        # A topic without authorization is not among all topics.
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if request.topics is None:
            listed = {n: t for n, t in listed.items() if t.error is not hidden}
        return m.MetadataResponse(
            error_code=self.error,
            cluster_id=self.cluster_id,
            brokers=[
                m.MetadataResponseBroker(
                    node_id=node_id,
                    host="127.0.0.1",
                    port=self.brokers[node_id].port,
                    rack=self.racks.get(node_id),
                )
                for node_id in sorted(self.live)
            ],
            topics=[topic.describe(name) for name, topic in listed.items()],
        )

    async def poll(self, *views: dict[str, T]) -> list[str]:
        """Poll with these views of the brokers; one for all, or one for each. Return
        the events."""
        for node_id, view in self.views.items():
            view.topics = views[min(node_id, len(views)) - 1]
        await self.feed.poll()
        return self.model.take_events()


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        brokers = [
            await stack.enter_async_context(ScriptedBroker(node_id))
            for node_id in (1, 2)
        ]
        world = World(*brokers)
        yield world
        await world.feed.close()
        await world.cluster.close()


@contextmanager
def raises(kind: type[CoterieError], words: str) -> Iterator[None]:
    with pytest.raises(kind, match=words):
        yield


async def test_topics_are_copied_with_their_ids(world: World) -> None:
    assert await world.poll({"a": T(3), "b": T(1, NEW)}) == ["a created", "b created"]
    assert world.model.counts() == {"a": 3, "b": 1}
    assert world.model.catalog.topic_id("a") == OLD
    assert world.model.catalog.topic_name(NEW) == "b"


async def test_new_partitions_change_a_topic(world: World) -> None:
    await world.poll({"a": T(3)})
    assert await world.poll({"a": T(5)}) == ["a changed"]
    assert world.model.counts() == {"a": 5}


async def test_equal_bytes_are_not_decoded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.poll({"a": T(3)})
    monkeypatch.setattr(catalog_feed, "_decode", None)
    assert await world.poll({"a": T(3)}) == []


async def test_offline_partitions_stay(world: World) -> None:
    await world.poll({"a": T(3)})
    assert await world.poll({"a": T(3, is_offline=True)}) == []
    assert world.model.counts() == {"a": 3}


# Deletions.


async def test_a_topic_that_no_broker_has_is_deleted(world: World) -> None:
    await world.poll({"a": T(), "b": T(1, NEW)})
    assert await world.poll({"b": T(1, NEW)}) == ["a deleted"]


async def test_a_broker_that_is_out_of_date_deletes_nothing(world: World) -> None:
    everything = {"a": T()}
    await world.poll(everything)
    assert await world.poll({}, everything) == []
    assert world.model.counts() == {"a": 1}
    assert await world.poll({}, {}) == ["a deleted"]


async def test_a_recreated_topic_is_deleted_and_created(world: World) -> None:
    await world.poll({"a": T(3)})
    assert await world.poll({"a": T(1, NEW)}) == ["a created", "a deleted"]
    assert world.model.catalog.topic_id("a") == NEW
    assert world.model.counts() == {"a": 1}


async def test_a_broker_that_has_the_earlier_topic_changes_nothing(
    world: World,
) -> None:
    now = {"a": T(1, NEW)}
    await world.poll(now)
    assert await world.poll({"a": T(1, OLD)}, now) == []
    assert world.model.catalog.topic_id("a") == NEW


async def test_fewer_partitions_are_an_older_response(world: World) -> None:
    await world.poll({"a": T(3)})
    assert await world.poll({"a": T(2)}) == []
    assert world.model.counts() == {"a": 3}


async def test_a_topic_that_may_not_be_described_is_not_deleted(world: World) -> None:
    await world.poll({"a": T()})
    hidden = T(error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert await world.poll({"a": hidden}) == []


async def test_an_error_of_a_topic_changes_nothing(world: World) -> None:
    await world.poll({"a": T()})
    failing = T(error=ErrorCode.LEADER_NOT_AVAILABLE)
    assert await world.poll({"a": failing, "b": failing}) == []


async def test_nothing_is_deleted_while_a_broker_does_not_answer(world: World) -> None:
    await world.poll({"a": T()})
    answer = world.brokers[2].answers[ApiKey.METADATA]
    world.brokers[2].answers[ApiKey.METADATA] = lambda _: HANG_UP
    with raises(ConnectionLost, "closed"):
        await world.poll({"b": T(1, NEW)})
    assert world.model.take_events() == ["b created"]
    world.brokers[2].answers[ApiKey.METADATA] = answer
    # The bytes are those of the failed poll, which has to be repeated.
    assert await world.poll({"b": T(1, NEW)}) == ["a deleted"]


async def test_a_response_without_brokers_deletes_nothing(world: World) -> None:
    await world.poll({"a": T()})
    world.live = set()
    with raises(ConnectionLost, "no brokers"):
        await world.poll({})
    assert world.model.counts() == {"a": 1}


async def test_an_error_of_the_response_deletes_nothing(world: World) -> None:
    await world.poll({"a": T()})
    world.error = ErrorCode.REBOOTSTRAP_REQUIRED
    with raises(ApiError, "Metadata"):
        await world.poll({})
    assert world.model.counts() == {"a": 1}


async def test_another_cluster_is_refused(world: World) -> None:
    await world.poll({"a": T()})
    world.cluster_id = "another"
    with raises(ClientError, "upstream is cluster another now"):
        await world.poll({})
    assert world.model.counts() == {"a": 1}


# Racks.


async def test_partitions_have_the_racks_of_their_replicas(world: World) -> None:
    world.racks = {1: "x", 2: "y"}
    await world.poll({"a": T(2), "b": T(1, NEW, replicas=(1,))})
    assert world.model.catalog.partition_racks("a") == ({"x", "y"}, {"x", "y"})
    assert world.model.catalog.partition_racks("b") == ({"x"},)


async def test_a_broker_that_is_down_keeps_its_rack(world: World) -> None:
    world.racks = {1: "x", 2: "y"}
    await world.poll({"a": T()})
    world.live = {1}
    assert await world.poll({"a": T()}) == []
    world.live = {1, 2}
    world.racks = {1: "x", 2: "z"}
    assert await world.poll({"a": T()}) == ["a changed"]
    assert world.model.catalog.partition_racks("a") == ({"x", "z"},)


async def test_without_racks_partitions_have_none(world: World) -> None:
    await world.poll({"a": T()})
    assert world.model.catalog.partition_racks("a") == ()


# In the background.


async def test_a_lookup_of_an_unknown_topic_polls_at_once(world: World) -> None:
    await world.feed.close()
    hour_ms = 3_600_000
    world.feed = CatalogFeed(
        world.cluster, world.model.data, cluster_id=CLUSTER_ID, poll_ms=hour_ms
    )
    await world.feed.start()
    began_s = asyncio.get_running_loop().time()
    world.views[1].topics = {"a": T()}
    assert world.model.catalog.topic_id("a") is None
    broker = world.brokers[1]
    asked = len(broker.asked)
    await broker.until(lambda: len(broker.asked) > asked)
    # The clock of the loop goes to the next timer when nothing else happens.
    assert asyncio.get_running_loop().time() < began_s + hour_ms / 1000


async def test_polls_go_on_after_a_failure(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.feed.start()
    answer = world.brokers[1].answers[ApiKey.METADATA]
    left = 3

    def fail(request: m.MetadataRequest) -> Any:
        nonlocal left
        left -= 1
        return HANG_UP if left > 0 else answer(request)

    world.brokers[1].answers[ApiKey.METADATA] = fail
    world.views[1].topics = {"a": T()}
    await world.brokers[1].until(lambda: left < 0)
    assert world.model.counts() == {"a": 1}
    assert caplog.text.count("may be out of date") == 1


async def test_a_replaced_topic_of_a_name_that_collides_is_no_problem(
    world: World,
) -> None:
    await world.poll({"a.b": T(), "a_b": T(1, NEW)})
    assert await world.poll({}) == ["a.b deleted", "a_b deleted"]
    assert await world.poll({"a.b": replace(T(), partitions=2)}) == ["a.b created"]
