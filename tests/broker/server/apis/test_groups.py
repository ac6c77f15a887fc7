"""Groups and committed offsets: several groups in one request, authorization, and old
versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.shards import Phase
from coterie.errors import LogError, LogFull
from coterie.wire import messages as m
from coterie.wire.schema import Message
from tests.broker.server.apis.in_process_server import SHARDS, InProcessServer

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DELETE_G = (Operation.DELETE, GROUP, "g")


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as server:
        yield server


def commit(
    server: InProcessServer, group_id: str = "g", version: int = 9, **topics: int
) -> Any:
    """Commit an offset for partition 0 of each topic; return the errors."""
    request = m.OffsetCommitRequest(
        group_id=group_id,
        topics=[
            m.OffsetCommitRequestTopic(
                name=name,
                topic_id=server.topic_id(name) if version >= 10 else bytes(16),
                partitions=[
                    m.OffsetCommitRequestPartition(
                        partition_index=0,
                        committed_offset=offset,
                        committed_metadata="",
                    )
                ],
            )
            for name, offset in topics.items()
        ],
    )
    response = server.call(request, version)
    return [topic.partitions[0].error_code for topic in response.topics]


def send_commit(server: InProcessServer) -> Any:
    """Send a commit of offset 2 of t-0 without waiting."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=2, committed_metadata=""
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[partition])
    return server.send(m.OffsetCommitRequest(group_id="g", topics=[topic]), 9)


def fetch_old(
    server: InProcessServer, version: int, *topics: str, everything: bool = False
) -> Any:
    """Send an OffsetFetch below version 8 for partition 0 of topics."""
    requested = [
        m.OffsetFetchRequestTopic(name=t, partition_indexes=[0]) for t in topics
    ]
    request = m.OffsetFetchRequest(
        group_id="g", topics=None if everything else requested
    )
    return server.call(request, version)


def offsets_of(topics: Any) -> list[tuple[int, int]]:
    """Return offset and error of each partition."""
    return [
        (partition.committed_offset, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


def fetch_group(group_id: str, *topics: str) -> m.OffsetFetchRequestGroup:
    """Return one group of an OffsetFetch; all topics when none is named."""
    requested = [
        m.OffsetFetchRequestTopics(name=t, partition_indexes=[0]) for t in topics
    ]
    return m.OffsetFetchRequestGroup(group_id=group_id, topics=requested or None)


def fetch(
    server: InProcessServer, *groups: m.OffsetFetchRequestGroup, version: int = 9
) -> Any:
    """Send an OffsetFetch of groups; return the result of each."""
    return server.call(m.OffsetFetchRequest(groups=[*groups]), version).groups


def set_phase(server: InProcessServer, shard: int, phase: Phase) -> None:
    server.shards[shard].phase = phase


# OffsetFetch.


@pytest.mark.fact("A-11", "A-14e")
@pytest.mark.parametrize("version", range(1, 8))
def test_offset_fetch_before_version_8_has_one_group(
    server: InProcessServer, version: int
) -> None:
    assert commit(server, t=5) == [0]
    response = fetch_old(server, version, "t", "u")
    assert offsets_of(response.topics) == [(5, 0), (-1, 0)]
    assert [topic.name for topic in response.topics] == ["t", "u"]
    assert response.error_code == 0


@pytest.mark.fact("A-12", "A-20")
@pytest.mark.parametrize("version", range(2, 8))
def test_offset_fetch_from_version_2_with_null_topics_returns_all_topics(
    server: InProcessServer, version: int
) -> None:
    commit(server, t=5, u=6)
    assert offsets_of(fetch_old(server, version, everything=True).topics) == [
        (5, 0),
        (6, 0),
    ]


@pytest.mark.fact("A-21")
@pytest.mark.parametrize("phase", Phase)
def test_offset_fetch_version_1_with_no_topics_returns_no_offsets(
    server: InProcessServer, phase: Phase
) -> None:
    for driven in server.shards:
        driven.phase = phase
    assert fetch_old(server, 1).topics == []


@pytest.mark.fact("A-22", "A-30", "A-44b")
@pytest.mark.parametrize("version", range(2, 8))
def test_offset_fetch_from_version_2_has_the_group_error_at_the_top_level(
    server: InProcessServer, version: int
) -> None:
    set_phase(server, server.broker.shard_of("g"), Phase.LOADING)
    for topics in ((), ("t",)):
        response = fetch_old(server, version, *topics)
        assert (response.error_code, response.topics) == (LOADING, [])


@pytest.mark.fact("A-31", "A-44c")
def test_offset_fetch_version_1_has_the_group_error_in_every_partition(
    server: InProcessServer,
) -> None:
    commit(server, t=5)
    set_phase(server, server.broker.shard_of("g"), Phase.STOPPED)
    response = fetch_old(server, 1, "t", "u")
    assert offsets_of(response.topics) == [(-1, NOT_COORDINATOR)] * 2
    assert [topic.partitions[0].metadata for topic in response.topics] == ["", ""]


@pytest.mark.fact("A-14e", "A-32", "A-51")
def test_offset_fetch_version_8_returns_groups_in_request_order(
    server: InProcessServer,
) -> None:
    commit(server, "one", t=1)
    commit(server, "two", t=2)
    requested = (
        fetch_group("two", "t"),
        fetch_group("one"),
        fetch_group("none"),
        fetch_group("two"),
    )
    groups = fetch(server, *requested, version=8)
    assert [group.group_id for group in groups] == ["two", "one", "none", "two"]
    assert [offsets_of(group.topics) for group in groups] == [
        [(2, 0)],
        [(1, 0)],
        [],
        [(2, 0)],
    ]


@pytest.mark.fact("A-32", "A-44b", "A-44c")
def test_each_group_of_an_offset_fetch_has_its_own_error(
    server: InProcessServer,
) -> None:
    names = [server.group_in(shard) for shard in range(3)]
    set_phase(server, 0, Phase.LOADING)
    set_phase(server, 1, Phase.STOPPED)
    groups = fetch(server, *map(fetch_group, names))
    assert [group.error_code for group in groups] == [LOADING, NOT_COORDINATOR, 0]


@pytest.mark.fact("A-44a", "H-112")
def test_requests_before_the_start_get_coordinator_not_available(
    server: InProcessServer,
) -> None:
    shards, server.broker.runtime.shards = server.broker.runtime.shards, []
    assert [group.error_code for group in fetch(server, fetch_group("g"))] == [
        NOT_AVAILABLE
    ]
    assert commit(server, t=1) == [NOT_AVAILABLE]
    [described] = server.call(m.DescribeGroupsRequest(groups=["g"]), 6).groups
    assert described.error_code == NOT_AVAILABLE
    [deleted] = server.call(m.DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == NOT_AVAILABLE
    assert server.call(m.ListGroupsRequest(), 5).error_code == NOT_AVAILABLE
    server.broker.runtime.shards = shards


@pytest.mark.fact("H-92")
@pytest.mark.parametrize("stable", [False, True])
def test_an_offset_fetch_waits_until_the_commit_it_returns_is_durable(
    server: InProcessServer, stable: bool
) -> None:
    commit(server, t=1)
    committed = send_commit(server)
    request = m.OffsetFetchRequest(groups=[fetch_group("g")], require_stable=stable)
    fetched = server.send(request, 9)
    assert not committed.done()
    assert not fetched.done()
    response = server.as_read(server.loop.run_until_complete(fetched), 9)
    assert committed.done()
    assert offsets_of(response.groups[0].topics) == [(2, 0)]


@pytest.mark.fact("A-49", "H-96")
@pytest.mark.parametrize("version", [7, 9, 10])
@pytest.mark.parametrize("error", [LogFull("no space"), LogError("a fire")])
def test_a_require_stable_fetch_after_a_failed_write_gets_not_coordinator(
    server: InProcessServer, version: int, error: LogError
) -> None:
    def fail() -> None:
        raise error

    assert isinstance(server.broker.log, MemoryLog)
    server.broker.log.before_write = fail
    committed = send_commit(server)
    request = m.OffsetFetchRequest(require_stable=True, group_id="g", topics=None)
    if version >= 8:
        request = m.OffsetFetchRequest(require_stable=True, groups=[fetch_group("g")])
    answer = server.call(request, version)
    server.broker.log.before_write = None
    answers = answer.groups if version >= 8 else [answer]
    assert [(each.error_code, each.topics) for each in answers] == [
        (NOT_COORDINATOR, [])
    ]
    assert committed.done()


@pytest.mark.fact("A-50a")
def test_fetching_offsets_of_a_group_without_describe_permission_is_refused() -> None:
    with InProcessServer((Operation.DESCRIBE, GROUP, "secret")) as server:
        commit(server, "secret", t=1)
        commit(server, "g", t=2)
        groups = fetch(server, fetch_group("secret"), fetch_group("g"))
        assert [group.error_code for group in groups] == [30, 0]
        assert groups[0].topics == []


@pytest.mark.fact("A-50b")
@pytest.mark.parametrize("version", [1, 7])
def test_fetching_offsets_of_a_topic_without_describe_permission_is_refused(
    version: int,
) -> None:
    with InProcessServer((Operation.DESCRIBE, TOPIC, "t")) as server:
        commit(server, t=1, u=2)
        response = fetch_old(server, version, "t", "u")
        assert offsets_of(response.topics) == [(-1, 29), (2, 0)]


@pytest.mark.fact("A-50c")
def test_fetching_all_offsets_omits_topics_without_describe_permission() -> None:
    with InProcessServer((Operation.DESCRIBE, TOPIC, "t")) as server:
        commit(server, t=1, u=2)
        [group] = fetch(server, fetch_group("g"))
        assert [topic.name for topic in group.topics] == ["u"]
        assert group.error_code == 0


@pytest.mark.fact("A-14g")
def test_offset_fetch_version_10_has_topic_ids(server: InProcessServer) -> None:
    assert commit(server, version=10, t=5) == [0]
    topic = m.OffsetFetchRequestTopics(
        topic_id=server.topic_id("t"), partition_indexes=[0]
    )
    unknown = m.OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0])
    by_id = m.OffsetFetchRequestGroup(group_id="g", topics=[topic, unknown])
    named, everything = fetch(server, by_id, fetch_group("g"), version=10)
    assert offsets_of(named.topics) == [(5, 0), (-1, 100)]
    assert [each.topic_id for each in everything.topics] == [server.topic_id("t")]


# OffsetCommit and OffsetDelete.


@pytest.mark.fact("E17-08a", "E17-08b")
def test_offset_commit_needs_read_on_the_group_and_each_topic() -> None:
    denied = ((Operation.READ, GROUP, "secret"), (Operation.READ, TOPIC, "t"))
    with InProcessServer(*denied) as server:
        for version in (7, 8, 9):
            assert commit(server, "secret", version, u=1, gone=1) == [30, 30]
        assert commit(server, "secret", 10, u=1, t=1) == [30, 30]
        assert commit(server, "g", t=1, u=2) == [29, 0]
        assert commit(server, "g", 10, t=1, u=2) == [29, 0]
        [group] = fetch(server, fetch_group("g"))
        assert [topic.name for topic in group.topics] == ["u"]


def delete_offsets(server: InProcessServer, group_id: str, *topics: str) -> Any:
    partition = m.OffsetDeleteRequestPartition(partition_index=0)
    requested = [
        m.OffsetDeleteRequestTopic(name=t, partitions=[partition]) for t in topics
    ]
    return server.call(m.OffsetDeleteRequest(group_id=group_id, topics=requested), 0)


@pytest.mark.fact("D-51a", "D-51b")
def test_offset_delete_needs_delete_on_the_group_and_read_on_each_topic() -> None:
    with InProcessServer((Operation.DELETE, GROUP, "kept")) as server:
        commit(server, "kept", t=1)
        commit(server, "g", t=1, u=2)
        refused = delete_offsets(server, "kept", "t")
        assert (refused.error_code, refused.topics) == (30, [])
        server.authorizer.denied.add((Operation.READ, TOPIC, "t"))
        answer = delete_offsets(server, "g", "t", "u")
        codes = [topic.partitions[0].error_code for topic in answer.topics]
        assert (answer.error_code, codes) == (0, [29, 0])


# DescribeGroups, ListGroups, DeleteGroups.


@pytest.mark.fact("H-113a", "C-25a", "C-26b")
def test_each_described_group_has_its_own_result() -> None:
    with InProcessServer((Operation.DESCRIBE, GROUP, "secret")) as server:
        names = [server.group_in(shard) for shard in (0, 1)]
        commit(server, names[1], t=1)
        set_phase(server, 0, Phase.LOADING)
        set_phase(server, 2, Phase.STOPPED)
        requested = ["secret", *names, "", server.group_in(2)]
        groups = server.call(m.DescribeGroupsRequest(groups=requested), 5).groups
        assert [group.group_id for group in groups] == requested
        codes = [group.error_code for group in groups]
        empty = LOADING if server.broker.shard_of("") == 0 else 0
        assert codes == [30, LOADING, 0, empty, NOT_COORDINATOR]
        assert groups[2].group_state == "Empty"


@pytest.mark.fact("C-11")
@pytest.mark.parametrize("version", [5, 6])
def test_private_fields_are_returned_on_request(
    server: InProcessServer, version: int
) -> None:
    commit(server, t=1)
    generations = []
    for is_requested in (False, True):
        request = m.DescribeGroupsRequest(
            groups=["g"], include_private_fields=is_requested
        )
        [group] = server.call(request, version).groups
        generations.append(group.generation_id)
    assert generations == [-1, 0]


@pytest.mark.fact("C-25b")
def test_authorized_operations_are_returned_on_request() -> None:
    with InProcessServer(DELETE_G, (Operation.DESCRIBE, GROUP, "s")) as server:
        commit(server, t=1)
        told_of = []
        for asked_for in (False, True):
            request = m.DescribeGroupsRequest(
                groups=["g", "s"], include_authorized_operations=asked_for
            )
            groups = server.call(request, 5).groups
            told_of += [group.authorized_operations for group in groups]
    not_told = -(2**31)
    allowed = (
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
    bits = sum(1 << operation for operation in allowed)
    assert told_of == [not_told, not_told, bits, not_told]


@pytest.mark.fact("E28-06", "H-117a", "H-117b")
def test_list_groups_skips_stopped_shards_and_fails_while_a_shard_loads(
    server: InProcessServer,
) -> None:
    names = [server.group_in(shard) for shard in range(SHARDS)]
    for name in names:
        commit(server, name, t=1)
    set_phase(server, 1, Phase.STOPPED)
    response = server.call(m.ListGroupsRequest(), 5)
    listed = {group.group_id for group in response.groups}
    assert (response.error_code, listed) == (0, {*names} - {names[1]})
    set_phase(server, 2, Phase.LOADING)
    response = server.call(m.ListGroupsRequest(), 5)
    assert (response.error_code, response.groups) == (LOADING, [])


@pytest.mark.fact("E28-06")
def test_each_node_lists_the_groups_of_its_own_shards() -> None:
    with InProcessServer(node_count=2) as server:
        for shard in range(SHARDS):
            commit_at(server, shard)
        listed = [
            {
                group.group_id
                for group in server.call(m.ListGroupsRequest(), 5, node).groups
            }
            for node in (0, 1)
        ]
        names = [server.group_in(shard) for shard in range(SHARDS)]
        assert listed == [{*names[0::2]}, {*names[1::2]}]


def commit_at(server: InProcessServer, shard: int) -> None:
    """Commit for a group of a shard, at the group's coordinator."""
    partition = m.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = m.OffsetCommitRequest(group_id=server.group_in(shard), topics=[topic])
    right, wrong = shard % 2, (shard + 1) % 2
    codes = [
        server.call(request, 9, node).topics[0].partitions[0].error_code
        for node in (wrong, right)
    ]
    assert codes == [NOT_COORDINATOR, 0]


JOIN = m.JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=10_000,
    protocol_type="consumer",
    protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
)
CONSUMER_JOIN = m.ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    rebalance_timeout_ms=10_000,
    subscribed_topic_names=["t"],
    topic_partitions=[],
)


@pytest.mark.fact("E23-16", "H-115a")
@pytest.mark.parametrize(("join", "version"), [(JOIN, 4), (CONSUMER_JOIN, 1)])
def test_list_groups_waits_until_its_groups_are_durable(
    server: InProcessServer, join: Message, version: int
) -> None:
    joined = server.send(join, version)
    listed = server.send(m.ListGroupsRequest(), 5)
    assert not joined.done()
    assert not listed.done()
    response = server.as_read(server.loop.run_until_complete(listed), 5)
    assert joined.done()
    assert [group.group_id for group in response.groups] == ["g"]


@pytest.mark.fact("H-111a", "D-02", "D-13", "D-16", "D-17", "D-34")
@pytest.mark.parametrize("version", range(4))
def test_each_deleted_group_has_its_own_result(version: int) -> None:
    with InProcessServer((Operation.DELETE, GROUP, "kept")) as server:
        names = [server.group_in(shard) for shard in range(3)]
        for name in (*names, "kept"):
            commit(server, name, t=1)
        set_phase(server, 0, Phase.LOADING)
        set_phase(server, 1, Phase.STOPPED)
        requested = [names[0], "kept", names[2], names[1], names[2], "gone-" + names[2]]
        answer = server.call(m.DeleteGroupsRequest(groups_names=requested), version)
        shard = server.broker.shard_of(requested[-1])
        unknown = {0: LOADING, 1: NOT_COORDINATOR}.get(shard, 69)
        assert [(each.group_id, each.error_code) for each in answer.results] == [
            (names[0], LOADING),
            ("kept", 30),
            (names[2], 0),
            (names[1], NOT_COORDINATOR),
            (requested[-1], unknown),
        ]


@pytest.mark.fact("D-17", "H-111b")
def test_an_error_of_a_shard_affects_only_its_own_groups(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [server.group_in(shard) for shard in range(2)]
    for name in names:
        commit(server, name, t=1)

    def fail(*_: object) -> None:
        raise AssertionError("a bug")

    assert isinstance(server.shards[0].shard, Shard)
    server.shards[0].handle = fail  # type: ignore[assignment]
    answer = server.call(m.DeleteGroupsRequest(groups_names=names), 2)
    assert [each.error_code for each in answer.results] == [-1, 0]


@pytest.mark.fact("D-35")
@pytest.mark.parametrize(("denied", "code"), [((), 0), ((DELETE_G,), 30)])
def test_requests_of_the_anonymous_principal_need_permissions(
    denied: tuple[Any, ...], code: int
) -> None:
    with InProcessServer(*denied) as server:
        commit(server, t=1)
        [result] = server.call(m.DeleteGroupsRequest(groups_names=["g"]), 2).results
        assert result.error_code == code
