"""Whole requests with odd values: the broker has no bug, and a seeded one is found."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from coterie.broker.coordinator.consumer.topics import TopicIndex
from coterie.wire.api import IMPLEMENTED, ApiKey, api_of
from coterie.wire.codec import decode, encode
from fuzz.__main__ import main
from fuzz.request_values import Generator


@pytest.mark.slow
def test_a_broker_responds_to_every_valid_request_without_a_bug() -> None:
    arguments = ["--only", "requests", "--seconds", "60", "--count", "6000"]
    assert main([*arguments, "--seed", "1"]) == 0


@pytest.mark.slow
def test_an_assertion_about_a_value_of_a_request_is_detected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add = TopicIndex._add

    def checked(index: TopicIndex, group_id: str, topics: Any, by: int) -> None:
        assert all(topics), "a topic has a name"
        add(index, group_id, topics, by)

    monkeypatch.setattr(TopicIndex, "_add", checked)
    only_heartbeats = dict.fromkeys(IMPLEMENTED, 0.0)
    only_heartbeats[ApiKey.CONSUMER_GROUP_HEARTBEAT] = 1.0
    monkeypatch.setattr("fuzz.requests.WEIGHTS", only_heartbeats)
    arguments = ["--only", "requests", "--seconds", "60", "--count", "20000"]
    assert main([*arguments, "--seed", "1"]) == 1
    printed = capsys.readouterr().out
    assert "a topic has a name" in printed
    assert "subscribed_topic_names=" in printed
    assert "with seed 1" in printed


def test_every_generated_request_is_valid() -> None:
    generator = Generator(Random(1))
    for key in IMPLEMENTED:
        api = api_of(key)
        for version in range(api.served.low, api.served.high + 1):
            body = encode(generator.request(api.request, version), version)
            assert decode(api.request, version, body)[1] == len(body)


def test_the_same_seed_makes_the_same_requests() -> None:
    def requests(seed: int) -> list[str]:
        generator = Generator(Random(seed))
        return [
            repr(generator.request(api_of(key).request, api_of(key).served.high))
            for key in IMPLEMENTED
        ]

    assert requests(1) == requests(1) != requests(2)
