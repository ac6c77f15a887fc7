"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from coterie.broker.catalog.client_quotas import MatchType
from coterie.errors import LogFull
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as opened:
        yield opened


def alteration(
    types: Mapping[str, str | None], values: Mapping[str, float | None]
) -> m.QuotaAlteration:
    return m.QuotaAlteration(
        entity=[
            m.AlteredQuotaEntity(entity_type=kind, entity_name=name)
            for kind, name in types.items()
        ],
        ops=[
            m.QuotaOperation(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


def alter(
    server: InProcessServer, *entries: m.QuotaAlteration, validate_only: bool = False
) -> list[int]:
    request = m.AlterClientQuotasRequest(
        entries=list(entries), validate_only=validate_only
    )
    return [each.error_code for each in server.call(request, 1).entries]


def describe(
    server: InProcessServer, *components: m.QuotaFilterComponent, version: int = 1
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    request = m.DescribeClientQuotasRequest(components=list(components))
    response = server.call(request, version)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_stored_and_described(server: InProcessServer, version: int) -> None:
    request = m.AlterClientQuotasRequest(
        entries=[
            alteration({"user": "u", "client-id": None}, {"producer_byte_rate": 1024}),
            alteration({"ip": "10.0.0.1"}, {"connection_creation_rate": 10}),
            alteration({"user": ""}, {"producer_byte_rate": 1}),
        ]
    )
    response = server.call(request, version)
    assert [
        (each.error_code, each.error_message, len(each.entity))
        for each in response.entries
    ] == [
        (0, None, 2),
        (0, None, 1),
        (ErrorCode.INVALID_REQUEST, "Empty user not supported", 1),
    ]
    assert describe(server, version=version) == {
        (("client-id", None), ("user", "u")): {"producer_byte_rate": 1024.0},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 10.0},
    }
    part = m.QuotaFilterComponent(entity_type="ip", match_type=MatchType.SPECIFIED)
    assert list(describe(server, part, version=version)) == [(("ip", "10.0.0.1"),)]


def test_quotas_are_described_in_kafkas_order(server: InProcessServer) -> None:
    names = ["producer_byte_rate", "consumer_byte_rate", "request_percentage"]
    entry = alteration({"user": "u"}, dict.fromkeys(names, 1.0))
    assert alter(server, entry) == [0]
    [values] = describe(server).values()
    assert list(values) == [names[1], names[2], names[0]]


def test_quotas_survive_a_restart(server: InProcessServer) -> None:
    values = {"request_percentage": 12.5, "consumer_byte_rate": 2.0**40}
    assert alter(server, alteration({"user": "zoë \U0001f600"}, values)) == [0]
    before = describe(server)
    server.broker.data.reload()
    assert describe(server) == before == {(("user", "zoë \U0001f600"),): values}


def test_validation_alone_changes_nothing(server: InProcessServer) -> None:
    entry = alteration({"user": "u"}, {"producer_byte_rate": 1})
    assert alter(server, entry, validate_only=True) == [0]
    assert describe(server) == {}


def test_an_invalid_filter_has_no_entries(server: InProcessServer) -> None:
    part = m.QuotaFilterComponent(entity_type="user", match_type=9)
    response = server.call(m.DescribeClientQuotasRequest(components=[part]), 1)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message == "Unknown match type 9"
    assert response.entries is None


def test_a_quota_whose_flush_fails_gets_an_error_and_is_not_kept(
    server: InProcessServer,
) -> None:
    def fail() -> None:
        server.log.before_write = None
        raise LogFull("no room")

    server.log.before_write = fail
    entry = alteration({"user": "u"}, {"producer_byte_rate": 1})
    assert alter(server, entry) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert describe(server) == {}
