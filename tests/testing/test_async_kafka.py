"""`AsyncKafka`: the helpers with await, while the event loop of the test goes on."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from aiokafka import AIOKafkaConsumer

from coterie.testing import AsyncGroup, AsyncKafka, Group, Kafka

NOT_AWAITED = {"call", "is_running", "server", "request", "log_offset", "partitions_of"}


@pytest.mark.asyncio
async def test_a_test_produces_consumes_and_waits_in_one_event_loop() -> None:
    async with AsyncKafka() as kafka:
        topic = await kafka.topic("orders", partitions=2)
        await kafka.produce(topic, ["a", "b", "c"])
        group = kafka.groups["billing"]
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            await group.wait_for(state="Stable", members=1)
            values = {(await consumer.getone()).value for _ in range(3)}
            await consumer.commit()
            await group.wait_for(lag=0)
        finally:
            await consumer.stop()
        assert values == {b"a", b"b", b"c"}
        assert [each.value for each in await kafka.records(topic, partition=1)] == [
            b"b"
        ]
        await group.wait_for(state="Empty")
        assert (await group.state, await group.members) == ("Empty", ())
        assert sum((await group.offsets).values()) == 3
        await group.seek({topic: "earliest"})
        await group.assert_lag(3)
        assert (await group.lag, sum((await group.lags).values())) == (3, 3)
        assert await kafka.groups.list() == ["billing"]
        assert "JoinGroup" in group.history()
    assert not kafka.is_running


@pytest.mark.asyncio
async def test_a_wait_can_be_cancelled_and_lets_the_loop_go_on() -> None:
    async with AsyncKafka() as kafka:
        waiting = asyncio.create_task(kafka.groups["billing"].wait_for(members=1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.asyncio
async def test_a_wait_that_times_out_reports_what_the_group_is() -> None:
    async with AsyncKafka() as kafka:
        with pytest.raises(AssertionError, match="state Stable, but it is Dead"):
            await kafka.groups["billing"].wait_for(state="Stable", timeout=0)


def test_a_running_server_is_used_from_several_event_loops(
    shared_kafka: Kafka,
) -> None:
    kafka = AsyncKafka(shared_kafka)
    names = [asyncio.run(kafka.topic()) for _ in range(2)]
    assert names[0] != names[1]
    assert kafka.sync is shared_kafka


@pytest.mark.parametrize(("sync", "other"), [(Kafka, AsyncKafka), (Group, AsyncGroup)])
def test_the_public_names_are_those_of_the_blocking_classes(
    sync: type, other: type
) -> None:
    def public(cls: type) -> set[str]:
        return {name for name, _ in inspect.getmembers(cls) if not name.startswith("_")}

    extra = NOT_AWAITED | {"attempts", "report"}
    assert public(sync) - extra <= public(other)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_coroutine_moves_the_clock() -> None:
    async with AsyncKafka() as kafka:
        await kafka.topic("orders")
        await kafka.produce("orders", ["a"])
        await kafka.clock.advance_async(days=8)
        assert await kafka.records("orders") == []
