"""Who may do what: every API asks for the rights that Kafka asks for, and no others.

Each row of the table is tried with exactly the rights that it takes, without each of
them, with what does instead, and for a super user. Apache Kafka 4.4 answers the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from coterie.auth.authorizer import Operation
from coterie.settings import Settings
from coterie.wire.api import KNOWN, ApiKey
from tests.server.apis.acl_rows import Right, Row
from tests.server.apis.acl_table import ROWS
from tests.server.apis.guarded import GuardedOffice

ASKS_NOBODY = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
}
"""Whoever connects may say who they are and ask what is spoken."""


@pytest.fixture(scope="module")
def shared() -> Iterator[GuardedOffice]:
    with GuardedOffice(Settings()) as office:
        yield office


@pytest.fixture
def office(row: Row, shared: GuardedOffice) -> Iterator[GuardedOffice]:
    """A server for the row, its own if it leaves traces."""
    if row.settings or row.spoils:
        with GuardedOffice(Settings(**row.settings)) as office:
            yield office
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
        pytest.param(row, rights, id=row.title)
        for row in ROWS
        for rights in row.instead
    ]


@pytest.mark.parametrize("row", titles(ROWS))
def test_these_rights_are_enough(row: Row, office: GuardedOffice) -> None:
    assert office.told(row, [*row.given, *row.without]) == row.allowed


@pytest.mark.parametrize(("row", "missing"), cases())
def test_each_right_is_needed(row: Row, missing: Right, office: GuardedOffice) -> None:
    others = [right for right in row.without if right != missing]
    assert office.told(row, [*row.given, *others]) == row.without[missing]


@pytest.mark.parametrize(("row", "rights"), others())
def test_other_rights_do_as_well(
    row: Row, rights: tuple[Right, ...], office: GuardedOffice
) -> None:
    assert office.told(row, [*row.given, *rights]) == row.allowed


@pytest.mark.parametrize("row", titles(ROWS))
def test_all_on_a_resource_is_every_right_to_it(
    row: Row, office: GuardedOffice
) -> None:
    rights = *row.given, *row.without
    every = {right._replace(operation=Operation.ALL) for right in rights}
    assert office.told(row, every) == row.allowed


def test_the_table_knows_every_api_that_asks() -> None:
    rowed = {row.request(FAKE).API_KEY for row in ROWS}
    assert rowed == set(KNOWN) - ASKS_NOBODY


class Nowhere:
    """A place for requests that are only looked at."""

    def topic_id(self, name: str) -> bytes:
        return bytes(16)


FAKE = Nowhere()
