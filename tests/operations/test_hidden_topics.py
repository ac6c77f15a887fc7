"""Operations of a principal that may not describe some topics of a group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from coterie.auth.acl import (
    AclBinding,
    Operation,
    PermissionType,
    Principal,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.client import AdminClient
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.topics import NewTopic
from coterie.operations.apply import apply_items
from coterie.operations.exporter.exposition import Style
from coterie.operations.exporter.poll import Poller, PollOptions, TopicFilter
from coterie.operations.exporter.service import Exporter
from coterie.operations.hidden_topics import (
    DELETED_UNSEEN,
    LEFT_OUT,
    NOT_IN_SNAPSHOT,
    may_hide_topics,
)
from coterie.operations.plan_files import Action
from coterie.operations.plans import (
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_offsets,
)
from coterie.operations.resets import ToEarliest
from coterie.operations.selection import Selection, TopicSelector
from coterie.operations.undo import plan_undo
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.scripted_broker import OPTIONS
from tests.operations.small_cluster import MemorySnapshot

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

ME = Principal("User", "ANONYMOUS")
OPEN, CLOSED = TopicPartition("open", 0), TopicPartition("closed", 0)


class Rights:
    """The ACL bindings of a server."""

    def __init__(self) -> None:
        self.authorizer = AclAuthorizer()

    def allow_everything(self) -> None:
        for kind, name in (
            (ResourceType.GROUP, "*"),
            (ResourceType.CLUSTER, "kafka-cluster"),
            (ResourceType.TOPIC, "*"),
        ):
            self.set(kind, name)

    def set(
        self,
        kind: ResourceType,
        name: str,
        permission: PermissionType = PermissionType.ALLOW,
        principal: Principal = ME,
        *,
        remove: bool = False,
    ) -> None:
        acl = AclBinding(principal, permission, Operation.ALL, kind, name)
        self.authorizer.replay(acl.key, None if remove else acl.to_value())

    def allow_only_the_open_topic(self) -> None:
        self.set(ResourceType.TOPIC, "open")
        self.set(ResourceType.TOPIC, "*", remove=True)

    def deny_the_closed_topic(self, principal: Principal = ME) -> None:
        self.set(ResourceType.TOPIC, "closed", PermissionType.DENY, principal)


@pytest.fixture
def rights() -> Rights:
    return Rights()


@pytest.fixture
def server(rights: Rights) -> Iterator[ThreadServer]:
    with ThreadServer(authorizer=rights.authorizer) as server:
        rights.allow_everything()  # a server that starts reads the bindings of its log
        yield server


@pytest_asyncio.fixture
async def admin(server: ThreadServer) -> AsyncIterator[AdminClient]:
    """Yield a client of a server with a group that has offsets of both topics."""
    [(host, port)] = server.addresses
    async with AdminClient(f"{host}:{port}", OPTIONS) as client:
        topics = [NewTopic(each.topic, 1, 1) for each in (OPEN, CLOSED)]
        (await client.topics.create(topics)).all()
        commits = dict.fromkeys((OPEN, CLOSED), CommittedOffset(0))
        (await client.group_offsets.alter("g", commits)).all()
        yield client


async def test_a_principal_with_every_right_is_not_warned(
    admin: AdminClient, rights: Rights
) -> None:
    rights.deny_the_closed_topic(Principal("User", "other"))
    assert not await may_hide_topics(admin, ["g"])


@pytest.mark.parametrize("how", ["allow_only_the_open_topic", "deny_the_closed_topic"])
async def test_a_deletion_and_its_undo_say_that_offsets_may_be_missing(
    admin: AdminClient, rights: Rights, how: str
) -> None:
    getattr(rights, how)()
    snapshot = MemorySnapshot()
    plans = await plan_delete_groups(admin, ["g"])
    (result,) = await apply_items(admin, items_of(plans), snapshot)
    assert plans[0].warnings == result.warnings == (DELETED_UNSEEN,)
    assert [row.at for row in plans[0].rows] == [OPEN]
    (undo,) = await plan_undo(admin, snapshot.content)
    assert undo.warnings == (NOT_IN_SNAPSHOT,)


async def test_everybody_may_be_denied_a_topic(
    admin: AdminClient, rights: Rights
) -> None:
    rights.deny_the_closed_topic(Principal("User", "*"))
    assert await may_hide_topics(admin, ["g"])


async def test_without_the_right_to_list_bindings_a_denial_is_unknown(
    admin: AdminClient, rights: Rights
) -> None:
    rights.deny_the_closed_topic()
    rights.set(ResourceType.CLUSTER, "kafka-cluster", remove=True)
    assert not await may_hide_topics(admin, ["g"])


async def test_resets_and_clones_of_all_offsets_say_that_some_may_be_left_out(
    admin: AdminClient, rights: Rights
) -> None:
    rights.allow_only_the_open_topic()
    reset = {"g": ToEarliest()}
    (of_all,) = await plan_offsets(admin, Action.RESET, reset)
    scope = (TopicSelector("open"),)
    (of_one,) = await plan_offsets(admin, Action.RESET, reset, scope)
    cloned = await plan_clone(admin, "g", "new")
    cloned_one = await plan_clone(admin, "g", "new", ["open"])
    assert of_all.warnings == cloned.warnings == (LEFT_OUT,)
    assert of_one.warnings == cloned_one.warnings == ()


async def test_a_poll_says_that_partitions_may_be_missing(
    admin: AdminClient, rights: Rights
) -> None:
    options = PollOptions(
        selection=Selection(), topics=TopicFilter(), interval_ms=1_000
    )
    assert not (await Poller(admin, options).poll()).may_hide_topics
    rights.allow_only_the_open_topic()
    poller, exporter = Poller(admin, options), Exporter(Style(), interval_s=1)
    assert await exporter.poll(poller)
    assert exporter.may_hide_topics
    [group] = (await poller.poll()).groups
    assert [each.at for each in group.partitions] == [OPEN]


async def test_an_exporter_warns_once_whenever_it_finds_out(
    admin: AdminClient, rights: Rights, caplog: pytest.LogCaptureFixture
) -> None:
    rights.allow_only_the_open_topic()
    options = PollOptions(
        selection=Selection(), topics=TopicFilter(), interval_ms=1_000
    )
    poller, exporter = Poller(admin, options), Exporter(Style(), interval_s=1)
    offsets = (await admin.group_offsets.fetch_many({"g": None})).one("g").offsets
    (await admin.groups.delete(["g"])).all()
    await exporter.poll_and_log(poller)
    assert LEFT_OUT not in caplog.text, "no group tells"
    restored = {at: each for at, each in offsets.items() if each is not None}
    (await admin.group_offsets.alter("g", restored)).all()
    for _ in range(3):
        await exporter.poll_and_log(poller)
    assert caplog.text.count(LEFT_OUT) == 1
