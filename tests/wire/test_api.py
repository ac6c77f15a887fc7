"""The table of APIs: advertised versions are declared and suit known clients."""

from __future__ import annotations

import pytest

from coterie.wire.api import ADVERTISED, CLIENT_ONLY, IMPLEMENTED, Api, ApiKey, api_of
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

GROUP_APIS_FROM_0 = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
]


def overlaps(key: ApiKey, low: int, high: int) -> bool:
    served = api_of(key).advertised
    return served.low <= high and low <= served.high


@pytest.mark.parametrize("key", ADVERTISED)
def test_every_advertised_version_is_declared_for_request_and_response(
    key: ApiKey,
) -> None:
    api = api_of(key)
    assert api.request.API_KEY == api.response.API_KEY == key
    assert api.request.__name__ == f"{key.title}Request"
    assert api.response.VERSIONS == api.request.VERSIONS
    assert api.served.high == api.advertised.high
    if key is not ApiKey.PRODUCE:
        assert api.served == api.advertised


@pytest.mark.fact("G4-01")
@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.PRODUCE, 3),
        (ApiKey.FETCH, 4),
        (ApiKey.LIST_OFFSETS, 1),
        (ApiKey.OFFSET_COMMIT, 2),
        (ApiKey.OFFSET_FETCH, 1),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 0),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, 0),
    ],
)
def test_java_clients_find_the_versions_they_need(key: ApiKey, version: int) -> None:
    assert overlaps(key, version, 32767)
    assert version in api_of(key).served


@pytest.mark.fact("G4-02", "G4-03", "G4-04")
@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        (ApiKey.FIND_COORDINATOR, 0, 0),
        (ApiKey.OFFSET_COMMIT, 1, 2),
        (ApiKey.OFFSET_FETCH, 1, 1),
        (ApiKey.JOIN_GROUP, 0, 0),
        (ApiKey.SYNC_GROUP, 0, 0),
        (ApiKey.HEARTBEAT, 0, 0),
        (ApiKey.LEAVE_GROUP, 0, 0),
        (ApiKey.API_VERSIONS, 3, 3),
    ],
)
def test_librdkafka_enables_its_consumer_group_features(
    key: ApiKey, low: int, high: int
) -> None:
    assert overlaps(key, low, high)


@pytest.mark.fact("G4-05")
@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.PRODUCE, 0),
        (ApiKey.PRODUCE, 2),
        (ApiKey.PRODUCE, 3),
        (ApiKey.PRODUCE, 7),
        (ApiKey.FETCH, 4),
        (ApiKey.FETCH, 10),
        (ApiKey.FIND_COORDINATOR, 0),
        (ApiKey.SASL_HANDSHAKE, 0),
        (ApiKey.SASL_HANDSHAKE, 1),
        (ApiKey.SASL_AUTHENTICATE, 0),
        (ApiKey.SASL_AUTHENTICATE, 1),
        (ApiKey.INIT_PRODUCER_ID, 0),
        (ApiKey.LIST_OFFSETS, 1),
    ],
)
def test_librdkafka_enables_its_compression_features(key: ApiKey, version: int) -> None:
    assert version in api_of(key).advertised


@pytest.mark.fact("G4-06")
def test_leave_group_versions_with_one_member_are_served() -> None:
    assert 1 in api_of(ApiKey.LEAVE_GROUP).served


@pytest.mark.fact("G4-09")
@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        (ApiKey.API_VERSIONS, 0, 0),
        (ApiKey.FIND_COORDINATOR, 0, 1),
        (ApiKey.JOIN_GROUP, 0, 5),
        (ApiKey.SYNC_GROUP, 0, 3),
        (ApiKey.HEARTBEAT, 0, 1),
        (ApiKey.LEAVE_GROUP, 0, 1),
        (ApiKey.OFFSET_COMMIT, 2, 3),
        (ApiKey.OFFSET_FETCH, 1, 3),
        (ApiKey.PRODUCE, 0, 7),
        (ApiKey.FETCH, 1, 11),
        (ApiKey.LIST_OFFSETS, 0, 3),
        (ApiKey.METADATA, 0, 5),
        (ApiKey.INIT_PRODUCER_ID, 0, 0),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 0, 0),
        (ApiKey.ADD_OFFSETS_TO_TXN, 0, 0),
        (ApiKey.END_TXN, 0, 0),
        (ApiKey.TXN_OFFSET_COMMIT, 0, 0),
        (ApiKey.DESCRIBE_GROUPS, 0, 3),
        (ApiKey.LIST_GROUPS, 0, 2),
        (ApiKey.DELETE_GROUPS, 0, 1),
        (ApiKey.CREATE_TOPICS, 0, 3),
        (ApiKey.DESCRIBE_CONFIGS, 0, 2),
    ],
)
def test_aiokafka_finds_a_version_of_every_api(
    key: ApiKey, low: int, high: int
) -> None:
    assert overlaps(key, low, high)


@pytest.mark.fact("G4-08")
@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.API_VERSIONS, 4),
        (ApiKey.JOIN_GROUP, 7),
        (ApiKey.SYNC_GROUP, 5),
        (ApiKey.OFFSET_COMMIT, 8),
        (ApiKey.OFFSET_FETCH, 2),
        (ApiKey.OFFSET_FETCH, 8),
        (ApiKey.PRODUCE, 9),
        (ApiKey.FETCH, 12),
        (ApiKey.TXN_OFFSET_COMMIT, 3),
        (ApiKey.LIST_GROUPS, 4),
        (ApiKey.LIST_GROUPS, 5),
        (ApiKey.LEAVE_GROUP, 3),
    ],
)
def test_kafka_python_finds_the_versions_it_uses(key: ApiKey, version: int) -> None:
    assert version in api_of(key).served


@pytest.mark.fact("G4-10")
def test_franz_go_finds_the_first_heartbeat_version_with_member_ids() -> None:
    assert 1 in api_of(ApiKey.CONSUMER_GROUP_HEARTBEAT).served


@pytest.mark.fact("G4-11", "G4-12")
def test_old_join_group_versions_are_served() -> None:
    for version in range(9):
        assert version in api_of(ApiKey.JOIN_GROUP).served


@pytest.mark.fact("G4-13")
def test_the_minimum_versions_of_old_clients_are_advertised() -> None:
    for key in GROUP_APIS_FROM_0:
        assert api_of(key).advertised.low == 0
    lows = {
        ApiKey.OFFSET_COMMIT: 2,
        ApiKey.OFFSET_FETCH: 1,
        ApiKey.LIST_OFFSETS: 1,
        ApiKey.METADATA: 0,
        ApiKey.PRODUCE: 0,
        ApiKey.FETCH: 4,
    }
    assert {key: api_of(key).advertised.low for key in lows} == lows


@pytest.mark.fact("F6-08")
def test_old_produce_versions_are_advertised_and_not_served() -> None:
    api = api_of(ApiKey.PRODUCE)
    assert api.advertised == Versions(0, 13)
    assert api.served == Versions(3, 13)


def test_the_messages_of_an_api_are_imported_once() -> None:
    api = api_of(ApiKey.HEARTBEAT)
    assert isinstance(api, Api)
    assert api_of(ApiKey.HEARTBEAT) is api


def test_some_error_codes_are_retriable() -> None:
    assert ErrorCode.NOT_COORDINATOR.retriable
    assert not ErrorCode.UNKNOWN_MEMBER_ID.retriable


def test_error_codes_have_kafkas_names_numbers_and_retriability() -> None:
    from kio.schema.errors import ErrorCode as KioErrorCode

    for theirs in KioErrorCode:
        ours = ErrorCode(theirs.value)
        assert ours.name == theirs.name.upper()
        assert ours.retriable == theirs.retriable


def test_apis_of_the_client_alone_are_declared_and_not_served() -> None:
    for key, versions in CLIENT_ONLY.items():
        api = api_of(key)
        assert api.request.API_KEY == api.response.API_KEY == key
        assert api.request.VERSIONS == api.response.VERSIONS == versions
        assert key not in IMPLEMENTED
