"""The audit log of administrative writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import Principal
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.server import audit, log_limit
from coterie.broker.server.audit import AUDITED, NAMES_MAX
from coterie.broker.server.dispatch import HANDLERS
from coterie.wire import messages as m
from tests.broker.server.harness import ThreadServer


@pytest.fixture(autouse=True)
def _every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limit, "INTERVAL_S", 0.0)


SECRET = "a-very-secret-value"


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    authorizer = AclAuthorizer(
        super_users=[Principal("User", "ANONYMOUS")],
        allow_everyone_if_no_acl_found=True,
    )
    with ThreadServer(authorizer=authorizer) as server:
        yield server


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> LinesOf:
    caplog.set_level(logging.INFO, "coterie.audit")
    return LinesOf(caplog)


class LinesOf:
    """The lines of the audit log so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def take(self) -> list[str]:
        found = [
            each.getMessage()
            for each in self._caplog.records
            if each.name == "coterie.audit"
        ]
        self._caplog.clear()
        return found


def create(*names: str, **how: Any) -> m.CreateTopicsRequest:
    topics = [
        m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in names
    ]
    return m.CreateTopicsRequest(topics=topics, **how)


def commit(group_id: str, *topics: str) -> m.OffsetCommitRequest:
    return m.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            m.OffsetCommitRequestTopic(
                name=name,
                partitions=[m.OffsetCommitRequestPartition(committed_offset=1)],
            )
            for name in topics
        ],
    )


def call(server: ThreadServer, request: Any, version: int) -> None:
    with server.client(client_id="admin tool") as client:
        client.call(request, version)


def test_a_line_has_the_client_the_resources_and_the_results(
    server: ThreadServer, lines: LinesOf
) -> None:
    call(server, create("audit-a", "audit-b", "audit-a/"), 7)
    port = server.addresses[0][1]
    assert lines.take() == [
        "audit api=CreateTopics version=7 principal=User:ANONYMOUS "
        f'client_host=127.0.0.1 client_id="admin tool" '
        f"listener=PLAINTEXT://127.0.0.1:{port} resources=audit-a,audit-b,audit-a/ "
        "count=3 results=NONE:2,INVALID_TOPIC_EXCEPTION:1 "
        "failed=audit-a/:INVALID_TOPIC_EXCEPTION"
    ]


REQUESTS: list[tuple[Any, int, str]] = [
    (
        m.CreatePartitionsRequest(
            topics=[m.CreatePartitionsTopic(name="audit-t", count=2, assignments=None)]
        ),
        3,
        "resources=audit-t count=1 results=NONE:1",
    ),
    (
        m.IncrementalAlterConfigsRequest(
            resources=[
                m.IncrementalAlterConfigsResource(
                    resource_type=2,
                    resource_name="audit-t",
                    configs=[
                        m.IncrementalAlterableConfig(name="retention.ms", value="12345")
                    ],
                )
            ]
        ),
        1,
        "resources=TOPIC:audit-t(retention.ms) count=1 results=NONE:1",
    ),
    (
        m.CreateAclsRequest(
            creations=[
                m.AclCreation(
                    resource_type=2,
                    resource_name="audit-t",
                    principal="User:bob",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
            ]
        ),
        3,
        "resources=ALLOW:User:bob@*:READ:TOPIC:LITERAL:audit-t count=1 results=NONE:1",
    ),
    (
        m.DeleteAclsRequest(
            filters=[
                m.DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="audit-t",
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        3,
        "resources=ALLOW:User:bob@*:READ:TOPIC:LITERAL:audit-t count=1 results=NONE:1",
    ),
    (
        m.AlterUserScramCredentialsRequest(
            upsertions=[
                m.ScramCredentialUpsertion(
                    name="carol",
                    mechanism=1,
                    iterations=4096,
                    salt=SECRET.encode(),
                    salted_password=SECRET.encode(),
                )
            ]
        ),
        0,
        "resources=User:carol(set-SCRAM_SHA_256) count=1 results=NONE:1",
    ),
    (
        m.AlterClientQuotasRequest(
            entries=[
                m.QuotaAlteration(
                    entity=[
                        m.AlteredQuotaEntity(entity_type="user", entity_name="bob")
                    ],
                    ops=[m.QuotaOperation(key="producer_byte_rate", value=1024.0)],
                )
            ]
        ),
        1,
        "resources=user:bob(producer_byte_rate:1024) count=1 results=NONE:1",
    ),
    (
        m.DeleteRecordsRequest(
            topics=[
                m.DeleteRecordsTopic(
                    name="audit-t", partitions=[m.DeleteRecordsPartition(offset=-1)]
                )
            ]
        ),
        2,
        "resources=audit-t-0 count=1 results=NONE:1",
    ),
    (
        commit("audit-g", "audit-t"),
        8,
        "group=audit-g resources=audit-t-0 count=1 results=NONE:1",
    ),
    (
        m.OffsetDeleteRequest(
            group_id="audit-g",
            topics=[
                m.OffsetDeleteRequestTopic(
                    name="audit-t", partitions=[m.OffsetDeleteRequestPartition()]
                )
            ],
        ),
        0,
        "group=audit-g resources=audit-t-0 count=1 results=NONE:1",
    ),
    (
        m.DeleteGroupsRequest(groups_names=["audit-g", "none"]),
        2,
        "results=NONE:1,GROUP_ID_NOT_FOUND:1 failed=none:GROUP_ID_NOT_FOUND",
    ),
    (
        m.DeleteTopicsRequest(topics=[m.DeleteTopicState(name="audit-t")]),
        6,
        "resources=audit-t count=1 results=NONE:1",
    ),
]


def test_every_administrative_write_has_a_line_without_secrets(lines: LinesOf) -> None:
    authorizer = AclAuthorizer(super_users=[Principal("User", "ANONYMOUS")])
    with ThreadServer(authorizer=authorizer) as server:
        call(server, create("audit-t"), 5)
        lines.take()
        for request, version, ending in REQUESTS:
            call(server, request, version)
            [line] = lines.take()
            assert line.endswith(ending), line
            assert SECRET not in line
            assert SECRET.encode().hex() not in line
            assert "12345" not in line, "values of configurations may be secret"


def test_commits_of_a_standalone_consumer_have_one_line_a_minute(
    server: ThreadServer, lines: LinesOf
) -> None:
    with server.client() as client:
        for _ in range(50):
            client.call(commit("audit-standalone", "audit-s"), 8)
    assert len(lines.take()) == 1
    with server.client(client_id="another") as client:
        client.call(commit("audit-standalone", "audit-s"), 8)
    assert len(lines.take()) == 1


@pytest.mark.parametrize("version", [8, 10])
def test_a_commit_of_an_admin_client_has_a_line(
    server: ThreadServer, lines: LinesOf, version: int
) -> None:
    group_id = f"audit-plain-{version}"
    call(server, create("audit-p"), 5)
    with server.client() as client:
        metadata = client.call(m.MetadataRequest(topics=None), 12)
        [topic_id] = [one.topic_id for one in metadata.topics if one.name == "audit-p"]
        client.call(commit(group_id, "audit-p"), 8)
    lines.take()
    request = commit(group_id, "audit-p")
    request.topics[0].topic_id = topic_id
    call(server, request, version)
    [line] = lines.take()
    ending = f"group={group_id} resources=audit-p-0 count=1 results=NONE:1"
    assert line.endswith(ending), line


def test_ordinary_requests_have_no_line(server: ThreadServer, lines: LinesOf) -> None:
    member = commit("audit-m", "audit-t")
    member.member_id, member.generation_id_or_member_epoch = "m", 1
    leave = m.LeaveGroupRequest(
        group_id="audit-m", members=[m.MemberIdentity(member_id="m", reason="closed")]
    )
    call(server, m.MetadataRequest(topics=[]), 9)
    call(server, member, 8)
    call(server, leave, 5)
    call(server, create("audit-v", validate_only=True), 7)
    assert lines.take() == []


@pytest.mark.parametrize(
    "member",
    [
        m.MemberIdentity(group_instance_id="i"),
        m.MemberIdentity(member_id="m", reason="member was removed by an admin: old"),
    ],
)
def test_a_removal_of_members_by_an_admin_has_a_line(
    server: ThreadServer, lines: LinesOf, member: m.MemberIdentity
) -> None:
    call(server, m.LeaveGroupRequest(group_id="audit-l", members=[member]), 5)
    [line] = lines.take()
    assert "api=LeaveGroup" in line
    assert "group=audit-l" in line


def test_a_line_is_bounded(server: ThreadServer, lines: LinesOf) -> None:
    names = [f"{number}/{'x' * 5_000}" for number in range(50)]
    call(server, create("audit-ok", *names), 7)
    [line] = lines.take()
    assert "count=51 results=INVALID_TOPIC_EXCEPTION:50,NONE:1" in line
    assert len(line) < 2 * NAMES_MAX * 350


def test_refused_requests_have_one_line_a_second(
    lines: LinesOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "INTERVAL_S", 60.0)
    with ThreadServer(authorizer=AclAuthorizer()) as server, server.client() as client:
        for _ in range(200):
            client.call(create("audit-refused"), 7)
    found = lines.take()
    assert len(found) == 1
    assert "results=TOPIC_AUTHORIZATION_FAILED:1" in found[0]


def test_a_bug_in_the_audit_does_not_lose_the_response(
    server: ThreadServer, lines: LinesOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(audit, "log_event", broken)
    call(server, create("audit-bug"), 7)
    assert lines.take() == ["a bug in the audit of API CreateTopics"]


def test_every_audited_api_is_served() -> None:
    assert set(AUDITED) <= set(HANDLERS)
