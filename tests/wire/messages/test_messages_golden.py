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
KIO_LACKS = {
    ("ApiVersionsRequest", 5),
    ("ApiVersionsResponse", 5),
    ("DeleteGroupsRequest", 3),
    ("DeleteGroupsResponse", 3),
    ("TxnOffsetCommitRequest", 6),
    ("TxnOffsetCommitResponse", 6),
}
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


TOPIC_ID = (1).to_bytes(8) + (2).to_bytes(8)
NEW_IN_4_4 = [
    (
        m.ApiVersionsRequest(
            client_software_name="c",
            client_software_version="1",
            cluster_id="grüppe",
            node_id=7,
        ),
        5,
        "02630231086772c3bc7070650000000700",
    ),
    (
        m.ApiVersionsRequest(client_software_name="c", client_software_version="1"),
        5,
        "0263023100ffffffff00",
    ),
    (
        m.ApiVersionsResponse(
            error_code=129,
            throttle_time_ms=3,
            api_keys=[m.ApiVersion(api_key=18, min_version=0, max_version=5)],
        ),
        5,
        "008102001200000005000000000300",
    ),
    (
        m.DeleteGroupsRequest(groups_names=["g1", "grüppe"]),
        3,
        "03036731086772c3bc70706500",
    ),
    (
        m.DeleteGroupsResponse(
            throttle_time_ms=7,
            results=[
                m.DeletableGroupResult(
                    group_id="g1", error_code=68, error_message="not empty"
                ),
                m.DeletableGroupResult(group_id="grüppe", error_message=None),
            ],
        ),
        3,
        "000000070303673100440a6e6f7420656d70747900086772c3bc7070650000000000",
    ),
    (
        m.TxnOffsetCommitRequest(
            transactional_id="tx",
            group_id="g",
            producer_id=5,
            producer_epoch=2,
            generation_id_or_member_epoch=9,
            member_id="m",
            topics=[
                m.TxnOffsetCommitRequestTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        m.TxnOffsetCommitRequestPartition(
                            partition_index=3,
                            committed_offset=11,
                            committed_metadata="x",
                        )
                    ],
                )
            ],
        ),
        6,
        "03747802670000000000000005000200000009026d000200000000000000010000000000000002"
        "0200000003000000000000000bffffffff0278000000",
    ),
    (
        m.TxnOffsetCommitResponse(
            throttle_time_ms=1,
            topics=[
                m.TxnOffsetCommitResponseTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        m.OffsetCommitResponsePartition(
                            partition_index=3, error_code=113
                        )
                    ],
                )
            ],
        ),
        6,
        "00000001020000000000000001000000000000000202000000030071000000",
    ),
]
"""Encoded by kafka-clients 4.4.0, the only judge with these versions."""


@pytest.mark.parametrize(("value", "version", "expected"), NEW_IN_4_4)
def test_what_is_new_in_4_4_equals_javas_bytes(
    value: Message, version: int, expected: str
) -> None:
    assert encode(value, version).hex() == expected
    body = bytes.fromhex(expected)
    assert decode(type(value), version, body) == (value, len(body))
