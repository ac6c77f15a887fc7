"""The embedded consumer protocol, compared with kio's messages."""

from __future__ import annotations

import io
from importlib import import_module
from random import Random
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Message
from tests.wire.hand import NULL_ARRAY, int32, many, text
from tests.wire.samples import label, sample

MESSAGES = {
    m.ConsumerProtocolAssignment: "consumer_protocol_assignment",
    m.ConsumerProtocolSubscription: "consumer_protocol_subscription",
}
SUBSCRIPTION = m.ConsumerProtocolSubscription(
    topics=["t"],
    owned_partitions=[m.ConsumerProtocolTopicPartitions(topic="t", partitions=[3])],
    generation_id=7,
    rack_id="r",
)


@pytest.mark.fact("E19-19", "E19-19a", "E19-19b")
def test_each_version_of_a_subscription_adds_a_field() -> None:
    bodies = [many(text("t")) + NULL_ARRAY]
    bodies.append(bodies[-1] + many(text("t") + many(int32(3))))
    bodies.append(bodies[-1] + int32(7))
    bodies.append(bodies[-1] + text("r"))
    assert [encode(SUBSCRIPTION, version) for version in range(4)] == bodies


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("cls", MESSAGES, ids=label)
def test_kio_decodes_and_encodes_the_same_message(
    cls: type[Message], version: int
) -> None:
    module = import_module(f"kio.schema.{MESSAGES[cls]}.v{version}.data")
    schema: Any = getattr(module, cls.__name__)
    for seed in range(6):
        value = sample(cls, version, Random(seed))
        body = encode(value, version)
        theirs, size = entity_reader(schema)(body, 0)
        assert size == len(body)
        written = io.BytesIO()
        entity_writer(schema)(written, theirs)
        assert written.getvalue() == body
        assert decode(cls, version, body) == (value, len(body))
