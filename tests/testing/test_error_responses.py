"""Error responses, decoded by the codecs of other projects."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kio.index import UnknownEntity

from coterie.testing.error_responses import error_names, error_response
from coterie.testing.error_rows import shape_of
from coterie.wire.api import IMPLEMENTED, PRIVATE, ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct, Versions
from tests.wire.judges import KafkaPythonJudge, KioJudge, plain
from tests.wire.samples import sample

CODE = ErrorCode.NOT_COORDINATOR
FAMILIES = [
    pytest.param(api_of(key), version, id=f"{key.title}-{version}")
    for key in IMPLEMENTED
    for version in range(api_of(key).served.low, api_of(key).served.high + 1)
]
NO_FIELD = {
    ("DescribeLogDirs", 1),
    ("DescribeLogDirs", 2),
}
"""Versions with neither a top-level error nor rows, as in Kafka."""


NO_JUDGE = {("ApiVersions", 5), ("DeleteGroups", 3), ("TxnOffsetCommit", 6)}
"""Kafka 4.4 is newer than the other codecs."""


def full_request(cls: Any, version: int, chance: Random) -> Any:
    """Return a request each of whose arrays has an element."""
    request = sample(cls, version, chance)
    fill(request, version, chance)
    if isinstance(getattr(request, "acks", None), int):
        request.acks = 1
    return request


def fill(value: Struct, version: int, chance: Random) -> None:
    for name, declared in value.FIELDS.items():
        if declared.kind != "array" or version not in declared.versions:
            continue
        if isinstance(declared.element, type):
            elements = [sample(declared.element, version, chance) for _ in range(2)]
            for element in elements:
                fill(element, version, chance)
            setattr(value, name, elements)
        elif not getattr(value, name):
            texts = declared.element == "string"
            setattr(value, name, ["a", "b"] if texts else [3, 4])


def judge_of(cls: Any, version: int) -> Any:
    """Return a codec of another project; None when no project has the version."""
    for judge in (KioJudge, KafkaPythonJudge):
        try:
            return judge(cls, version)
        except (LookupError, UnknownEntity):
            continue
    return None


@pytest.mark.parametrize(("api", "version"), FAMILIES)
def test_other_codecs_decode_the_error(api: Any, version: int) -> None:
    request = full_request(api.request, version, Random(version))

    response = error_response(request, version, CODE)

    assert response is not None
    body = encode(response, version)
    judge = None if api.key in PRIVATE else judge_of(api.response, version)
    assert judge or api.key in PRIVATE or (api.key.title, version) in NO_JUDGE
    if judge is not None:
        assert judge.plain(judge.read(body)) == plain(
            _decoded(api.response, version, body), version
        )
    expected = () if (api.key.title, version) in NO_FIELD else (CODE.name,)
    assert error_names(_decoded(api.response, version, body)) == expected


@pytest.mark.parametrize(("api", "version"), FAMILIES)
def test_a_code_of_a_row_leaves_the_top_level_empty(api: Any, version: int) -> None:
    request = full_request(api.request, version, Random(version))

    for code in ErrorCode:
        shape = shape_of(api.key, version, code)
        if code and not shape.is_top and shape.rows[0].request:
            response: Any = error_response(request, version, code)
            assert not getattr(response, "error_code", 0)
            assert not any(
                getattr(row, "error_code", 0)
                for row in getattr(response, shape.rows[0].response)
                if shape.rows[0].nested
            )
            decoded = _decoded(api.response, version, encode(response, version))
            assert error_names(decoded) == (code.name,)


def _decoded(cls: Any, version: int, body: bytes) -> Any:
    value, end = decode(cls, version, body, 0)
    assert end == len(body)
    return value


def test_each_partition_of_a_commit_has_the_error() -> None:
    cls = api_of(ApiKey.OFFSET_COMMIT).request
    request: Any = full_request(cls, 9, Random(1))

    response: Any = error_response(request, 9, CODE)

    assert [
        (
            topic.name,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for topic in response.topics
    ] == [
        (topic.name, [(each.partition_index, CODE) for each in topic.partitions])
        for topic in request.topics
    ]


def test_an_exception_in_a_fetch_has_partitions_below_v13_only() -> None:
    cls = api_of(ApiKey.FETCH).request
    request: Any = full_request(cls, 12, Random(1))
    newer: Any = full_request(cls, 13, Random(1))

    old: Any = error_response(request, 12, CODE)
    new: Any = error_response(newer, 13, CODE)

    assert len(old.responses) == len(request.topics)
    assert (new.responses, new.session_id) == ([], newer.session_id)


@pytest.mark.parametrize("version", [7, 12, 13])
def test_a_session_error_of_a_fetch_has_no_partitions(version: int) -> None:
    request: Any = full_request(api_of(ApiKey.FETCH).request, version, Random(1))

    response: Any = error_response(
        request, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )

    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (response.responses, response.session_id) == ([], 0)


def test_a_produce_request_without_acks_has_no_response() -> None:
    request: Any = full_request(api_of(ApiKey.PRODUCE).request, 9, Random(1))
    request.acks = 0

    assert error_response(request, 9, CODE) is None


def test_unsupported_version_names_the_served_versions() -> None:
    request = api_of(ApiKey.API_VERSIONS).request()

    response: Any = error_response(request, 0, ErrorCode.UNSUPPORTED_VERSION)

    served: Versions = api_of(ApiKey.API_VERSIONS).advertised
    assert [(each.api_key, each.max_version) for each in response.api_keys] == [
        (ApiKey.API_VERSIONS, served.high)
    ]


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_join_error_has_no_protocol_name(version: int, name: str | None) -> None:
    request = api_of(ApiKey.JOIN_GROUP).request()

    response: Any = error_response(request, version, CODE)

    assert (response.protocol_name, response.generation_id) == (name, -1)
