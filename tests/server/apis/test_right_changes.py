"""A right that goes counts from the next request on, on connections that are open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.authorizer import Operation
from coterie.settings import Settings
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.server.apis import acl_rows_topics
from tests.server.apis.acl_rows import NO_GROUP, NO_TOPIC, group, topic
from tests.server.apis.guarded import ADMIN, ALICE, GuardedOffice

READ, DESCRIBE = Operation.READ, Operation.DESCRIBE


@pytest.fixture
def office() -> Iterator[GuardedOffice]:
    with GuardedOffice(Settings()) as office:
        office.principal = ALICE
        yield office


def fetch(session_id: int = 0, epoch: int = 0, **options: Any) -> FetchRequest:
    """Of t and u; a request of a session that goes on names them no more."""
    part = FetchPartition(partition=0, partition_max_bytes=1_000)
    named = ("t", "u") if epoch == 0 else ()
    return FetchRequest(
        max_bytes=1_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic=name, partitions=[part]) for name in named],
        **options,
    )


def codes(response: Any) -> dict[str, int]:
    return {
        found.topic: part.error_code
        for found in response.responses
        for part in found.partitions
    }


def test_a_fetch_session_asks_again_for_partitions_where_nothing_happens(
    office: GuardedOffice,
) -> None:
    office.grant(topic(READ), topic(READ, "u"))
    first = office.call(fetch(), 12)
    assert codes(first) == {"t": 0, "u": 0}
    session = first.session_id
    assert codes(office.call(fetch(session, 1), 12)) == {}
    office.grant(topic(READ, "u"))
    assert codes(office.call(fetch(session, 2), 12)) == {"t": NO_TOPIC}
    office.grant(topic(READ), topic(READ, "u"))
    assert codes(office.call(fetch(session, 3), 12)) == {"t": 0}


def test_a_fetch_that_waits_is_not_told_what_its_caller_may_not_read_any_more(
    office: GuardedOffice,
) -> None:
    office.grant(topic(READ), topic(READ, "u"))
    waits = fetch(min_bytes=1, max_wait_ms=60_000)
    answered = office.send(waits, 12)
    office.turn()
    assert not answered.done()
    office.grant(topic(READ, "u"))
    office.principal = ADMIN
    office.call(acl_rows_topics.produce(office), 12)
    office.turn()
    told: Any = office.as_read(answered.result(), 12)
    assert codes(told) == {"t": NO_TOPIC, "u": 0}
    records = [part.records for each in told.responses for part in each.partitions]
    assert [bool(found) for found in records] == [False, True]


def test_offsets_are_hidden_as_soon_as_the_right_is_gone(office: GuardedOffice) -> None:
    def seen() -> tuple[int, list[str]]:
        asked = OffsetFetchRequestGroup(group_id="g", topics=None)
        [found] = office.call(OffsetFetchRequest(groups=[asked]), 9).groups
        return found.error_code, [each.name for each in found.topics]

    office.grant(group(DESCRIBE), topic(DESCRIBE), topic(DESCRIBE, "u"))
    assert seen() == (0, ["t", "u"])
    office.grant(group(DESCRIBE), topic(DESCRIBE))
    assert seen() == (0, ["t"])
    office.grant(topic(DESCRIBE))
    assert seen() == (NO_GROUP, [])


def test_a_topic_that_may_not_be_seen_is_not_made(office: GuardedOffice) -> None:
    make = acl_rows_topics.metadata("new", create=True)
    office.grant(topic(Operation.CREATE, "new"))
    [refused] = office.call(make, 12).topics
    assert (refused.name, refused.error_code) == ("new", NO_TOPIC)
    assert office.broker.catalog.topic_id("new") is None
    office.grant(topic(Operation.CREATE, "new"), topic(DESCRIBE, "new"))
    assert office.call(make, 12).topics[0].error_code == 0
    assert office.broker.catalog.topic_id("new") is not None
