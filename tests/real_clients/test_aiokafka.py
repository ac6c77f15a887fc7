"""aiokafka: the client with the oldest protocol versions in use.

Its group requests are not flexible: it sends JoinGroup v5, SyncGroup v3, OffsetCommit
v3 and others.
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

from tests.real_clients.aiokafka_members import (
    AiokafkaMember,
    reading,
    wait_until,
    wait_until_all_assigned,
)
from tests.real_clients.compression import CODECS, compressible
from tests.real_clients.confluent_admin import (
    alter_offsets,
    committed_offsets,
    numbered_values,
    produce,
)
from tests.real_clients.member_process import MemberProcess
from tests.support.waiting import DEADLINE_S, PAUSE_S

PARTITIONS = 4
TEST_S = 300
ASSIGNORS = {
    "range": {},
    "roundrobin": {"partition_assignment_strategy": (RoundRobinPartitionAssignor,)},
    "sticky": {"partition_assignment_strategy": (StickyPartitionAssignor,)},
}


def run(scenario: Coroutine[None, None, None]) -> None:
    """Run a coroutine in a new event loop, with a deadline."""
    asyncio.run(asyncio.wait_for(scenario, TEST_S))


@asynccontextmanager
async def aiokafka_admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Start aiokafka's admin client, and close it."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def read_partition(
    bootstrap: str, topic: str, count: int, level: str = "read_uncommitted"
) -> list[bytes]:
    """Return the first `count` values of partition 0, read without a group."""
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
    """Wait until the metadata has that many partitions."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            (found,) = await admin.describe_topics([topic])
            if len(found["partitions"]) == count:
                return
            await asyncio.sleep(PAUSE_S)


@pytest.mark.fact("G4-09")
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_as_produced(
    bootstrap: str, topic: str, codec: str
) -> None:
    values = compressible(200)

    async def scenario() -> None:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20
        )
        async with producer:
            sent = [await producer.send(topic, v, partition=0) for v in values]
            offsets = [(await acknowledged).offset for acknowledged in sent]
        assert offsets == list(range(200))
        assert await read_partition(bootstrap, topic, 200) == values

    run(scenario())


@pytest.mark.fact("G4-09", "G4-12")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_records_are_read_once_in_order_while_members_join_and_leave(
    bootstrap: str, group: str, topic: str, assignor: str
) -> None:
    produce(bootstrap, topic, numbered_values(50))
    first, second = (
        AiokafkaMember(bootstrap, group, topic, **ASSIGNORS[assignor]) for _ in range(2)
    )

    async def scenario() -> None:
        async with reading(second):
            async with reading(first):
                # The first to join may read all of them.
                await wait_until(
                    lambda: len(first.records) + len(second.records) >= 20,
                    expected="20 records",
                )
                await wait_until_all_assigned([first, second], PARTITIONS)
            await asyncio.to_thread(produce, bootstrap, topic, numbered_values(50))
            await wait_until_all_assigned([second], PARTITIONS)
            await wait_until(
                lambda: len(first.records) + len(second.records) >= 400,
                expected="the rest",
            )

    run(scenario())
    read = [(p, offset) for p, offset, _ in first.records + second.records]
    assert sorted(read) == [(p, i) for p in range(PARTITIONS) for i in range(100)]
    assert committed_offsets(bootstrap, group) == {
        (topic, p): 100 for p in range(PARTITIONS)
    }


@pytest.mark.slow
def test_the_partitions_of_a_crashed_member_are_reassigned(
    bootstrap: str, group: str, topic: str
) -> None:
    produce(bootstrap, topic, numbered_values(20))
    survivor = AiokafkaMember(bootstrap, group, topic)

    async def scenario(crashing: MemberProcess) -> None:
        async with reading(survivor):
            await wait_until(lambda: len(survivor.owned) == 2, expected="half of it")
            crashing.kill()
            await wait_until_all_assigned([survivor], PARTITIONS)
            await wait_until(
                lambda: len(set(survivor.records)) == 20 * PARTITIONS,
                expected="every record",
            )

    with MemberProcess(
        bootstrap, group, topic, partition_assignment_strategy="range"
    ) as crashing:
        crashing.wait_for_partitions(PARTITIONS)
        run(scenario(crashing))


def test_a_returning_static_member_causes_no_rebalance(
    bootstrap: str, group: str, topic: str
) -> None:
    stays = AiokafkaMember(bootstrap, group, topic, group_instance_id="stays")
    gone = AiokafkaMember(bootstrap, group, topic, group_instance_id="back")
    back = AiokafkaMember(bootstrap, group, topic, group_instance_id="back")

    async def scenario() -> None:
        async with reading(stays):
            async with reading(gone):
                await wait_until_all_assigned([stays, gone], PARTITIONS)
                kept, rebalances = gone.owned, stays.rebalances
            async with reading(back):
                await wait_until(
                    lambda: back.owned == kept, expected="the same partitions"
                )
                assert stays.rebalances == rebalances

    run(scenario())


@pytest.mark.fact("G4-09")
def test_a_transaction_commits_records_and_offsets_atomically(
    bootstrap: str, group: str, topic: str, name: str
) -> None:
    async def scenario() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=name
        ) as producer:
            for offset, ends in ((7, "abort"), (8, "commit")):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % offset, partition=0)
                where = TopicPartition(topic, 3)
                await producer.send_offsets_to_transaction({where: offset}, group)
                await getattr(producer, f"{ends}_transaction")()
        values = await read_partition(bootstrap, topic, 1, "read_committed")
        assert values == [b"8"]

    run(scenario())
    assert committed_offsets(bootstrap, group) == {(topic, 3): 8}


def test_a_fenced_producer_gets_an_error(bootstrap: str, topic: str, name: str) -> None:
    async def scenario() -> None:
        config = {"bootstrap_servers": bootstrap, "transactional_id": name}
        async with AIOKafkaProducer(**config) as first:
            await first.begin_transaction()
            await first.send_and_wait(topic, b"lost", partition=0)
            async with AIOKafkaProducer(**config) as second, second.transaction():
                await second.send_and_wait(topic, b"kept", partition=0)
            with pytest.raises(ProducerFenced):
                await first.commit_transaction()
        values = await read_partition(bootstrap, topic, 1, "read_committed")
        assert values == [b"kept"]

    run(scenario())


@pytest.mark.fact("A-12", "A-20", "A-40")
def test_offsets_of_a_group_are_listed_all_or_by_partition(
    bootstrap: str, group: str, topic: str
) -> None:
    alter_offsets(bootstrap, group, {(topic, 0): 5, (topic, 3): 6})

    async def scenario() -> None:
        async with aiokafka_admin(bootstrap) as admin:
            found = await admin.list_consumer_group_offsets(group)
            offsets = {(p.topic, p.partition): o.offset for p, o in found.items()}
            assert offsets == {(topic, 0): 5, (topic, 3): 6}
            where = TopicPartition(topic, 1)
            some = await admin.list_consumer_group_offsets(group, partitions=[where])
            assert some[where].offset == -1

    run(scenario())


@pytest.mark.fact("H-118c", "C-20a", "C-24")
def test_groups_are_listed_and_described(
    bootstrap: str, group: str, topic: str
) -> None:
    member = AiokafkaMember(bootstrap, group, topic)

    async def scenario() -> None:
        async with reading(member), aiokafka_admin(bootstrap) as admin:
            await wait_until_all_assigned([member], PARTITIONS)
            assert (group, "consumer") in await admin.list_consumer_groups()
            (answer,) = await admin.describe_consumer_groups([group])
            (found,) = answer.to_object()["groups"]
            assert (found["error_code"], found["state"]) == (0, "Stable")
            assert (found["protocol_type"], found["protocol"]) == ("consumer", "range")
            assert found["members"][0]["client_host"].startswith("/")
            (answer,) = await admin.describe_consumer_groups([f"{group}-none"])
            (unknown,) = answer.to_object()["groups"]
            assert (unknown["error_code"], unknown["state"]) == (0, "Dead")

    run(scenario())


def test_topics_are_created_extended_described_and_deleted(
    bootstrap: str, name: str
) -> None:
    async def scenario() -> None:
        async with aiokafka_admin(bootstrap) as admin:
            await admin.create_topics([NewTopic(name, 2, 1)])
            await admin.create_partitions({name: NewPartitions(3)})
            await eventually_partitions(admin, name, 3)
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
            assert (await admin.describe_cluster())["brokers"]

    run(scenario())
