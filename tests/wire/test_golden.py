"""Bytes that nobody here wrote: every served message against other people's codecs.

For each judge that has the version: it reads what we encode and says the same of it;
what it writes is what we wrote; and we read that as the value we began with.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from coterie.wire.codec import decode, encode
from coterie.wire.messages.api_versions import ApiVersionsResponse
from coterie.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
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
        except RuntimeError:  # kio's own word for a version it does not have
            assert (cls.__name__, version) in KIO_LACKS
            continue
        cases.append(pytest.param(cls, version, id=f"{label(cls)}-{label(version)}"))
    return cases


def values(cls: type[Message], version: int) -> list[Message]:
    made = [sample(cls, version, Random(seed)) for seed in SEEDS]
    if cls is ApiVersionsResponse:
        for value in made:
            value.error_code = 0  # with an error, clients read it as v0 (G1-03)
    return made


@pytest.mark.parametrize(("cls", "version"), judged_by(KioJudge))
def test_kio_reads_and_writes_the_same(cls: type[Message], version: int) -> None:
    judge = KioJudge(cls, version)
    for value in values(cls, version):
        agree(judge, value, version, plain(value, version))


@pytest.mark.parametrize(("cls", "version"), judged_by(KafkaPythonJudge))
def test_kafka_python_reads_and_writes_the_same(
    cls: type[Message], version: int
) -> None:
    judge = KafkaPythonJudge(cls, version)
    for value in values(cls, version):
        agree(judge, value, version, plain(value, version))


@pytest.mark.parametrize(("cls", "version"), judged_by(AiokafkaJudge))
def test_aiokafka_reads_and_writes_the_same(cls: type[Message], version: int) -> None:
    judge = AiokafkaJudge(cls, version)
    for value in values(cls, version):
        told = [leaf for leaf in leaves(plain(value, version)) if leaf is not None]
        agree(judge, value, version, told)


def agree(judge: Judge, value: Message, version: int, told: Any) -> None:
    body = encode(value, version)
    theirs = judge.read(body)
    assert judge.plain(theirs) == told
    written = judge.write(theirs)
    assert written == body
    assert decode(type(value), version, written) == (value, len(written))


DELETE_GROUPS_REQUEST_V3 = "03036731086772c3bc70706500"
DELETE_GROUPS_RESPONSE_V3 = (
    "000000070303673100440a6e6f7420656d70747900086772c3bc7070650000000000"
)
"""Written by kafka-clients 4.4.0 itself, the one judge that has this version."""


@pytest.mark.fact("D-03")
def test_delete_groups_v3_is_what_java_writes() -> None:
    request = DeleteGroupsRequest(groups_names=["g1", "grüppe"])
    refused = DeletableGroupResult(
        group_id="g1", error_code=68, error_message="not empty"
    )
    deleted = DeletableGroupResult(group_id="grüppe", error_message=None)
    response = DeleteGroupsResponse(throttle_time_ms=7, results=[refused, deleted])
    assert encode(request, 3).hex() == DELETE_GROUPS_REQUEST_V3
    assert encode(response, 3).hex() == DELETE_GROUPS_RESPONSE_V3
    body = bytes.fromhex(DELETE_GROUPS_RESPONSE_V3)
    assert decode(DeleteGroupsResponse, 3, body) == (response, len(body))
