"""kafka-python: the classic protocol and transactions of a client in pure Python."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.real_clients.compression import compressible
from tests.real_clients.confluent_admin import (
    committed_offsets,
    numbered_values,
    produce,
)
from tests.real_clients.kafka_python_members import (
    KafkaPythonMember,
    wait_until_assigned,
)
from tests.real_clients.member_process import MemberProcess
from tests.support.waiting import eventually

PARTITIONS = 4
ANSWER_S = 60
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


def read_partition(
    bootstrap: str, topic: str, count: int, **config: object
) -> list[bytes]:
    """Return the first `count` values of partition 0, read without a group."""
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
        eventually(enough, expected=f"{count} records")
    finally:
        consumer.close()
    return values


@pytest.mark.fact("G4-08")
@pytest.mark.parametrize(
    "codec", ["none", "gzip"]
)  # other codecs need additional libraries
def test_records_of_every_codec_of_the_client_are_read_as_produced(
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
def test_records_are_read_once_in_order_while_members_join_and_leave(
    bootstrap: str, group: str, topic: str, assignor: str
) -> None:
    strategy = {"partition_assignment_strategy": (ASSIGNORS[assignor],)}
    produce(bootstrap, topic, numbered_values(50))
    with KafkaPythonMember(bootstrap, group, topic, **strategy) as first:
        eventually(lambda: len(first.records) >= 60, expected="60 records")
        with KafkaPythonMember(bootstrap, group, topic, **strategy) as second:
            wait_until_assigned([first, second], PARTITIONS)
            first.leave()
            produce(bootstrap, topic, numbered_values(50))
            wait_until_assigned([second], PARTITIONS)
            eventually(
                lambda: len(first.records) + len(second.records) >= 400,
                expected="the rest",
            )
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
    strategy = {"partition_assignment_strategy": (RangePartitionAssignor,)}
    with MemberProcess(
        bootstrap, group, topic, partition_assignment_strategy="range"
    ) as crashing:
        crashing.wait_for_partitions(PARTITIONS)
        with KafkaPythonMember(bootstrap, group, topic, **strategy) as survivor:
            eventually(lambda: len(survivor.owned) == 2, expected="half of it")
            crashing.kill()
            wait_until_assigned([survivor], PARTITIONS)
            eventually(
                lambda: len(set(survivor.records)) == 20 * PARTITIONS,
                expected="every record",
            )


def test_a_returning_static_member_keeps_its_partitions(
    bootstrap: str, group: str, topic: str
) -> None:
    with KafkaPythonMember(bootstrap, group, topic, group_instance_id="stays") as stays:
        with KafkaPythonMember(
            bootstrap, group, topic, group_instance_id="back"
        ) as gone:
            wait_until_assigned([stays, gone], PARTITIONS)
            kept, rebalances = gone.owned, stays.rebalances
        with KafkaPythonMember(
            bootstrap, group, topic, group_instance_id="back"
        ) as back:
            eventually(lambda: back.owned == kept, expected="the same partitions")
            assert stays.rebalances == rebalances


def test_a_transaction_commits_records_and_offsets_atomically(
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


def test_offsets_are_listed_by_timestamp_earliest_and_latest(
    bootstrap: str, topic: str
) -> None:
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
