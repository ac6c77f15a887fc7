"""The API modules of groups and offsets: many groups in one request, who may what, and
what old versions are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.coordinator.shard import Shard
from coterie.errors import LogError
from coterie.log.memory import MemoryLog
from coterie.runtime.shards import Phase
from coterie.wire.messages.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.wire.messages.list_groups import ListGroupsRequest
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
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
from tests.server.apis.in_process import SHARDS, Office

LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
DELETE_G = (Operation.DELETE, GROUP, "g")


@pytest.fixture
def office() -> Iterator[Office]:
    with Office() as office:
        yield office


def commit(office: Office, group_id: str = "g", version: int = 9, **topics: int) -> Any:
    """Commit an offset for partition 0 of each topic; an error for each."""
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=office.topic_id(name) if version >= 10 else bytes(16),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0,
                        committed_offset=offset,
                        committed_metadata="",
                    )
                ],
            )
            for name, offset in topics.items()
        ],
    )
    response = office.call(request, version)
    return [topic.partitions[0].error_code for topic in response.topics]


def send_commit(office: Office) -> Any:
    """Commit offset 2 of t-0 without waiting."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=2, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    return office.send(OffsetCommitRequest(group_id="g", topics=[topic]), 9)


def fetch_old(
    office: Office, version: int, *topics: str, everything: bool = False
) -> Any:
    """OffsetFetch of partition 0 of topics, for versions below 8."""
    wanted = [OffsetFetchRequestTopic(name=t, partition_indexes=[0]) for t in topics]
    request = OffsetFetchRequest(group_id="g", topics=None if everything else wanted)
    return office.call(request, version)


def told(topics: Any) -> list[tuple[int, int]]:
    """Offset and error of each partition."""
    return [
        (partition.committed_offset, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


def asked(group_id: str, *topics: str) -> OffsetFetchRequestGroup:
    """One group of an OffsetFetch; all topics when none is named."""
    wanted = [OffsetFetchRequestTopics(name=t, partition_indexes=[0]) for t in topics]
    return OffsetFetchRequestGroup(group_id=group_id, topics=wanted or None)


def fetch(office: Office, *groups: OffsetFetchRequestGroup, version: int = 9) -> Any:
    """OffsetFetch of groups; the answer for each."""
    return office.call(OffsetFetchRequest(groups=[*groups]), version).groups


def set_phase(office: Office, shard: int, phase: Phase) -> None:
    office.shards[shard].phase = phase


# OffsetFetch.


@pytest.mark.fact("A-11", "A-14")
@pytest.mark.parametrize("version", range(1, 8))
def test_old_versions_ask_for_one_group(office: Office, version: int) -> None:
    assert commit(office, t=5) == [0]
    response = fetch_old(office, version, "t", "u")
    assert told(response.topics) == [(5, 0), (-1, 0)]
    assert [topic.name for topic in response.topics] == ["t", "u"]
    assert response.error_code == 0


@pytest.mark.fact("A-12", "A-20")
@pytest.mark.parametrize("version", range(2, 8))
def test_from_version_2_null_is_everything(office: Office, version: int) -> None:
    commit(office, t=5, u=6)
    assert told(fetch_old(office, version, everything=True).topics) == [(5, 0), (6, 0)]


@pytest.mark.fact("A-21")
@pytest.mark.parametrize("phase", Phase)
def test_in_version_1_nothing_asked_is_nothing_answered(
    office: Office, phase: Phase
) -> None:
    for driven in office.shards:
        driven.phase = phase
    assert fetch_old(office, 1).topics == []


@pytest.mark.fact("A-22", "A-30", "A-34", "A-35", "A-44")
@pytest.mark.parametrize("version", range(2, 8))
def test_from_version_2_the_groups_error_stands_at_the_top(
    office: Office, version: int
) -> None:
    set_phase(office, office.broker.shard_of("g"), Phase.LOADING)
    for topics in ((), ("t",)):
        response = fetch_old(office, version, *topics)
        assert (response.error_code, response.topics) == (LOADING, [])


@pytest.mark.fact("A-31", "A-44")
def test_in_version_1_it_stands_in_every_partition(office: Office) -> None:
    commit(office, t=5)
    set_phase(office, office.broker.shard_of("g"), Phase.STOPPED)
    response = fetch_old(office, 1, "t", "u")
    assert told(response.topics) == [(-1, NOT_COORDINATOR)] * 2
    assert [topic.partitions[0].metadata for topic in response.topics] == ["", ""]


@pytest.mark.fact("A-14", "A-32", "A-51")
def test_version_8_answers_each_group_in_order(office: Office) -> None:
    commit(office, "one", t=1)
    commit(office, "two", t=2)
    wanted = (asked("two", "t"), asked("one"), asked("none"), asked("two"))
    groups = fetch(office, *wanted, version=8)
    assert [group.group_id for group in groups] == ["two", "one", "none", "two"]
    assert [told(group.topics) for group in groups] == [
        [(2, 0)],
        [(1, 0)],
        [],
        [(2, 0)],
    ]


@pytest.mark.fact("A-32", "A-44")
def test_each_group_has_its_own_error(office: Office) -> None:
    names = [office.group_in(shard) for shard in range(3)]
    set_phase(office, 0, Phase.LOADING)
    set_phase(office, 1, Phase.STOPPED)
    groups = fetch(office, *map(asked, names))
    assert [group.error_code for group in groups] == [LOADING, NOT_COORDINATOR, 0]


@pytest.mark.fact("A-44", "H-112")
def test_before_the_start_there_is_no_coordinator(office: Office) -> None:
    shards, office.broker.runtime.shards = office.broker.runtime.shards, []
    assert [group.error_code for group in fetch(office, asked("g"))] == [NOT_AVAILABLE]
    assert commit(office, t=1) == [NOT_AVAILABLE]
    [described] = office.call(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert described.error_code == NOT_AVAILABLE
    [deleted] = office.call(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == NOT_AVAILABLE
    assert office.call(ListGroupsRequest(), 5).error_code == NOT_AVAILABLE
    office.broker.runtime.shards = shards


@pytest.mark.parametrize("stable", [False, True])
def test_a_fetch_waits_for_the_commit_it_may_see(office: Office, stable: bool) -> None:
    commit(office, t=1)
    committed = send_commit(office)
    request = OffsetFetchRequest(groups=[asked("g")], require_stable=stable)
    fetched = office.send(request, 9)
    assert not committed.done()
    assert not fetched.done()
    response = office.as_read(office.loop.run_until_complete(fetched), 9)
    assert committed.done()
    assert told(response.groups[0].topics) == [(2, 0)]


@pytest.mark.fact("A-49", "H-96")
@pytest.mark.parametrize("version", [7, 9])
def test_a_stable_fetch_that_waited_for_a_failed_write_looks_for_the_coordinator(
    office: Office, version: int
) -> None:
    def fail() -> None:
        raise LogError("the disk is on fire")

    assert isinstance(office.broker.log, MemoryLog)
    office.broker.log.before_write = fail
    committed = send_commit(office)
    request = OffsetFetchRequest(require_stable=True, group_id="g", topics=None)
    if version >= 8:
        request = OffsetFetchRequest(require_stable=True, groups=[asked("g")])
    answer = office.call(request, version)
    office.broker.log.before_write = None
    answers = answer.groups if version >= 8 else [answer]
    assert [(each.error_code, each.topics) for each in answers] == [
        (NOT_COORDINATOR, [])
    ]
    assert committed.done()


@pytest.mark.fact("A-50")
def test_a_group_that_may_not_be_described_is_refused() -> None:
    with Office((Operation.DESCRIBE, GROUP, "secret")) as office:
        commit(office, "secret", t=1)
        commit(office, "g", t=2)
        groups = fetch(office, asked("secret"), asked("g"))
        assert [group.error_code for group in groups] == [30, 0]
        assert groups[0].topics == []


@pytest.mark.fact("A-50")
@pytest.mark.parametrize("version", [1, 7])
def test_a_topic_that_may_not_be_described_is_refused_by_name(version: int) -> None:
    with Office((Operation.DESCRIBE, TOPIC, "t")) as office:
        commit(office, t=1, u=2)
        response = fetch_old(office, version, "t", "u")
        assert told(response.topics) == [(-1, 29), (2, 0)]


@pytest.mark.fact("A-50")
def test_a_topic_that_may_not_be_described_is_left_out_of_everything() -> None:
    with Office((Operation.DESCRIBE, TOPIC, "t")) as office:
        commit(office, t=1, u=2)
        [group] = fetch(office, asked("g"))
        assert [topic.name for topic in group.topics] == ["u"]
        assert group.error_code == 0


@pytest.mark.fact("A-15")
def test_version_10_speaks_of_topic_ids(office: Office) -> None:
    assert commit(office, version=10, t=5) == [0]
    topic = OffsetFetchRequestTopics(
        topic_id=office.topic_id("t"), partition_indexes=[0]
    )
    unknown = OffsetFetchRequestTopics(topic_id=b"?" * 16, partition_indexes=[0])
    by_id = OffsetFetchRequestGroup(group_id="g", topics=[topic, unknown])
    named, everything = fetch(office, by_id, asked("g"), version=10)
    assert told(named.topics) == [(5, 0), (-1, 100)]
    assert [each.topic_id for each in everything.topics] == [office.topic_id("t")]


# OffsetCommit and OffsetDelete.


@pytest.mark.fact("E17-08")
def test_a_commit_needs_read_on_the_group_and_each_topic() -> None:
    denied = ((Operation.READ, GROUP, "secret"), (Operation.READ, TOPIC, "t"))
    with Office(*denied) as office:
        assert commit(office, "secret", u=1) == [30]
        assert commit(office, "g", t=1, u=2) == [29, 0]
        assert commit(office, "g", 10, t=1, u=2) == [29, 0]
        [group] = fetch(office, asked("g"))
        assert [topic.name for topic in group.topics] == ["u"]


def delete_offsets(office: Office, group_id: str, *topics: str) -> Any:
    partition = OffsetDeleteRequestPartition(partition_index=0)
    wanted = [OffsetDeleteRequestTopic(name=t, partitions=[partition]) for t in topics]
    return office.call(OffsetDeleteRequest(group_id=group_id, topics=wanted), 0)


@pytest.mark.fact("D-50", "D-51")
def test_a_delete_needs_delete_on_the_group_and_read_on_each_topic() -> None:
    with Office((Operation.DELETE, GROUP, "kept")) as office:
        commit(office, "kept", t=1)
        commit(office, "g", t=1, u=2)
        refused = delete_offsets(office, "kept", "t")
        assert (refused.error_code, refused.topics) == (30, [])
        office.authorizer.denied.add((Operation.READ, TOPIC, "t"))
        answer = delete_offsets(office, "g", "t", "u")
        codes = [topic.partitions[0].error_code for topic in answer.topics]
        assert (answer.error_code, codes) == (0, [29, 0])


# DescribeGroups, ListGroups, DeleteGroups.


@pytest.mark.fact("C-25", "C-26", "H-113")
def test_each_group_is_described_on_its_own() -> None:
    with Office((Operation.DESCRIBE, GROUP, "secret")) as office:
        names = [office.group_in(shard) for shard in (0, 1)]
        commit(office, names[1], t=1)
        set_phase(office, 0, Phase.LOADING)
        set_phase(office, 2, Phase.STOPPED)
        wanted = ["secret", *names, "", office.group_in(2)]
        groups = office.call(DescribeGroupsRequest(groups=wanted), 5).groups
        assert [group.group_id for group in groups] == wanted
        codes = [group.error_code for group in groups]
        empty = LOADING if office.broker.shard_of("") == 0 else 0
        assert codes == [30, LOADING, 0, empty, NOT_COORDINATOR]
        assert groups[2].group_state == "Empty"


@pytest.mark.fact("C-25")
def test_authorised_operations_are_told_when_asked_for() -> None:
    with Office(DELETE_G, (Operation.DESCRIBE, GROUP, "s")) as office:
        commit(office, t=1)
        told_of = []
        for asked_for in (False, True):
            request = DescribeGroupsRequest(
                groups=["g", "s"], include_authorized_operations=asked_for
            )
            groups = office.call(request, 5).groups
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


@pytest.mark.fact("E28-06", "H-117")
def test_a_list_leaves_out_shards_that_went_and_fails_for_those_that_load(
    office: Office,
) -> None:
    names = [office.group_in(shard) for shard in range(SHARDS)]
    for name in names:
        commit(office, name, t=1)
    set_phase(office, 1, Phase.STOPPED)
    response = office.call(ListGroupsRequest(), 5)
    listed = {group.group_id for group in response.groups}
    assert (response.error_code, listed) == (0, {*names} - {names[1]})
    set_phase(office, 2, Phase.LOADING)
    response = office.call(ListGroupsRequest(), 5)
    assert (response.error_code, response.groups) == (LOADING, [])


@pytest.mark.fact("E28-06")
def test_each_node_lists_the_groups_of_its_own_shards() -> None:
    with Office(node_count=2) as office:
        for shard in range(SHARDS):
            commit_at(office, shard)
        listed = [
            {
                group.group_id
                for group in office.call(ListGroupsRequest(), 5, node).groups
            }
            for node in (0, 1)
        ]
        names = [office.group_in(shard) for shard in range(SHARDS)]
        assert listed == [{*names[0::2]}, {*names[1::2]}]


def commit_at(office: Office, shard: int) -> None:
    """Commit for a group of a shard, at the node that coordinates it."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
    request = OffsetCommitRequest(group_id=office.group_in(shard), topics=[topic])
    right, wrong = shard % 2, (shard + 1) % 2
    codes = [
        office.call(request, 9, node).topics[0].partitions[0].error_code
        for node in (wrong, right)
    ]
    assert codes == [NOT_COORDINATOR, 0]


@pytest.mark.fact("E28-08", "H-115")
def test_a_list_waits_until_what_it_shows_is_durable(office: Office) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    joined = office.send(join, 4)
    listed = office.send(ListGroupsRequest(), 5)
    assert not joined.done()
    assert not listed.done()
    response = office.as_read(office.loop.run_until_complete(listed), 5)
    assert joined.done()
    assert [group.group_id for group in response.groups] == ["g"]


@pytest.mark.fact("D-02", "D-04", "D-13", "D-16", "D-17", "D-34", "H-111")
@pytest.mark.parametrize("version", range(4))
def test_each_group_is_deleted_on_its_own(version: int) -> None:
    with Office((Operation.DELETE, GROUP, "kept")) as office:
        names = [office.group_in(shard) for shard in range(3)]
        for name in (*names, "kept"):
            commit(office, name, t=1)
        set_phase(office, 0, Phase.LOADING)
        set_phase(office, 1, Phase.STOPPED)
        wanted = [names[0], "kept", names[2], names[1], names[2], "gone-" + names[2]]
        answer = office.call(DeleteGroupsRequest(groups_names=wanted), version)
        shard = office.broker.shard_of(wanted[-1])
        unknown = {0: LOADING, 1: NOT_COORDINATOR}.get(shard, 69)
        assert [(each.group_id, each.error_code) for each in answer.results] == [
            (names[0], LOADING),
            ("kept", 30),
            (names[2], 0),
            (names[1], NOT_COORDINATOR),
            (wanted[-1], unknown),
        ]


@pytest.mark.fact("D-17", "H-111")
def test_a_shard_that_fails_marks_its_own_groups_alone(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [office.group_in(shard) for shard in range(2)]
    for name in names:
        commit(office, name, t=1)

    def fail(*_: object) -> None:
        raise AssertionError("a bug")

    assert isinstance(office.shards[0].shard, Shard)
    office.shards[0].handle = fail  # type: ignore[assignment]
    answer = office.call(DeleteGroupsRequest(groups_names=names), 2)
    assert [each.error_code for each in answer.results] == [-1, 0]


@pytest.mark.fact("D-35")
@pytest.mark.parametrize(("denied", "code"), [((), 0), ((DELETE_G,), 30)])
def test_who_has_not_said_who_they_are_is_authorised_too(
    denied: tuple[Any, ...], code: int
) -> None:
    with Office(*denied) as office:
        commit(office, t=1)
        [result] = office.call(DeleteGroupsRequest(groups_names=["g"]), 2).results
        assert result.error_code == code
