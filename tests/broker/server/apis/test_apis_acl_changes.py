"""Changed ACLs apply to the next request of open connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import Operation
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.server.apis import acl_rows_topics
from tests.broker.server.apis.acl_rows import NO_GROUP, NO_TOPIC, group, topic
from tests.broker.server.apis.guarded import ADMIN, ALICE, AuthorizingServer

READ, DESCRIBE = Operation.READ, Operation.DESCRIBE


@pytest.fixture
def server() -> Iterator[AuthorizingServer]:
    with AuthorizingServer(Settings()) as server:
        server.principal = ALICE
        yield server


def fetch(session_id: int = 0, epoch: int = 0, **options: Any) -> m.FetchRequest:
    """Return a Fetch of t and u; later requests of a session name no partitions."""
    part = m.FetchPartition(partition=0, partition_max_bytes=1_000)
    named = ("t", "u") if epoch == 0 else ()
    return m.FetchRequest(
        max_bytes=1_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=[m.FetchTopic(topic=name, partitions=[part]) for name in named],
        **options,
    )


def codes(response: Any) -> dict[str, int]:
    return {
        found.topic: part.error_code
        for found in response.responses
        for part in found.partitions
    }


def test_a_fetch_session_authorizes_idle_partitions_after_an_acl_change(
    server: AuthorizingServer,
) -> None:
    server.grant(topic(READ), topic(READ, "u"))
    first = server.call(fetch(), 12)
    assert codes(first) == {"t": 0, "u": 0}
    session = first.session_id
    assert codes(server.call(fetch(session, 1), 12)) == {}
    server.grant(topic(READ, "u"))
    assert codes(server.call(fetch(session, 2), 12)) == {"t": NO_TOPIC}
    server.grant(topic(READ), topic(READ, "u"))
    assert codes(server.call(fetch(session, 3), 12)) == {"t": 0}


def test_a_waiting_fetch_is_authorized_again_when_it_completes(
    server: AuthorizingServer,
) -> None:
    server.grant(topic(READ), topic(READ, "u"))
    waits = fetch(min_bytes=1, max_wait_ms=60_000)
    answered = server.send(waits, 12)
    server.turn()
    assert not answered.done()
    server.grant(topic(READ, "u"))
    server.principal = ADMIN
    server.call(acl_rows_topics.produce(server), 12)
    server.turn()
    decoded: Any = server.as_read(answered.result(), 12)
    assert codes(decoded) == {"t": NO_TOPIC, "u": 0}
    records = [part.records for each in decoded.responses for part in each.partitions]
    assert [bool(found) for found in records] == [False, True]


def test_offset_fetch_fails_as_soon_as_the_acl_is_deleted(
    server: AuthorizingServer,
) -> None:
    def seen() -> tuple[int, list[str]]:
        asked = m.OffsetFetchRequestGroup(group_id="g", topics=None)
        [found] = server.call(m.OffsetFetchRequest(groups=[asked]), 9).groups
        return found.error_code, [each.name for each in found.topics]

    server.grant(group(DESCRIBE), topic(DESCRIBE), topic(DESCRIBE, "u"))
    assert seen() == (0, ["t", "u"])
    server.grant(group(DESCRIBE), topic(DESCRIBE))
    assert seen() == (0, ["t"])
    server.grant(topic(DESCRIBE))
    assert seen() == (NO_GROUP, [])


def test_metadata_creates_no_topic_for_a_principal_without_describe_permission(
    server: AuthorizingServer,
) -> None:
    make = acl_rows_topics.metadata("new", create=True)
    server.grant(topic(Operation.CREATE, "new"))
    [refused] = server.call(make, 12).topics
    assert (refused.name, refused.error_code) == ("new", NO_TOPIC)
    assert server.broker.catalog.topic_id("new") is None
    server.grant(topic(Operation.CREATE, "new"), topic(DESCRIBE, "new"))
    assert server.call(make, 12).topics[0].error_code == 0
    assert server.broker.catalog.topic_id("new") is not None
