"""The copy of upstream's ACL bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from coterie.auth.acl import (
    ANONYMOUS,
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.server.config import make_settings
from coterie.broker.server.server import Server, ServerOptions
from coterie.client.admin.admin_client import AdminClient
from coterie.client.cluster import Cluster
from coterie.client.options import ClientOptions
from coterie.errors import ApiError, ConnectionLost
from coterie.gateway.upstream.acls import AclFeed
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.client.scripted_broker import HANG_UP, OPTIONS, ScriptedBroker

from .read_model import ReadModel

pytestmark = pytest.mark.asyncio

ALICE = Principal("User", "alice")


def binding(
    group: str,
    operation: int = Operation.READ,
    permission: PermissionType = PermissionType.ALLOW,
) -> m.DescribeAclsResource:
    """Return a binding of alice as upstream describes it."""
    acl = m.AclDescription(
        principal=str(ALICE),
        host="*",
        operation=operation,
        permission_type=permission,
    )
    return m.DescribeAclsResource(
        resource_type=ResourceType.GROUP,
        resource_name=group,
        pattern_type=PatternType.LITERAL,
        acls=[acl],
    )


def bindings(*listed: m.DescribeAclsResource) -> m.DescribeAclsResponse:
    return m.DescribeAclsResponse(resources=list(listed))


def refusal(code: ErrorCode) -> m.DescribeAclsResponse:
    return m.DescribeAclsResponse(error_code=code)


class World:
    """An upstream that responds with `response`, and a feed of its bindings."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.response: Any = bindings()
        broker.answers[ApiKey.DESCRIBE_ACLS] = lambda _: self.response
        self.cluster = Cluster(broker.bootstrap, OPTIONS)
        self.acls = AclAuthorizer()
        self.feed = AclFeed(self.cluster, ReadModel(self.acls).data, self.acls)

    async def poll(self, response: Any) -> None:
        self.response = response
        await self.feed.poll()

    def allows(self, group: str, operation: Operation = Operation.READ) -> bool:
        context = RequestContext(ALICE, "127.0.0.1")
        return self.acls.authorize(context, operation, ResourceType.GROUP, group)


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with ScriptedBroker() as broker:
        world = World(broker)
        yield world
        await world.feed.close()
        await world.cluster.close()


async def test_bindings_are_copied(world: World) -> None:
    await world.poll(bindings(binding("a")))
    assert world.allows("a")
    assert not world.allows("b")


async def test_removed_bindings_have_no_effect(world: World) -> None:
    await world.poll(bindings(binding("a"), binding("b")))
    await world.poll(bindings(binding("b")))
    assert not world.allows("a")
    assert world.allows("b")


async def test_equal_responses_keep_cached_decisions(world: World) -> None:
    await world.poll(bindings(binding("a")))
    version = world.acls.version
    await world.poll(bindings(binding("a")))
    assert world.acls.version == version


async def test_a_failure_keeps_the_bindings(world: World) -> None:
    await world.poll(bindings(binding("a")))
    with pytest.raises(ConnectionLost):
        await world.poll(HANG_UP)
    with pytest.raises(ApiError):
        await world.poll(refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert world.allows("a")
    assert not world.allows("b")


async def test_bindings_of_a_newer_version_are_ignored(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.poll(bindings(binding("a", operation=100), binding("b")))
    await world.poll(bindings(binding("a", operation=100)))
    assert not world.allows("a")
    assert caplog.text.count("newer version") == 1


async def test_denials_take_effect(world: World) -> None:
    denial = binding("a", Operation.DELETE, PermissionType.DENY)
    await world.poll(bindings(binding("a", Operation.ALL), denial))
    assert world.allows("a")
    assert not world.allows("a", Operation.DELETE)


# Upstreams whose bindings cannot be read.


async def test_an_upstream_without_authorizer_allows_everything(world: World) -> None:
    assert not world.allows("a")
    world.response = refusal(ErrorCode.SECURITY_DISABLED)
    await world.feed.start()
    assert world.allows("a")


async def test_an_authorizer_of_upstream_takes_effect_later(world: World) -> None:
    await world.poll(refusal(ErrorCode.SECURITY_DISABLED))
    await world.poll(bindings(binding("b")))
    assert not world.allows("a")
    assert world.allows("b")


async def test_a_broker_that_lost_its_authorizer_opens_nothing(world: World) -> None:
    await world.poll(bindings(binding("b")))
    with pytest.raises(ApiError):
        await world.poll(refusal(ErrorCode.SECURITY_DISABLED))
    assert not world.allows("a")


# A server as upstream.


async def test_bindings_of_a_server_are_copied() -> None:
    upstream = AclAuthorizer([ANONYMOUS])
    options = ServerOptions(settings=make_settings({}), host="127.0.0.1", port=0)
    server = Server(options, upstream)
    await server.start()
    acls = AclAuthorizer()
    try:
        async with AdminClient(server.addresses, ClientOptions()) as admin:
            feed = AclFeed(admin.cluster, ReadModel(acls).data, acls)
            await feed.start()
            created = [
                AclBinding(
                    ALICE,
                    PermissionType.ALLOW,
                    operation,
                    ResourceType.GROUP,
                    "billing",
                    PatternType.PREFIXED,
                    "*",
                )
                for operation in (Operation.READ, Operation.DELETE)
            ]
            await admin.acls.create(created)
            await feed.poll()
            assert acls.matching(AclBindingFilter()) == sorted(created)
            await feed.close()
    finally:
        await server.stop()
