"""OffsetFetch and OffsetDelete over the wire: where each error stands, by version."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.runtime.shards import Phase
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.apis.live import NODES, Live, groups_on, node_of

OPEN: Final = "open"
SECRET: Final = "secret"
ALL: Final = None
WITH_ALL: Final = range(2, 10)
"""Versions that can ask for every offset of a group, by topic name."""


@pytest.fixture(scope="session", autouse=True)
def topics(live: Live) -> None:
    live.create_topic(OPEN)
    live.create_topic(SECRET)


def fetch(
    live: Live, group: str, version: int, topics: list[str] | None, *, node: int = 0
) -> Any:
    """What is said of the group; the partitions 0 of the topics, or every one."""
    if version < 8:
        old = [
            OffsetFetchRequestTopic(name=name, partition_indexes=[0])
            for name in topics or ()
        ]
        request = OffsetFetchRequest(
            group_id=group, topics=old if topics is not None else None
        )
        return live.call(request, version, node=node or node_of(group))
    new = [
        OffsetFetchRequestTopics(name=name, partition_indexes=[0])
        for name in topics or ()
    ]
    asked = OffsetFetchRequestGroup(
        group_id=group, topics=new if topics is not None else None
    )
    request = OffsetFetchRequest(groups=[asked])
    return live.call(request, version, node=node or node_of(group)).groups[0]


def partitions(group: Any) -> dict[str, tuple[int, int]]:
    """Offset and error of partition 0 of each topic in an answer."""
    return {
        topic.name: (each.committed_offset, each.error_code)
        for topic in group.topics
        for each in topic.partitions
    }


def denied(group: str) -> tuple[Operation, ResourceType, str]:
    return (Operation.DESCRIBE, ResourceType.GROUP, group)


HIDDEN: Final = (Operation.DESCRIBE, ResourceType.TOPIC, SECRET)


@pytest.mark.fact("A-31")
def test_in_v1_an_error_of_the_group_stands_in_every_partition(live: Live) -> None:
    with live.rules.deny(denied("v1")):
        answer = fetch(live, "v1", 1, [OPEN, SECRET])
    found = [
        (topic.name, each.committed_offset, each.metadata, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert found == [(OPEN, -1, "", code), (SECRET, -1, "", code)]


@pytest.mark.parametrize("version", WITH_ALL)
@pytest.mark.parametrize("topics", [ALL, [], [OPEN]])
@pytest.mark.fact("A-34", "A-50")
def test_from_v2_on_an_error_of_the_group_comes_with_no_partitions(
    live: Live, version: int, topics: list[str] | None
) -> None:
    with live.rules.deny(denied("v2")):
        answer = fetch(live, "v2", version, topics)
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert answer.topics == []


@pytest.mark.parametrize("version", WITH_ALL)
@pytest.mark.fact("A-35")
def test_no_offsets_and_an_error_can_be_told_apart(live: Live, version: int) -> None:
    (group,) = groups_on(1, 1, "apart")
    none = fetch(live, group, version, ALL)
    with live.phase(group, Phase.LOADING):
        loading = fetch(live, group, version, ALL)
    moved = fetch(live, group, version, ALL, node=2)
    with live.rules.deny(denied(group)):
        refused = fetch(live, group, version, ALL)
    answers = (none, loading, moved, refused)
    assert [answer.topics for answer in answers] == [[]] * 4
    assert [answer.error_code for answer in answers] == [0, 14, 16, 30]


@pytest.mark.parametrize("version", range(1, 10))
@pytest.mark.fact("A-44")
def test_each_reason_not_to_serve_a_group_has_its_code(
    live: Live, version: int
) -> None:
    (group,) = groups_on(2, 1, "reasons")

    def code(node: int = 0) -> int:
        answer = fetch(live, group, version, [OPEN], node=node)
        if version == 1:
            return partitions(answer)[OPEN][1]
        return int(answer.error_code)

    assert [code(node) for node in range(1, NODES + 1)] == [16, 0, 16]
    with live.phase(group, Phase.LOADING):
        assert code() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shards = live.inside(lambda broker: broker.runtime.shards[:])
    live.inside(lambda broker: broker.runtime.shards.clear())
    try:
        assert code() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    finally:
        live.inside(lambda broker: broker.runtime.shards.extend(shards))


@pytest.mark.parametrize("version", range(1, 10))
@pytest.mark.fact("A-50")
def test_a_topic_asked_for_by_name_that_may_not_be_seen_is_refused(
    live: Live, version: int
) -> None:
    group = f"named-{version}"
    live.commit(group, OPEN)
    live.commit(group, SECRET)
    with live.rules.deny(HIDDEN):
        answer = fetch(live, group, version, [SECRET, OPEN])
    assert partitions(answer) == {
        SECRET: (-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        OPEN: (7, 0),
    }


@pytest.mark.parametrize("version", WITH_ALL)
@pytest.mark.fact("A-50")
def test_a_topic_that_may_not_be_seen_is_left_out_when_all_are_asked_for(
    live: Live, version: int
) -> None:
    group = f"all-{version}"
    live.commit(group, OPEN)
    live.commit(group, SECRET)
    with live.rules.deny(HIDDEN):
        answer = fetch(live, group, version, ALL)
    assert answer.error_code == 0
    assert partitions(answer) == {OPEN: (7, 0)}
    assert partitions(fetch(live, group, version, ALL)) == {
        OPEN: (7, 0),
        SECRET: (7, 0),
    }


def delete(live: Live, group: str, *topics: str) -> Any:
    asked = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        for name in topics
    ]
    request = OffsetDeleteRequest(group_id=group, topics=asked)
    return live.call_owner(group, request, 0)


@pytest.mark.fact("D-51")
def test_offsets_are_deleted_by_who_may_delete_the_group(live: Live) -> None:
    live.commit("deletes", OPEN)
    with live.rules.deny((Operation.DELETE, ResourceType.GROUP, "deletes")):
        answer = delete(live, "deletes", OPEN)
    assert answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert partitions(fetch(live, "deletes", 9, ALL)) == {OPEN: (7, 0)}


@pytest.mark.fact("D-51")
def test_offsets_are_deleted_of_topics_that_may_be_read(live: Live) -> None:
    live.commit("deletes-some", OPEN)
    live.commit("deletes-some", SECRET)
    with live.rules.deny((Operation.READ, ResourceType.TOPIC, SECRET)):
        answer = delete(live, "deletes-some", SECRET, OPEN)
    codes = {each.name: each.partitions[0].error_code for each in answer.topics}
    assert answer.error_code == 0
    assert codes == {SECRET: ErrorCode.TOPIC_AUTHORIZATION_FAILED, OPEN: 0}
    assert partitions(fetch(live, "deletes-some", 9, ALL)) == {SECRET: (7, 0)}
