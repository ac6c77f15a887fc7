"""Who may do what: every API asks for the rights that Kafka asks for, and no others.

Each row of the table is tried with exactly the rights that it takes, without each of
them, with what does instead, and for a super user. Apache Kafka 4.4 answers the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from coterie.auth.acl import Acl, Permission
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import Operation, Principal
from coterie.settings import Settings
from coterie.wire.api import KNOWN, ApiKey
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.server.apis import acl_rows_cluster, acl_rows_groups, acl_rows_topics
from tests.server.apis.acl_rows import Right, Row
from tests.server.apis.acl_rows_groups import commit
from tests.server.apis.in_process import Office

ALICE = Principal("User", "alice")
ADMIN = Principal("User", "admin")
ROWS = [*acl_rows_groups.ROWS, *acl_rows_topics.ROWS, *acl_rows_cluster.ROWS]
ASKS_NOBODY = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
}
"""Whoever connects may say who they are and ask what is spoken."""


class GuardedOffice(Office):
    """A server that decides by bindings, with what the rows speak of."""

    def __init__(self, settings: Settings) -> None:
        self.acls = AclAuthorizer(super_users=[ADMIN])
        super().__init__(settings=settings, authorizer=self.acls, principal=ADMIN)
        doomed = CreatableTopic(name="d", num_partitions=1, replication_factor=1)
        self.call(CreateTopicsRequest(topics=[doomed], timeout_ms=5_000), 7)
        self.call(commit(self), 9)
        join = ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="first",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert self.call(join, 1).error_code == 0

    def told(self, row: Row, rights: Iterable[Right]) -> object:
        """What Alice is told who has these rights and no others."""
        self.acls.clear()
        for right in rights:
            acl = Acl(ALICE, Permission.ALLOW, *right)
            self.acls.replay(acl.key, acl.to_value())
        self.principal = ALICE
        try:
            return row.told(self.call(row.request(self), row.version))
        finally:
            self.principal = ADMIN


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
        pytest.param(row, right, id=f"{row.title} {right.operation.name} {right.name}")
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
