"""OffsetFetch for one group: null and empty topic lists, unknown groups, topic ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.offsets.committed import (
    CommittedOffset,
    pack,
    unpack,
)
from coterie.broker.coordinator.offsets.fetch import FetchOffsets
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import stable_group
from tests.broker.coordinator.shard_driver import WEEK_MS, ShardDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


@pytest.fixture
def driver() -> ShardDriver:
    driver = ShardDriver()
    driver.commit(
        {
            T0: {
                "committed_offset": 5,
                "committed_leader_epoch": 3,
                "committed_metadata": "so far",
            },
            T1: 6,
            U0: 7,
        }
    )
    return driver


@pytest.mark.fact("A-20")
def test_fetching_null_topics_returns_all_partitions_with_an_offset(
    driver: ShardDriver,
) -> None:
    assert driver.offsets(None) == {T0: 5, T1: 6, U0: 7}


@pytest.mark.fact("A-21", "A-22")
def test_fetching_an_empty_topic_list_returns_no_partitions(
    driver: ShardDriver,
) -> None:
    answer = driver.fetch({})
    assert answer.topics == []
    assert answer.error_code == 0


@pytest.mark.fact("A-22", "A-30", "A-32")
def test_a_response_with_a_group_error_has_no_partitions(driver: ShardDriver) -> None:
    request = FetchOffsets(m.OffsetFetchRequestGroup(group_id="g", topics=[]))
    context = driver._context(1, 9, "", "")
    refusal = driver.shard.refuse(request, context, ErrorCode.NOT_COORDINATOR)
    assert refusal == m.OffsetFetchResponseGroup(group_id="g", error_code=16)


def test_a_fetch_returns_offset_leader_epoch_and_metadata(driver: ShardDriver) -> None:
    [topic] = driver.fetch({"t": [0]}).topics
    [partition] = topic.partitions
    assert (topic.name, partition.partition_index) == T0
    assert (partition.committed_offset, partition.committed_leader_epoch) == (5, 3)
    assert (partition.metadata, partition.error_code) == ("so far", 0)


@pytest.mark.fact("A-43a")
def test_offsets_of_the_empty_group_id_are_fetched(driver: ShardDriver) -> None:
    answer = driver.fetch(None, group_id="")
    assert (answer.topics, answer.error_code) == ([], 0)


@pytest.mark.fact("A-46a")
@pytest.mark.parametrize(("member_id", "epoch"), [("", 0), ("nobody", 9), (None, 3)])
def test_fetch_from_a_classic_group_ignores_the_member(
    driver: ShardDriver, member_id: str | None, epoch: int
) -> None:
    stable_group(driver, 1)
    assert driver.offsets(None, member_id=member_id, member_epoch=epoch)[T0] == 5


@pytest.mark.fact("A-52a")
def test_a_deleted_offset_is_omitted_or_minus_one(driver: ShardDriver) -> None:
    driver.delete_offsets({"t": [0]})
    assert driver.offsets(None) == {T1: 6, U0: 7}
    assert driver.offsets({"t": [0]}) == {T0: -1}


@pytest.mark.fact("A-52b")
def test_an_expired_offset_is_omitted_or_minus_one(driver: ShardDriver) -> None:
    driver.sweep(WEEK_MS - 1)
    driver.commit({T1: 8})
    driver.sweep(1)
    assert driver.offsets(None) == {T1: 8}
    assert driver.offsets({"t": [0, 1]}) == {T0: -1, T1: 8}


@pytest.mark.fact("A-51")
def test_a_repeated_partition_gets_a_repeated_offset(driver: ShardDriver) -> None:
    [topic] = driver.fetch({"t": [0, 0]}).topics
    assert [each.committed_offset for each in topic.partitions] == [5, 5]


@pytest.mark.fact("A-14g")
def test_version_10_returns_topics_by_id(driver: ShardDriver) -> None:
    [topic] = driver.fetch({"t": [0]}, version=10).topics
    assert topic.topic_id == b"t".ljust(16, b"\0")
    assert topic.partitions[0].committed_offset == 5


@pytest.mark.fact("A-15a")
def test_version_10_refuses_an_unknown_topic_id(driver: ShardDriver) -> None:
    [topic] = driver.fetch({"gone": [0, 1]}, version=10).topics
    assert topic.topic_id == b"gone".ljust(16, b"\0")
    assert [each.error_code for each in topic.partitions] == [100, 100]
    assert [each.committed_offset for each in topic.partitions] == [-1, -1]


@pytest.mark.fact("A-15b")
def test_version_10_returns_all_topics_by_id(driver: ShardDriver) -> None:
    topics = driver.fetch(None, version=10).topics
    assert [topic.topic_id.rstrip(b"\0") for topic in topics] == [b"t", b"u"]


def test_version_10_omits_deleted_topics(driver: ShardDriver) -> None:
    del driver.topics.counts["u"]
    [topic] = driver.fetch(None, version=10).topics
    assert topic.topic_id == b"t".ljust(16, b"\0")


def test_an_offset_of_an_older_topic_id_is_not_returned(
    driver: ShardDriver,
) -> None:
    driver.commit({("t", 2): 5})
    driver.commit({("t", 0): 5}, version=4, retention_time_ms=60_000)
    recreated = b"T" * 16
    driver.topics.topic_name = lambda topic_id: "t"  # type: ignore[method-assign]
    asked = m.OffsetFetchRequestTopics(topic_id=recreated, partition_indexes=[0, 2])
    [topic] = driver.fetch([asked], version=10).topics
    # The record of partition 0 has a retention time, and so no topic id.
    assert [each.committed_offset for each in topic.partitions] == [5, -1]
    # A fetch by name does not compare ids.
    assert driver.offsets({"t": [0, 2]}) == {("t", 0): 5, ("t", 2): 5}


committed_offsets = st.builds(
    CommittedOffset,
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=300),
    commit_timestamp_ms=st.integers(0, 2**63 - 1),
    expire_timestamp_ms=st.integers(-1, 2**63 - 1),
    record_offset=st.integers(-1, 2**63 - 1),
    topic_id=st.binary(min_size=16, max_size=16),
)
partition_indexes = st.integers(0, 2**31 - 1)


@settings(max_examples=40)
@given(partition_indexes, committed_offsets)
def test_unpacking_a_packed_offset_returns_it(
    partition: int, committed: CommittedOffset
) -> None:
    assert unpack(pack(partition, committed)) == committed


@settings(max_examples=25)
@given(st.dictionaries(partition_indexes, committed_offsets, min_size=1, max_size=4))
def test_encoded_topics_equal_those_of_the_codec(
    offsets: dict[int, CommittedOffset],
) -> None:
    driver = ShardDriver(check_purity=False)
    for partition, committed in offsets.items():
        driver.state.offsets.stored.put("g", "t", partition, committed)
    driver.state.ensure_group("g")
    absent = next(index for index in range(5) if index not in offsets)
    rows = [
        m.OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )
        for partition, committed in offsets.items()
    ]
    none = m.OffsetFetchResponsePartitions(
        partition_index=absent, committed_offset=-1, metadata=""
    )
    expected = [
        m.OffsetFetchResponseTopics(name="t", partitions=[*rows, none]),
        m.OffsetFetchResponseTopics(name="long-" * 30, partitions=[none]),
    ]
    wanted = {"t": [*offsets, absent], "long-" * 30: [absent]}
    assert driver.fetch(wanted).topics == expected
    assert driver.fetch(None).topics == [
        m.OffsetFetchResponseTopics(name="t", partitions=rows)
    ]


@pytest.mark.parametrize("version", [8, 10])
def test_a_topic_that_the_client_may_not_describe_is_an_error_or_omitted(
    driver: ShardDriver, version: int
) -> None:
    driver.may_describe = lambda name: name != "t"
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wanted = {"u": [0], "t": [0, 1]}
    found = driver.fetch(wanted, version=version).topics
    codes = [[each.error_code for each in topic.partitions] for topic in found]
    assert codes == [[0], [denied, denied]]
    assert len(driver.fetch(None, version=version).topics) == 1
