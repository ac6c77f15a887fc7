"""AdminClient operations on groups of real consumers, with both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import GroupState, GroupType
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

from .consumer_groups import CLIENT_ID, PROTOCOLS, consuming, make_empty_group

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


@pytest_asyncio.fixture
async def admin(bootstrap: str) -> AsyncIterator[AdminClient]:
    async with AdminClient(bootstrap) as admin:
        yield admin


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_live_group_is_described(
    admin: AdminClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        found = (await admin.groups.describe([group])).one(group)
    assert found.type is GroupType(protocol)
    assert found.state is GroupState.STABLE
    assert found.protocol_type == "consumer"
    assert found.assignor == {"classic": "range", "consumer": "uniform"}[protocol]
    assert str(found.coordinator) == bootstrap
    (member,) = found.members
    assert member.client_id == CLIENT_ID
    assert member.host == "/127.0.0.1"
    assert member.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert member.subscribed_topics == (topic,)


@pytest.mark.fact("E29-02")
async def test_only_consumer_groups_have_epochs(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    with consuming(bootstrap, group, topic, "consumer"):
        found = (await admin.groups.describe([group])).one(group)
    assert found.group_epoch is not None
    assert found.assignment_epoch == found.group_epoch
    (member,) = found.members
    assert member.epoch == found.group_epoch
    assert member.is_classic is False
    assert member.target_assignment == member.assignment
    assert (found.generation_id, found.leader_id) == (None, None)


async def test_only_coterie_returns_the_generation_of_a_classic_group(
    admin: AdminClient, bootstrap: str, group: str, topic: str, broker_kind: str
) -> None:
    with consuming(bootstrap, group, topic, "classic"):
        found = (await admin.groups.describe([group])).one(group)
    (member,) = found.members
    expected = {"coterie": (1, member.member_id), "kafka": (None, None)}
    assert (found.generation_id, found.leader_id) == expected[broker_kind]
    assert (found.group_epoch, member.epoch) == (None, None)


@pytest.mark.fact("E29-01")
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_groups_are_listed_by_state_and_type(
    admin: AdminClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    kind = GroupType(protocol)
    with consuming(bootstrap, group, topic, protocol):
        stable = await admin.groups.list(states=[GroupState.STABLE], types=[kind])
        empty = await admin.groups.list(states=[GroupState.EMPTY], types=[kind])
    (listing,) = [each for each in stable.groups if each.group_id == group]
    assert (listing.type, listing.state) == (kind, GroupState.STABLE)
    assert listing.protocol_type == "consumer"
    assert group not in {each.group_id for each in empty.groups}
    assert not stable.errors


async def test_a_missing_group_does_not_affect_the_others(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, group, topic, "consumer")
    found = await admin.groups.describe([group, f"{group}-nobody"])
    assert found.one(group).state is GroupState.EMPTY
    (error,) = found.errors.values()
    assert code_of(error) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_offsets_of_many_groups_are_fetched_in_one_call(
    admin: AdminClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    here, missing = TopicPartition(topic, 0), TopicPartition(topic, 7)
    found = await admin.group_offsets.fetch_many(
        {group: None, f"{group}-nobody": None}, require_stable=True
    )
    offsets = found.one(group).offsets
    assert {each: at and at.offset for each, at in offsets.items()} == {
        here: 3,
        TopicPartition(topic, 1): 3,
    }
    assert found.one(f"{group}-nobody").offsets == {}
    named = await admin.group_offsets.fetch(group, [here, missing])
    assert named.offsets[missing] is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_offsets_of_an_empty_group_are_altered_and_deleted(
    admin: AdminClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    make_empty_group(bootstrap, group, topic, protocol)
    here, there = TopicPartition(topic, 0), TopicPartition(topic, 1)
    wanted = CommittedOffset(1, leader_epoch=0, metadata="by hand")
    assert not (await admin.group_offsets.alter(group, {here: wanted})).errors
    assert not (await admin.group_offsets.delete(group, [there])).errors
    found = await admin.group_offsets.fetch(group)
    assert found.offsets == {here: wanted}


@pytest.mark.fact("E29-08")
async def test_offsets_of_a_consumer_group_with_members_are_not_altered(
    admin: AdminClient, bootstrap: str, group: str, topic: str
) -> None:
    here = TopicPartition(topic, 0)
    with consuming(bootstrap, group, topic, "consumer"):
        refused = await admin.group_offsets.alter(group, {here: CommittedOffset(1)})
        kept = await admin.group_offsets.delete(group, [here])
    assert code_of(refused.errors[here]) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(kept.errors[here]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_only_groups_without_members_are_deleted(
    admin: AdminClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    empty = f"{group}-empty"
    make_empty_group(bootstrap, empty, topic, protocol)
    with consuming(bootstrap, group, topic, protocol):
        ended = await admin.groups.delete([group, empty, f"{group}-nobody"])
    assert list(ended.values) == [empty]
    assert {each: code_of(error) for each, error in ended.errors.items()} == {
        group: ErrorCode.NON_EMPTY_GROUP,
        f"{group}-nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_admin_client_removes_the_members_of_a_group(
    admin: AdminClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        before = (await admin.groups.describe([group])).one(group)
        removed = await admin.groups.remove_members(group, reason="a test")
        after = (await admin.groups.describe([group])).one(group)
    assert not removed.errors
    assert len(removed.values) == len(before.members) == 1
    assert {each.member_id for each in before.members}.isdisjoint(
        each.member_id for each in after.members
    )
