"""Authorization: every API needs the operations of Kafka, and no others.

Each row of the table runs with exactly the operations it needs, without each of them,
with the alternatives, and as a super user. Apache Kafka 4.4 has the same results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from coterie.auth.acl import Operation
from coterie.settings import Settings
from coterie.wire.api import IMPLEMENTED, ApiKey
from tests.broker.server.apis.acl_rows import Right, Row
from tests.broker.server.apis.acl_table import ROWS
from tests.broker.server.apis.guarded import AuthorizingServer

UNAUTHORIZED_APIS = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
}
"""APIs that a client needs before it is authenticated."""


@pytest.fixture(scope="module")
def shared() -> Iterator[AuthorizingServer]:
    with AuthorizingServer(Settings()) as server:
        yield server


@pytest.fixture
def server(row: Row, shared: AuthorizingServer) -> Iterator[AuthorizingServer]:
    """The shared server, or a new one for a row that creates topics or has settings."""
    if row.settings or row.leaves_topics:
        with AuthorizingServer(Settings(**row.settings)) as server:
            yield server
    else:
        yield shared


def titles(rows: Sequence[Row]) -> list[Any]:
    return [pytest.param(row, id=row.title) for row in rows]


def cases() -> list[Any]:
    return [
        pytest.param(
            row,
            right,
            id=f"{row.title} {right.operation.name} {right.name}",
            marks=[pytest.mark.fact(*row.facts)] if row.facts else [],
        )
        for row in ROWS
        for right in row.without
    ]


def others() -> list[Any]:
    return [
        pytest.param(
            row,
            rights,
            id=row.title,
            marks=[pytest.mark.fact(*row.facts)] if row.facts else [],
        )
        for row in ROWS
        for rights in row.alternatives
    ]


@pytest.mark.parametrize("row", titles(ROWS))
def test_the_listed_operations_are_sufficient(
    row: Row, server: AuthorizingServer
) -> None:
    assert server.result(row, [*row.given, *row.without]) == row.allowed


@pytest.mark.parametrize(("row", "missing"), cases())
def test_each_listed_operation_is_necessary(
    row: Row, missing: Right, server: AuthorizingServer
) -> None:
    others = [right for right in row.without if right != missing]
    assert server.result(row, [*row.given, *others]) == row.without[missing]


@pytest.mark.parametrize(("row", "rights"), others())
def test_alternative_operations_are_sufficient(
    row: Row, rights: tuple[Right, ...], server: AuthorizingServer
) -> None:
    assert server.result(row, [*row.given, *rights]) == row.allowed


@pytest.mark.parametrize("row", titles(ROWS))
def test_the_operation_all_includes_every_operation(
    row: Row, server: AuthorizingServer
) -> None:
    rights = *row.given, *row.without
    every = {right._replace(operation=Operation.ALL) for right in rights}
    assert server.result(row, every) == row.allowed


def test_the_table_has_every_authorized_api() -> None:
    rowed = {row.request(FAKE).API_KEY for row in ROWS}
    assert rowed == set(IMPLEMENTED) - UNAUTHORIZED_APIS


class Nowhere:
    """A `Place` without a broker, to build requests that are not sent."""

    def topic_id(self, name: str) -> bytes:
        return bytes(16)


FAKE = Nowhere()
