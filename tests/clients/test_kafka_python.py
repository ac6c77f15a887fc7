"""kafka-python: the classic protocol and transactions of a client in pure Python."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from .admin import committed_offsets, produce
from .codecs import compressible
from .doomed import Doomed
from .waiting import eventually
from .workers import Worker, wait_until_shared

PARTITIONS = 4
ANSWER_S = 15
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def numbered(count: int) -> dict[int, list[bytes]]:
    """`count` values for each partition."""
    return {p: [b"%d-%d" % (p, i) for i in range(count)] for p in range(PARTITIONS)}


def read_partition(
    bootstrap: str, topic: str, count: int, **config: object
) -> list[bytes]:
    """The first `count` values of partition 0, read without a group."""
    values: list[bytes] = []
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, metrics_enabled=False, **config
    )
    where = TopicPartition(topic, 0)
    consumer.assign([where])
    consumer.seek(where, 0)

    def enough() -> bool:
        for records in consumer.poll(timeout_ms=200).values():
            values.extend(record.value for record in records)
        return len(values) >= count

    try:
        eventually(enough, wanted=f"{count} records")
    finally:
        consumer.close()
    return values


@pytest.mark.fact("G4-08")
@pytest.mark.parametrize("codec", ["none", "gzip"])  # the rest needs more libraries
def test_every_codec_it_has_comes_back_as_it_went(
    bootstrap: str, topic: str, codec: str
) -> None:
    values = compressible(200)
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
    )
    acknowledged = [producer.send(topic, value, partition=0) for value in values]
    offsets = [future.get(ANSWER_S).offset for future in acknowledged]
    producer.close(ANSWER_S)
    assert offsets == list(range(200))
    assert read_partition(bootstrap, topic, 200) == values


@pytest.mark.fact("G4-08")
@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_records_are_read_once_and_in_order_while_members_come_and_go(
    bootstrap: str, group: str, topic: str, assignor: str
) -> None:
    strategy = {"partition_assignment_strategy": (ASSIGNORS[assignor],)}
    produce(bootstrap, topic, numbered(50))
    with Worker(bootstrap, group, topic, **strategy) as first:
        eventually(lambda: len(first.seen) >= 60, wanted="60 records")
        with Worker(bootstrap, group, topic, **strategy) as second:
            wait_until_shared([first, second], PARTITIONS)
            first.leave()
            produce(bootstrap, topic, numbered(50))
            wait_until_shared([second], PARTITIONS)
            eventually(
                lambda: len(first.seen) + len(second.seen) >= 400, wanted="the rest"
            )
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
    strategy = {"partition_assignment_strategy": (RangePartitionAssignor,)}
    with Doomed(
        bootstrap, group, topic, partition_assignment_strategy="range"
    ) as doomed:
        doomed.wait_until_it_owns(PARTITIONS)
        with Worker(bootstrap, group, topic, **strategy) as survivor:
            eventually(lambda: len(survivor.owned) == 2, wanted="half of it")
            doomed.kill()
            wait_until_shared([survivor], PARTITIONS)
            eventually(
                lambda: len(set(survivor.seen)) == 20 * PARTITIONS,
                wanted="every record",
            )


def test_a_static_member_that_comes_back_keeps_its_partitions(
    bootstrap: str, group: str, topic: str
) -> None:
    with Worker(bootstrap, group, topic, group_instance_id="stays") as stays:
        with Worker(bootstrap, group, topic, group_instance_id="back") as gone:
            wait_until_shared([stays, gone], PARTITIONS)
            kept, rebalances = gone.owned, stays.rebalances
        with Worker(bootstrap, group, topic, group_instance_id="back") as back:
            eventually(lambda: back.owned == kept, wanted="the same partitions")
            assert stays.rebalances == rebalances


def test_a_transaction_moves_records_and_offsets_together(
    bootstrap: str, group: str, topic: str, name: str
) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    producer.init_transactions()
    ends = (producer.abort_transaction, producer.commit_transaction)
    for offset, end in enumerate(ends, start=7):
        producer.begin_transaction()
        producer.send(topic, b"%d" % offset, partition=0)
        where = TopicPartition(topic, 3)
        producer.send_offsets_to_transaction(
            {where: OffsetAndMetadata(offset, "", -1)}, group
        )
        end()
    producer.close(ANSWER_S)
    seen = read_partition(bootstrap, topic, 1, isolation_level="read_committed")
    assert seen == [b"8"]
    assert committed_offsets(bootstrap, group) == {(topic, 3): 8}


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for i in range(5):
        sent = producer.send(
            topic, b"%d" % i, partition=0, timestamp_ms=1_700_000_000_000 + i
        )
        sent.get(ANSWER_S)
    producer.close(ANSWER_S)
    where = TopicPartition(topic, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, metrics_enabled=False)
    found = consumer.offsets_for_times({where: 1_700_000_000_003})
    assert found[where].offset == 3
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 5}
    consumer.close()
