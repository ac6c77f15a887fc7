"""`coterie topics configs`."""

from __future__ import annotations

import json

import pytest

from tests.cli.server_shell import ServerShell
from tests.cli.test_completion import candidates


def configs(topics: ServerShell, words: str) -> dict[str, str]:
    return {
        each["config"]: each["value"] for each in topics.items(f"configs show {words}")
    }


@pytest.mark.slow
def test_configs_are_set_and_unset(topics: ServerShell) -> None:
    topics("create conf --partitions 1")
    change = "configs set conf --config retention.ms=1000 --config segment.ms=5000"
    planned = topics.items(change)
    assert [(each["config"], each["new_value"]) for each in planned] == [
        ("retention.ms", "1000"),
        ("segment.ms", "5000"),
    ]
    assert planned[0]["value"] == "604800000"
    assert configs(topics, "conf").get("retention.ms") is None
    topics(f"{change} --yes")
    assert configs(topics, "conf")["retention.ms"] == "1000"
    (item,) = topics.items("configs show conf --config retention.ms")
    assert item["source"] == "dynamic_topic"
    assert item["synonyms"][0] == "retention.ms=1000 (dynamic_topic)"
    topics("configs unset conf --config retention.ms --yes")
    assert "retention.ms" not in configs(topics, "conf")
    assert configs(topics, "conf --defaults")["retention.ms"] == "604800000"


@pytest.mark.slow
def test_an_invalid_config_fails_for_each_topic(topics: ServerShell) -> None:
    topics("create c-1 c-2 --partitions 1")
    change = "configs set c-1 c-2 missing --config cleanup.policy=never"
    document = json.loads(topics(f"{change} --output json", code=1))
    assert [each["error"]["code"] for each in document["items"]] == [
        "INVALID_CONFIG",
        "INVALID_CONFIG",
    ]
    assert [each["id"] for each in document["errors"]] == ["missing"]


@pytest.mark.slow
@pytest.mark.parametrize("execute", ["", "--yes"])
def test_an_unknown_config_is_not_unset(topics: ServerShell, execute: str) -> None:
    topic = f"unknown{execute}"
    topics(f"create {topic} --partitions 1")
    line = f"configs unset {topic} --config retention.mss {execute}"
    [item] = topics.items(line, code=1)
    assert (item["result"], item["error"]["code"]) == ("failed", "INVALID_CONFIG")
    assert "did you mean 'retention.ms'?" in item["error"]["message"]


def test_config_names_and_topics_are_completed(topics: ServerShell) -> None:
    topics("create completes --partitions 1")
    where = topics.connection.split()
    offered = candidates(["topics", "configs", "set", *where, "--config", "retention"])
    assert sorted(offered) == ["retention.bytes", "retention.ms"]
    assert candidates(["topics", "delete", *where, "compl"]) == ["completes"]
