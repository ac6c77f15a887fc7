"""Generated files of codecs: complete, and equal to the codecs of codec.py."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from coterie.broker.coordinator import records
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.generated import COMPILED, find_generated, module_source
from coterie.wire.messages import classic_groups
from coterie.wire.schema import Message, Struct
from coterie.wire.source import Source
from tests.wire.samples import sample


@cache
def codecs_of(module: Any) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(module_source(messages_of(module)), scope)
    return scope


def messages_of(module: Any) -> list[type[Message]]:
    return [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Message) and each is not Message
    ]


def test_requests_have_decoders_and_responses_encoders_of_every_version() -> None:
    codecs = codecs_of(classic_groups)
    versions = range(
        m.JoinGroupRequest.VERSIONS.low, m.JoinGroupRequest.VERSIONS.high + 1
    )
    decoded, encoded = set(codecs["DECODERS"]), set(codecs["ENCODERS"])
    assert {("JoinGroupRequest", version) for version in versions} <= decoded
    assert {("JoinGroupResponse", version) for version in versions} <= encoded
    assert all(
        name.endswith("Response") or "Request" not in name for name, _ in encoded
    )
    assert not any(name.endswith("Response") for name, _ in decoded)


def test_records_have_both() -> None:
    codecs = codecs_of(records)
    assert set(codecs["DECODERS"]) == set(codecs["ENCODERS"])


@pytest.mark.parametrize("cls", messages_of(records), ids=lambda cls: cls.__name__)
def test_a_generated_codec_does_what_codec_py_does(cls: type[Message]) -> None:
    codecs = codecs_of(records)
    for version in range(cls.VERSIONS.low, cls.VERSIONS.high + 1):
        value = sample(cls, version, Random(7))
        parts: list[bytes] = []
        codecs["ENCODERS"][cls.__name__, version](value, parts)
        body = b"".join(parts)
        assert body == encode(value, version)
        decoded, end = codecs["DECODERS"][cls.__name__, version](body, 0, 1_000)
        assert (decoded, end) == (decode(cls, version, body)[0], len(body))


def test_versions_of_one_layout_share_a_function() -> None:
    encoders = codecs_of(m)["ENCODERS"]
    assert encoders["JoinGroupResponse", 3] is encoders["JoinGroupResponse", 4]


def test_two_classes_of_one_name_are_refused() -> None:
    source = Source()
    source.cls(type("Topic", (Struct,), {}))
    with pytest.raises(AssertionError, match="two classes named Topic"):
        source.cls(type("Topic", (Struct,), {}))


def test_generated_codecs_are_looked_up_in_the_compiled_build_only() -> None:
    assert (find_generated("DECODERS", m.HeartbeatRequest, 4) is not None) is COMPILED
    assert find_generated("DECODERS", m.JoinGroupResponse, 4) is None
