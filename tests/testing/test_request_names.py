"""The names in the requests of every API and version."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from coterie.auth.acl import PatternType, ResourceType
from coterie.broker.runtime.fetch_sessions import FetchSessions
from coterie.testing.request_names import RequestNames, names_in
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.schema import Struct
from tests.testing.test_error_responses import FAMILIES, full_request

MEMBER_FIELDS = {"member_id", "instance_id", "group_instance_id"}
TRANSACTIONAL_FIELDS = {"transactional_id", "v3_and_below_transactional_id"}
GROUP_ARRAYS = {"groups", "group_ids", "groups_names"}
TOPIC_ARRAYS = {"topic_names", "subscribed_topic_names"}
ASSIGNMENTS = {(ApiKey.SYNC_GROUP, "assignments")}
ASSIGNMENTS |= {(ApiKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT, "members")}
NOT_READ = {(ApiKey.FETCH, "forgotten_topics_data")}
NOT_READ |= {(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "cursor")}
ONE, TWO = bytes(range(16)), bytes(range(1, 17))


def no_sessions() -> FetchSessions:
    return FetchSessions(0, 0, lambda: 1)


def names(request: Any, sessions: FetchSessions | None = None) -> RequestNames:
    """Return the names in a request; the topic ids are those of t1 and t2."""
    return names_in(request, {ONE: "t1", TWO: "t2"}.get, sessions or no_sessions())


def fields(
    value: Struct, version: int, path: tuple[str, ...] = ()
) -> Iterator[tuple[Struct, tuple[str, ...]]]:
    """Yield each field of a struct and of its rows that the version has: the struct,
    and the names from the request to the field."""
    for name, declared in value.FIELDS.items():
        if version not in declared.versions:
            continue
        yield value, (*path, name)
        content = getattr(value, name)
        for each in content if isinstance(content, list) else [content]:
            if isinstance(each, Struct):
                yield from fields(each, version, (*path, name))


def kind_of(value: Struct, path: tuple[str, ...]) -> str | None:
    """Return what kind of name a field has; None for others."""
    *above, name = path
    content = getattr(value, name)
    if isinstance(content, list):
        arrays = {"transactional_ids": "transactional_ids"}
        arrays |= dict.fromkeys(GROUP_ARRAYS, "groups")
        arrays |= dict.fromkeys(TOPIC_ARRAYS, "topics")
        return arrays.get(name) if content and isinstance(content[0], str) else None
    if name == "name":
        return "topics" if above and "topic" in above[-1] else None
    fields = {"group_id": "groups", "topic": "topics", "topic_name": "topics"}
    fields |= dict.fromkeys(MEMBER_FIELDS, "members")
    fields |= dict.fromkeys(TRANSACTIONAL_FIELDS, "transactional_ids")
    return fields.get(name)


def without_resources(request: Any) -> None:
    """Make types unknown that decide what a name stands for."""
    for value, (*_, name) in list(fields(request, request.VERSIONS.high)):
        if name in {"key_type", "resource_type", "resource_type_filter"}:
            setattr(value, name, 99)


@pytest.mark.parametrize(("api", "version"), FAMILIES)
def test_every_name_of_a_request_is_found(api: Any, version: int) -> None:
    request = full_request(api.request, version, Random(version))
    without_resources(request)
    expected: dict[str, set[str]] = {kind: set() for kind in RequestNames._fields}
    for number, (value, path) in enumerate(fields(request, version)):
        kind = kind_of(value, path)
        if kind is None or (api.key, path[0]) in ASSIGNMENTS | NOT_READ:
            continue
        unique = f"{path[-1]}-{number}"
        is_array = isinstance(getattr(value, path[-1]), list)
        setattr(value, path[-1], [unique] if is_array else unique)
        expected[kind].add(unique)

    found = names(request)._asdict()

    assert {kind: set(found[kind]) for kind in expected} == expected


@pytest.mark.parametrize(
    "api", [ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT]
)
def test_topic_ids_are_resolved(api: ApiKey) -> None:
    request: Any = full_request(api_of(api).request, 10, Random(1))
    topics = (request.groups[0] if api is ApiKey.OFFSET_FETCH else request).topics
    del topics[1:]
    topics[0].name, topics[0].topic_id = "", TWO

    assert "t2" in names(request).topics


@pytest.mark.parametrize(
    "request_",
    [
        m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x", "y"]),
        m.CreateAclsRequest(
            creations=[
                m.AclCreation(
                    resource_type=ResourceType.TRANSACTIONAL_ID, resource_name=x
                )
                for x in "xy"
            ]
        ),
    ],
)
def test_each_transactional_id_is_found(request_: Any) -> None:
    assert names(request_).transactional_ids == ("x", "y")


def test_the_groups_of_find_coordinator_are_found() -> None:
    assert names(m.FindCoordinatorRequest(key_type=0, key="g")).groups == ("g",)


def test_resources_of_configurations_are_found() -> None:
    resources = [
        m.DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, "t"), (32, "g"), (4, "1"))
    ]
    found = names(m.DescribeConfigsRequest(resources=resources))

    assert (found.topics, found.groups) == (("t",), ("g",))


def test_literal_resources_of_acl_bindings_are_found() -> None:
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    topic, group = ResourceType.TOPIC, ResourceType.GROUP

    described = m.DescribeAclsRequest(
        resource_type_filter=group,
        resource_name_filter="g",
        pattern_type_filter=literal,
    )
    filters = [
        m.DeleteAclsFilter(
            resource_type_filter=topic,
            resource_name_filter=name,
            pattern_type_filter=kind,
        )
        for name, kind in (("t", literal), ("u", prefixed), (None, literal))
    ]

    assert names(described).groups == ("g",)
    assert names(m.DeleteAclsRequest(filters=filters)).topics == ("t",)


# Fetch sessions.


def fetch(*topics: m.FetchTopic, **more: Any) -> m.FetchRequest:
    return m.FetchRequest(topics=list(topics), **more)


def topic(topic_id: bytes, *partitions: int) -> m.FetchTopic:
    return m.FetchTopic(
        topic_id=topic_id,
        partitions=[m.FetchPartition(partition=index) for index in partitions],
    )


def test_a_fetch_names_the_topics_of_its_session() -> None:
    sessions = FetchSessions(1, 10, lambda: 7)
    sessions.plan(fetch(topic(ONE, 0, 1), session_epoch=0), 13, 0)
    session = {"session_id": 7, "session_epoch": 1}
    half = m.ForgottenTopic(topic_id=ONE, partitions=[0])
    whole = m.ForgottenTopic(topic_id=ONE, partitions=[0, 1])

    assert names(fetch(**session), sessions).topics == ("t1",)
    assert names(fetch(topic(TWO, 0), **session), sessions).topics == ("t1", "t2")
    assert names(fetch(forgotten_topics_data=[half], **session), sessions).topics == (
        "t1",
    )
    assert names(fetch(forgotten_topics_data=[whole], **session), sessions).topics == ()


def test_a_fetch_that_starts_or_ends_a_session_names_its_own_topics() -> None:
    sessions = FetchSessions(1, 10, lambda: 7)
    sessions.plan(fetch(topic(ONE, 0), session_epoch=0), 13, 0)

    for epoch in (0, -1):
        request = fetch(topic(TWO, 0), session_id=7, session_epoch=epoch)
        assert names(request, sessions).topics == ("t2",)
    assert names(fetch(session_id=8, session_epoch=1), sessions).topics == ()
