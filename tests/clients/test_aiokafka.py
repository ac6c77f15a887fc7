"""aiokafka: the oldest protocol versions that a living client still speaks.

It never sends a flexible group request, so JoinGroup 5, SyncGroup 3, OffsetCommit 3 and
their like are judged here by somebody who really uses them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor,
)
from aiokafka.errors import ProducerFenced

from .admin import alter_offsets, committed_offsets, produce
from .aio import AioMember, joined, shared, soon
from .codecs import CODECS, compressible
from .doomed import Doomed
from .waiting import DEADLINE_S, PAUSE_S

PARTITIONS = 4
TEST_S = 60
ASSIGNORS = {
    "range": {},
    "roundrobin": {"partition_assignment_strategy": (RoundRobinPartitionAssignor,)},
    "sticky": {"partition_assignment_strategy": (StickyPartitionAssignor,)},
}


def run(story: Coroutine[None, None, None]) -> None:
    """Run one story in a loop of its own, bounded."""
    asyncio.run(asyncio.wait_for(story, TEST_S))


def numbered(count: int) -> dict[int, list[bytes]]:
    """`count` values for each partition."""
    return {p: [b"%d-%d" % (p, i) for i in range(count)] for p in range(PARTITIONS)}


@asynccontextmanager
async def admin_of(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """aiokafka's admin client, started and closed."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def read_partition(
    bootstrap: str, topic: str, count: int, level: str = "read_uncommitted"
) -> list[bytes]:
    """The first `count` values of partition 0, read without a group."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level=level)
    await consumer.start()
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        await consumer.seek_to_beginning(where)
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


async def eventually_partitions(
    admin: AIOKafkaAdminClient, topic: str, count: int
) -> None:
    """Ask until the topic has so many; a cluster may tell everybody a little later."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            (found,) = await admin.describe_topics([topic])
            if len(found["partitions"]) == count:
                return
            await asyncio.sleep(PAUSE_S)


@pytest.mark.fact("G4-09")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_comes_back_as_it_went(
    bootstrap: str, topic: str, codec: str
) -> None:
    values = compressible(200)

    async def story() -> None:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20
        )
        async with producer:
            sent = [await producer.send(topic, v, partition=0) for v in values]
            offsets = [(await acknowledged).offset for acknowledged in sent]
        assert offsets == list(range(200))
        assert await read_partition(bootstrap, topic, 200) == values

    run(story())


@pytest.mark.fact("G4-09", "G4-12")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_records_are_read_once_and_in_order_while_members_come_and_go(
    bootstrap: str, group: str, topic: str, assignor: str
) -> None:
    produce(bootstrap, topic, numbered(50))
    first, second = (
        AioMember(bootstrap, group, topic, **ASSIGNORS[assignor]) for _ in range(2)
    )

    async def story() -> None:
        async with joined(second):
            async with joined(first):
                await soon(lambda: len(first.seen) >= 20, wanted="20 records")
                await shared([first, second], PARTITIONS)
            await asyncio.to_thread(produce, bootstrap, topic, numbered(50))
            await shared([second], PARTITIONS)
            await soon(
                lambda: len(first.seen) + len(second.seen) >= 400, wanted="the rest"
            )

    run(story())
    read = [(p, offset) for p, offset, _ in first.seen + second.seen]
    assert sorted(read) == [(p, i) for p in range(PARTITIONS) for i in range(100)]
    assert committed_offsets(bootstrap, group) == {
        (topic, p): 100 for p in range(PARTITIONS)
    }


@pytest.mark.slow
def test_the_partitions_of_a_crashed_member_are_taken_over(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered(20))
    survivor = AioMember(bootstrap, group, topic)

    async def story(doomed: Doomed) -> None:
        async with joined(survivor):
            await soon(lambda: len(survivor.owned) == 2, wanted="half of it")
            doomed.kill()
            await shared([survivor], PARTITIONS)
            await soon(
                lambda: len(set(survivor.seen)) == 20 * PARTITIONS,
                wanted="every record",
            )

    with Doomed(
        bootstrap, group, topic, partition_assignment_strategy="range"
    ) as doomed:
        doomed.wait_until_it_owns(PARTITIONS)
        run(story(doomed))


def test_a_static_member_that_comes_back_disturbs_nobody(
    bootstrap: str, group: str, topic: str
) -> None:
    stays = AioMember(bootstrap, group, topic, group_instance_id="stays")
    gone = AioMember(bootstrap, group, topic, group_instance_id="back")
    back = AioMember(bootstrap, group, topic, group_instance_id="back")

    async def story() -> None:
        async with joined(stays):
            async with joined(gone):
                await shared([stays, gone], PARTITIONS)
                kept, rebalances = gone.owned, stays.rebalances
            async with joined(back):
                await soon(lambda: back.owned == kept, wanted="the same partitions")
                assert stays.rebalances == rebalances

    run(story())


@pytest.mark.fact("G4-09")
def test_a_transaction_moves_records_and_offsets_together(
    bootstrap: str, group: str, topic: str, name: str
) -> None:
    async def story() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name
        ) as producer:
            for offset, ends in ((7, "abort"), (8, "commit")):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % offset, partition=0)
                where = TopicPartition(topic, 3)
                await producer.send_offsets_to_transaction({where: offset}, group)
                await getattr(producer, f"{ends}_transaction")()
        seen = await read_partition(bootstrap, topic, 1, "read_committed")
        assert seen == [b"8"]

    run(story())
    assert committed_offsets(bootstrap, group) == {(topic, 3): 8}


def test_a_fenced_producer_is_told(bootstrap: str, topic: str, name: str) -> None:
    async def story() -> None:
        config = {"bootstrap_servers": bootstrap, "transactional_id": name}
        async with AIOKafkaProducer(**config) as first:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"lost", partition=0)
            async with AIOKafkaProducer(**config) as second, second.transaction():
                await second.send_and_wait(topic, b"kept", partition=0)
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        seen = await read_partition(bootstrap, topic, 1, "read_committed")
        assert seen == [b"kept"]

    run(story())


@pytest.mark.fact("A-12", "A-20", "A-40")
def test_offsets_of_a_group_are_listed_all_or_by_partition(
    bootstrap: str, group: str, topic: str
) -> None:
    alter_offsets(bootstrap, group, {(topic, 0): 5, (topic, 3): 6})

    async def story() -> None:
        async with admin_of(bootstrap) as admin:
            found = await admin.list_consumer_group_offsets(group)
            offsets = {(p.topic, p.partition): o.offset for p, o in found.items()}
            assert offsets == {(topic, 0): 5, (topic, 3): 6}
            where = TopicPartition(topic, 1)
            some = await admin.list_consumer_group_offsets(group, partitions=[where])
            assert some[where].offset == -1

    run(story())


@pytest.mark.fact("C-20", "C-24", "H-118")
def test_groups_are_listed_and_described(
    bootstrap: str, group: str, topic: str
) -> None:
    member = AioMember(bootstrap, group, topic)

    async def story() -> None:
        async with joined(member), admin_of(bootstrap) as admin:
            await shared([member], PARTITIONS)
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            (found,) = answer.to_object()["groups"]
            assert (found["error_code"], found["state"]) == (0, "Stable")
            assert (found["protocol_type"], found["protocol"]) == ("consumer", "range")
            assert found["members"][0]["client_host"].startswith("/")
            (answer,) = await admin.describe_consumer_groups([f"{group}-none"])
            (unknown,) = answer.to_object()["groups"]
            assert (unknown["error_code"], unknown["state"]) == (0, "Dead")

    run(story())


def test_topics_are_created_grown_described_and_deleted(
    bootstrap: str, name: str
) -> None:
    async def story() -> None:
        async with admin_of(bootstrap) as admin:
            await admin.create_topics([NewTopic(name, 2, 1)])
            await admin.create_partitions({name: NewPartitions(3)})
            await eventually_partitions(admin, name, 3)
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
            assert (await admin.describe_cluster())["brokers"]

    run(story())
