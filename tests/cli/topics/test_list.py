"""`coterie topics list` and `coterie topics describe`."""

from __future__ import annotations

import json

import pytest

from tests.cli.server_shell import ServerShell


def names(topics: ServerShell, words: str) -> list[str]:
    return [each["topic"] for each in topics.items(f"list {words}")]


def test_created_topics_are_listed_by_name_and_pattern(topics: ServerShell) -> None:
    created = topics.items("create list-b list-a list-x --partitions 3")
    assert [(each["topic"], each["result"]) for each in created] == [
        ("list-b", "created"),
        ("list-a", "created"),
        ("list-x", "created"),
    ]
    assert names(topics, "--glob list-* --exclude *x") == ["list-a", "list-b"]
    (item,) = topics.items("list list-a --size")
    assert (item["partitions"], item["replication_factor"]) == (3, 1)
    assert (item["under_replicated"], item["internal"]) == (0, False)
    assert item["size_bytes"] == 0
    assert len(item["topic_id"]) == 22


def test_internal_topics_are_hidden_unless_named(topics: ServerShell) -> None:
    internal = "__consumer_offsets"
    assert internal not in names(topics, "")
    assert internal in names(topics, "--internal")
    assert names(topics, internal) == [internal]


@pytest.mark.slow
def test_a_missing_topic_hides_no_other_row(topics: ServerShell) -> None:
    topics("create there --partitions 1")
    document = json.loads(topics("list missing there --output json", code=1))
    assert [each["topic"] for each in document["items"]] == ["there"]
    (error,) = document["errors"]
    assert (error["id"], error["code"]) == ("missing", "UNKNOWN_TOPIC_OR_PARTITION")
    table = topics("describe missing there", code=1)
    assert "there" in table
    assert "topic missing" in topics.error


def test_a_description_has_partitions_and_changed_configs(topics: ServerShell) -> None:
    topics("create described --partitions 2 --config retention.ms=60000")
    document = json.loads(topics("describe described --output json"))
    for partition, item in enumerate(document["items"]):
        assert item["partition"] == partition
        assert (item["log_start_offset"], item["log_end_offset"]) == (0, 0)
        assert item["replicas"] == item["in_sync"] == [item["leader"]]
    (topic,) = document["topics"]
    assert {
        "name": "retention.ms",
        "value": "60000",
        "source": "dynamic_topic",
    } in topic["configs"]
    topics("describe described")
    assert "described: partitions=2 replication-factor=1" in topics.error
    assert "retention.ms=60000" in topics.error
