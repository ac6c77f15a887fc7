"""Every served message, compared with independent codecs.

For each judge that has the version, three checks hold. The judge decodes Coterie's
bytes to the original value; it encodes this value to the same bytes; and Coterie
decodes the judge's bytes to the original value.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Message
from tests.wire.judges import (
    AiokafkaJudge,
    Judge,
    KafkaPythonJudge,
    KioJudge,
    leaves,
    plain,
)
from tests.wire.samples import label, sample, served

SEEDS = range(6)
KIO_LACKS = {("DeleteGroupsRequest", 3), ("DeleteGroupsResponse", 3)}
"""New in Kafka 4.4; kio 0.6.5 generates from 4.3."""

AskJudge = Callable[[type[Message], int], Judge]


def judged_by(judge: AskJudge) -> list[Any]:
    cases = []
    for cls, version in served():
        try:
            judge(cls, version)
        except LookupError:
            continue
        except RuntimeError:  # kio's error for a version that it lacks
            assert (cls.__name__, version) in KIO_LACKS
            continue
        cases.append(pytest.param(cls, version, id=f"{label(cls)}-{label(version)}"))
    return cases


def values(cls: type[Message], version: int) -> list[Message]:
    made = [sample(cls, version, Random(seed)) for seed in SEEDS]
    if cls is m.ApiVersionsResponse:
        for value in made:
            value.error_code = 0  # clients decode an error response as v0 (G1-03)
    return made


@pytest.mark.parametrize(("cls", "version"), judged_by(KioJudge))
def test_kio_decodes_and_encodes_the_same_message(
    cls: type[Message], version: int
) -> None:
    judge = KioJudge(cls, version)
    for value in values(cls, version):
        agree(judge, value, version, plain(value, version))


@pytest.mark.parametrize(("cls", "version"), judged_by(KafkaPythonJudge))
def test_kafka_python_decodes_and_encodes_the_same_message(
    cls: type[Message], version: int
) -> None:
    judge = KafkaPythonJudge(cls, version)
    for value in values(cls, version):
        agree(judge, value, version, plain(value, version))


@pytest.mark.parametrize(("cls", "version"), judged_by(AiokafkaJudge))
def test_aiokafka_decodes_and_encodes_the_same_message(
    cls: type[Message], version: int
) -> None:
    judge = AiokafkaJudge(cls, version)
    for value in values(cls, version):
        expected = [leaf for leaf in leaves(plain(value, version)) if leaf is not None]
        agree(judge, value, version, expected)


def agree(judge: Judge, value: Message, version: int, expected: Any) -> None:
    body = encode(value, version)
    theirs = judge.read(body)
    assert judge.plain(theirs) == expected
    written = judge.write(theirs)
    assert written == body
    assert decode(type(value), version, written) == (value, len(written))


DELETE_GROUPS_REQUEST_V3 = "03036731086772c3bc70706500"
DELETE_GROUPS_RESPONSE_V3 = (
    "000000070303673100440a6e6f7420656d70747900086772c3bc7070650000000000"
)
"""Encoded by kafka-clients 4.4.0, the only judge with this version."""


def test_delete_groups_v3_equals_javas_bytes() -> None:
    request = m.DeleteGroupsRequest(groups_names=["g1", "grüppe"])
    refused = m.DeletableGroupResult(
        group_id="g1", error_code=68, error_message="not empty"
    )
    deleted = m.DeletableGroupResult(group_id="grüppe", error_message=None)
    response = m.DeleteGroupsResponse(throttle_time_ms=7, results=[refused, deleted])
    assert encode(request, 3).hex() == DELETE_GROUPS_REQUEST_V3
    assert encode(response, 3).hex() == DELETE_GROUPS_RESPONSE_V3
    body = bytes.fromhex(DELETE_GROUPS_RESPONSE_V3)
    assert decode(m.DeleteGroupsResponse, 3, body) == (response, len(body))
