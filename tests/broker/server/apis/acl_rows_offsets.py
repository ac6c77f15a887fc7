"""Rows of committed offsets (E27)."""

from __future__ import annotations

from typing import Any, Final

from coterie.auth.acl import Operation
from coterie.wire import messages as m
from tests.broker.server.apis.acl_rows import (
    NO_GROUP,
    NO_TOPIC,
    Place,
    Row,
    by_topic,
    group,
    refusal,
    top,
    topic,
)

DELETE, DESCRIBE, READ = Operation.DELETE, Operation.DESCRIBE, Operation.READ


def commit_topic(name: str, topic_id: bytes = bytes(16)) -> m.OffsetCommitRequestTopic:
    part = m.OffsetCommitRequestPartition(committed_metadata="")
    return m.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[part])


def commit(place: Place, *, by_id: bool = False) -> m.OffsetCommitRequest:
    topics = [
        commit_topic("", place.topic_id(name)) if by_id else commit_topic(name)
        for name in ("t", "u")
    ]
    return m.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, topics=topics
    )


def fetch(*names: str) -> m.OffsetFetchRequest:
    """Return an OffsetFetch of these topics, or of all."""
    topics = [
        m.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in names
    ]
    asked = m.OffsetFetchRequestGroup(group_id="g", topics=topics or None)
    return m.OffsetFetchRequest(groups=[asked])


def fetched(response: Any) -> object:
    [found] = response.groups
    return refusal(found.error_code), by_topic(found.topics)


def old_fetch() -> m.OffsetFetchRequest:
    topics = [m.OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    return m.OffsetFetchRequest(group_id="g", topics=topics)


def delete_offsets(group_id: str, *names: str) -> m.OffsetDeleteRequest:
    part = m.OffsetDeleteRequestPartition(partition_index=3)
    topics = [
        m.OffsetDeleteRequestTopic(name=name, partitions=[part]) for name in names
    ]
    return m.OffsetDeleteRequest(group_id=group_id, topics=topics)


ROWS: Final = [
    Row(
        "OffsetCommit",
        commit,
        lambda response: by_topic(response.topics),
        {"t": 0, "u": 0},
        {
            group(READ): {"t": NO_GROUP, "u": NO_GROUP},
            topic(READ): {"t": NO_TOPIC, "u": 0},
            topic(READ, "u"): {"t": 0, "u": NO_TOPIC},
        },
        9,
        facts=("E17-08a", "E17-08b", "E27-06"),
    ),
    Row(
        "OffsetCommit of a member that is none",
        lambda _: m.OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=5,
            member_id="m",
            topics=[commit_topic("t")],
        ),
        lambda response: [
            (found.name, part.error_code)
            for found in response.topics
            for part in found.partitions
        ],
        [("t", 25)],
        {group(READ): [("t", NO_GROUP)], topic(READ): [("t", NO_TOPIC)]},
        9,
        facts=("E27-06",),
    ),
    Row(
        "OffsetCommit by id",
        lambda place: commit(place, by_id=True),
        lambda response: sorted(by_topic(response.topics, name="topic_id").values()),
        [0, 0],
        {group(READ): [NO_GROUP] * 2, topic(READ): [0, NO_TOPIC]},
        10,
        given=(topic(READ, "u"),),
        facts=("E27-06",),
    ),
    Row(
        "OffsetFetch",
        lambda _: fetch("t", "u"),
        fetched,
        (0, {"t": 0, "u": 0}),
        {
            group(DESCRIBE): (NO_GROUP, {}),
            topic(DESCRIBE): (0, {"t": NO_TOPIC, "u": 0}),
            topic(DESCRIBE, "u"): (0, {"t": 0, "u": NO_TOPIC}),
        },
        9,
        facts=("E27-07",),
    ),
    Row(
        "OffsetFetch of all",
        lambda _: fetch(),
        fetched,
        (0, {"t": 0, "u": 0}),
        {
            group(DESCRIBE): (NO_GROUP, {}),
            topic(DESCRIBE): (0, {"u": 0}),
            topic(DESCRIBE, "u"): (0, {"t": 0}),
        },
        9,
        facts=("E27-07",),
    ),
    Row(
        "OffsetFetch of old",
        lambda _: old_fetch(),
        lambda response: (refusal(response.error_code), by_topic(response.topics)),
        (0, {"t": 0}),
        {
            group(DESCRIBE): (NO_GROUP, {}),
            topic(DESCRIBE): (0, {"t": NO_TOPIC}),
        },
        5,
        facts=("E27-07",),
    ),
    Row(
        "OffsetFetch of very old",
        lambda _: old_fetch(),
        lambda response: by_topic(response.topics),
        {"t": 0},
        {group(DESCRIBE): {"t": NO_GROUP}, topic(DESCRIBE): {"t": NO_TOPIC}},
        1,
        facts=("E27-07",),
    ),
    Row(
        "OffsetDelete",
        lambda _: delete_offsets("g", "t", "u"),
        lambda response: (top(response), by_topic(response.topics)),
        (0, {"t": 0, "u": 0}),
        {
            group(DELETE): (NO_GROUP, {}),
            topic(READ): (0, {"t": NO_TOPIC, "u": 0}),
            topic(READ, "u"): (0, {"t": 0, "u": NO_TOPIC}),
        },
        0,
        facts=("D-51a", "D-51b", "E27-08"),
    ),
    Row(
        "OffsetDelete in no group",
        lambda _: delete_offsets("none", "t"),
        lambda response: (response.error_code, by_topic(response.topics)),
        (69, {}),
        {group(DELETE, "none"): (NO_GROUP, {}), topic(READ): (69, {})},
        0,
    ),
    Row(
        "OffsetFetch by id",
        lambda place: m.OffsetFetchRequest(
            groups=[
                m.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[
                        m.OffsetFetchRequestTopics(
                            topic_id=place.topic_id(name), partition_indexes=[0]
                        )
                        for name in ("t", "u")
                    ],
                )
            ]
        ),
        lambda response: [
            (
                refusal(found.error_code),
                sorted(by_topic(found.topics, name="topic_id").values()),
            )
            for found in response.groups
        ],
        [(0, [0, 0])],
        {
            group(DESCRIBE): [(NO_GROUP, [])],
            topic(DESCRIBE): [(0, [0, NO_TOPIC])],
            topic(DESCRIBE, "u"): [(0, [0, NO_TOPIC])],
        },
        10,
        facts=("E27-07",),
    ),
]
