"""Creating, extending, configuring and deleting topics, with Kafka's error codes."""

from __future__ import annotations

import json

import pytest

from coterie.broker.catalog.catalog import Catalog, TopicChange
from coterie.broker.catalog.entries import Entry, EntryKind, decode_entry
from coterie.broker.catalog.topics import (
    CATALOG_TOPIC_ID,
    NewTopic,
    Topic,
    check_topic_name,
    is_usable_id,
)
from coterie.errors import ApiError, LogCorrupt
from coterie.settings import Settings
from coterie.types import OFFSETS_TOPIC
from coterie.wire.error_codes import ErrorCode

ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))


def new_catalog(nodes: int = 1, **settings: object) -> Catalog:
    return Catalog(Settings(**settings), range(nodes))  # type: ignore[arg-type]


def with_topic(catalog: Catalog, name: str = "a", **asked: object) -> Catalog:
    new = NewTopic(name=name, **asked)  # type: ignore[arg-type]
    catalog.replay(catalog.create_topic(new, ID))
    return catalog


def refusal(call: object, *arguments: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


def test_a_created_topic_is_found_by_name_and_by_id() -> None:
    catalog = with_topic(new_catalog(), partition_count=3)
    assert catalog.partition_count("a") == 3
    assert catalog.topic_id("a") == ID
    assert catalog.topic_name(ID) == "a"


def test_an_unknown_topic_is_not_found() -> None:
    catalog = new_catalog()
    assert catalog.partition_count("a") is None
    assert catalog.topic_id("a") is None
    assert catalog.topic_name(ID) is None


def test_deciding_a_change_does_not_apply_it() -> None:
    catalog = new_catalog()
    catalog.create_topic(NewTopic(name="a"), ID)
    assert catalog.topics == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ä", "a" * 250, "a/b"])
def test_an_invalid_topic_name_is_refused_as_in_kafka(name: str) -> None:
    assert refusal(check_topic_name, name) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "a.b", "A_b-9", "a" * 249, "..."])
def test_a_valid_topic_name_is_accepted_as_in_kafka(name: str) -> None:
    check_topic_name(name)


def test_topic_names_that_differ_only_in_dot_and_underscore_collide() -> None:
    catalog = with_topic(new_catalog(), "a.b")
    code = refusal(catalog.create_topic, NewTopic(name="a_b"), OTHER_ID)
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"partition_count": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"partition_count": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"partition_count": 10_001}, ErrorCode.POLICY_VIOLATION),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"configs": {"no.such": "1"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"retention.ms": "-2"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"cleanup.policy": "keep"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"preallocate": "maybe"}}, ErrorCode.INVALID_CONFIG),
        ({"configs": {"compression.type": "zip"}}, ErrorCode.INVALID_CONFIG),
        (
            {"assignments": {0: [0]}, "partition_count": 1},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"assignments": {0: [0]}, "replication_factor": 1},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"assignments": {1: [0]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: [7]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: []}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: [0, 0]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": {0: [0], 1: [0, 1]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_invalid_topic_is_refused(asked: dict[str, object], code: ErrorCode) -> None:
    new = NewTopic(name="a", **asked)  # type: ignore[arg-type]
    assert refusal(new_catalog(2).create_topic, new, ID) is code


def test_creating_an_existing_topic_is_refused() -> None:
    catalog = with_topic(new_catalog())
    code = refusal(catalog.create_topic, NewTopic(name="a"), OTHER_ID)
    assert code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_the_metadata_topic_cannot_be_created() -> None:
    new = NewTopic(name="__cluster_metadata")
    assert refusal(new_catalog().create_topic, new, ID) is ErrorCode.INVALID_REQUEST


def test_a_manual_assignment_determines_partitions_and_replicas() -> None:
    catalog = with_topic(new_catalog(2), assignments={0: [0, 1], 1: [1, 0]})
    topic = catalog.topics["a"]
    assert (topic.partition_count, topic.replication_factor) == (2, 2)


def test_the_default_partition_count_is_num_partitions() -> None:
    catalog = with_topic(new_catalog(num_partitions=4))
    assert catalog.partition_count("a") == 4


def test_partitions_are_added_to_a_topic() -> None:
    catalog = with_topic(new_catalog(), partition_count=1)
    catalog.replay(catalog.add_partitions("a", 5))
    assert catalog.partition_count("a") == 5
    assert catalog.topic_id("a") == ID


@pytest.mark.parametrize("count", [3, 2, 0])
def test_the_partition_count_cannot_decrease(count: int) -> None:
    catalog = with_topic(new_catalog(), partition_count=3)
    code = refusal(catalog.add_partitions, "a", count)
    assert code is ErrorCode.INVALID_PARTITIONS


def test_a_deleted_topic_is_not_found() -> None:
    catalog = with_topic(new_catalog())
    catalog.replay(catalog.delete_topic("a"))
    assert catalog.topic_name(ID) is None
    assert refusal(catalog.delete_topic, "a") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_name_is_free_after_deletion() -> None:
    catalog = with_topic(new_catalog(), "a.b")
    catalog.replay(catalog.delete_topic("a.b"))
    catalog.create_topic(NewTopic(name="a_b"), OTHER_ID)


def test_topic_deletion_can_be_disabled() -> None:
    catalog = with_topic(new_catalog(delete_topic_enable=False))
    assert refusal(catalog.delete_topic, "a") is ErrorCode.TOPIC_DELETION_DISABLED


@pytest.mark.fact("G1-10b")
def test_reserved_ids_are_never_topic_ids() -> None:
    assert not is_usable_id(bytes(16))
    assert not is_usable_id(CATALOG_TOPIC_ID)
    assert not is_usable_id(
        b"\xf8" + bytes(15)
    )  # Kafka has no id whose text starts with "-"
    assert is_usable_id(ID)


@pytest.mark.fact("H-122")
def test_the_offsets_topic_is_compacted_with_producer_compression() -> None:
    catalog = new_catalog()
    catalog.replay(catalog.create_offsets_topic(ID))
    topic = catalog.topics[OFFSETS_TOPIC]
    assert topic.is_internal
    assert topic.partition_count == 50
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_a_topic_configuration_is_set_and_unset() -> None:
    catalog = with_topic(new_catalog())
    catalog.replay(catalog.set_topic_configs("a", {"retention.ms": "5"}))
    assert catalog.settings_of("a").retention_ms == 5
    catalog.replay(catalog.set_topic_configs("a", {"retention.ms": None}))
    assert catalog.settings_of("a").retention_ms == 604_800_000


def test_an_invalid_topic_configuration_is_refused() -> None:
    catalog = with_topic(new_catalog())
    code = refusal(catalog.set_topic_configs, "a", {"retention.ms": "x"})
    assert code is ErrorCode.INVALID_CONFIG


def test_an_unset_topic_configuration_has_the_value_of_the_broker_setting() -> None:
    catalog = with_topic(new_catalog(log_retention_ms=77))
    assert catalog.effective_config(catalog.topics["a"], "retention.ms") == "77"


def test_a_dynamic_broker_configuration_takes_effect() -> None:
    catalog = with_topic(new_catalog())
    catalog.replay(catalog.set_broker_config("message.max.bytes", "9"))
    assert catalog.settings.message_max_bytes == 9
    assert catalog.settings_of("a").max_message_bytes == 9
    catalog.replay(catalog.set_broker_config("message.max.bytes", None))
    assert catalog.settings_of("a").max_message_bytes == 1_048_588


def test_listeners_are_called_for_every_change() -> None:
    catalog = new_catalog()
    changes: list[TopicChange] = []
    catalog.watch(changes.append)
    with_topic(catalog)
    catalog.replay(catalog.add_partitions("a", 2))
    catalog.replay(catalog.delete_topic("a"))
    counts = [
        tuple(None if topic is None else topic.partition_count for topic in change)
        for change in changes
    ]
    assert counts == [(None, 1), (1, 2), (2, None)]


def test_producer_ids_are_allocated_in_durable_blocks() -> None:
    catalog = new_catalog()
    first, entries = catalog.allocate_producer_id()
    assert first == 0
    assert [entry.value for entry in entries] == [{"next": 1000}]
    catalog.replay(entries[0])
    assert catalog.allocate_producer_id() == (1, ())


def test_producer_ids_continue_in_a_new_block_after_a_load() -> None:
    catalog = new_catalog()
    catalog.replay(Entry(EntryKind.PRODUCER_IDS, "next", {"next": 1000}))
    catalog.finish_load()
    taken, entries = catalog.allocate_producer_id()
    assert taken == 1000
    assert entries[0].value == {"next": 2000}


def test_an_entry_is_decoded_as_it_was_encoded() -> None:
    entry = new_catalog().create_topic(
        NewTopic(name="a", configs={"retention.ms": "1"}), ID
    )
    key, value = entry.encode()
    assert value is not None
    assert json.loads(value)["id"] == ID.hex()
    assert decode_entry(EntryKind.TOPIC, key, value) == entry


@pytest.mark.parametrize("value", [b"", b"{", b"[1]"])
def test_an_entry_that_is_not_an_object_is_corrupt(value: bytes) -> None:
    with pytest.raises(LogCorrupt):
        decode_entry(EntryKind.TOPIC, b"a", value)


@pytest.mark.fact("E6-14")
def test_partitions_are_in_the_racks_of_their_replicas() -> None:
    catalog = new_catalog(nodes=3, broker_rack=("a", "b", "a"))
    topic = NewTopic(name="t", partition_count=4, replication_factor=2)
    catalog.replay(catalog.create_topic(topic, ID))
    racks = [{"a", "b"}, {"b", "a"}, {"a"}, {"a", "b"}]
    assert catalog.partition_racks("t") == racks
    assert catalog.partition_racks("nowhere") == ()
    assert new_catalog().partition_racks("t") == ()


def test_racks_of_a_copied_topic_are_those_of_its_entry() -> None:
    topic = Topic("t", ID, 2, 1, racks=(frozenset({"b", "a"}), frozenset()))
    entry = Entry(EntryKind.TOPIC, "t", topic.to_value())
    key, value = entry.encode()
    assert value is not None
    catalog = new_catalog()
    catalog.replay(decode_entry(EntryKind.TOPIC, key, value))
    assert catalog.topics["t"] == topic
    assert catalog.partition_racks("t") == ({"a", "b"}, set())


def test_lookups_of_unknown_topics_are_reported() -> None:
    catalog = with_topic(new_catalog(), partition_count=3)
    reports: list[None] = []
    catalog.on_unknown_topic = lambda: reports.append(None)
    assert catalog.topic_id("a") == ID
    assert catalog.topic_name(ID) == "a"
    assert catalog.partition_count("a") == 3
    assert not reports
    assert catalog.topic_id("b") is None
    assert catalog.topic_name(OTHER_ID) is None
    assert catalog.partition_count("b") is None
    assert len(reports) == 3
