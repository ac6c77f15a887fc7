"""The choice of the authorizer by settings and listeners."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.auth.acl import (
    ANONYMOUS,
    CLUSTER_NAME,
    AclBinding,
    Operation,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer, AllowAll
from coterie.broker.catalog.configs import broker_config_value
from coterie.broker.log.memory import MemoryLog
from coterie.broker.server.config import make_settings
from coterie.broker.server.security import choose_authorizer
from coterie.broker.server.server import Server, ServerOptions
from coterie.settings import Settings
from coterie.types import SecurityProtocol

ALICE = Principal("User", "alice")
DN = Principal("User", "CN=bob,OU=ops")
DELETE = Operation.DELETE, ResourceType.GROUP, "g"


@pytest.mark.fact("D-35")
def test_only_loopback_listeners_authorize_every_operation_by_default(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert isinstance(choose_authorizer(Settings(), ["127.0.0.1"]), AllowAll)
    assert caplog.text == ""
    for hosts in ["0.0.0.0"], ["127.0.0.1", "10.0.0.7"], [""]:
        assert isinstance(choose_authorizer(Settings(), hosts), AclAuthorizer)
        [line] = caplog.messages
        assert "no principal has access without an ACL" in line
        assert "set super.users and add ACLs as one of them (coterie acls add)" in line
        assert "or start with authorizer=allow-all" in line
        caplog.clear()


def test_an_explicit_authorizer_applies_to_every_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    open_to_all = Settings(authorizer="allow-all")
    assert isinstance(choose_authorizer(open_to_all, ["0.0.0.0"]), AllowAll)
    careful = Settings(authorizer="acl")
    assert isinstance(choose_authorizer(careful, ["127.0.0.1"]), AclAuthorizer)
    assert caplog.text == ""


def test_super_users_have_kafkas_format(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = "User:alice; User:CN=bob,OU=ops;"
    settings = make_settings({"super.users": text})
    assert settings.super_users == ("User:alice", "User:CN=bob,OU=ops")
    value = broker_config_value(settings, "super.users")
    assert value == "User:alice;User:CN=bob,OU=ops"
    authorizer = choose_authorizer(settings, ["10.0.0.7"])
    assert "only super users (User:alice, User:CN=bob,OU=ops) and pri" in caplog.text
    assert "add ACLs as a super user (coterie acls add), or start with" in caplog.text
    for principal, may in (ALICE, True), (DN, True), (Principal("User", "eve"), False):
        assert (
            authorizer.authorize(RequestContext(principal, "10.0.0.8"), *DELETE) is may
        )


def test_allow_everyone_and_delete_implies_describe_are_settings() -> None:
    settings = make_settings(
        {
            "authorizer": "acl",
            "allow.everyone.if.no.acl.found": "true",
            "acl.delete.implies.describe": "false",
        }
    )
    authorizer = choose_authorizer(settings, ["127.0.0.1"])
    assert isinstance(authorizer, AclAuthorizer)
    caller = RequestContext(ALICE, "127.0.0.1")
    assert authorizer.authorize(caller, *DELETE)
    acl = AclBinding(ALICE, PermissionType.ALLOW, *DELETE)
    authorizer.replay(acl.key, acl.to_value())
    assert authorizer.authorize(caller, *DELETE)
    assert not authorizer.authorize(caller, Operation.DESCRIBE, *DELETE[1:])


@pytest.mark.fact("D-35")
def test_a_server_that_other_machines_can_reach_enforces_acls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answers(host: str, **settings: Any) -> bool:
        """Return whether the anonymous principal has DESCRIBE on the cluster."""
        options = ServerOptions(settings=Settings(**settings), host=host, port=0)
        server = Server(options)
        await server.start(MemoryLog())
        try:
            caller = RequestContext(ANONYMOUS, "127.0.0.1")
            return server.assembly.broker.authorizer.authorize(
                caller, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
            )
        finally:
            await server.stop()

    every_address = "0.0.0.0"
    assert asyncio.run(answers("127.0.0.1"))
    assert not asyncio.run(answers(every_address))
    assert "other machines can connect to 0.0.0.0" in caplog.text
    assert asyncio.run(answers(every_address, authorizer="allow-all"))
    assert asyncio.run(answers(every_address, super_users=("User:ANONYMOUS",)))


@pytest.mark.parametrize(
    ("protocol", "host", "mechanisms", "is_warned"),
    [
        ("SASL_PLAINTEXT", "0.0.0.0", ("PLAIN",), True),
        ("SASL_PLAINTEXT", "127.0.0.1", ("PLAIN",), False),
        ("SASL_PLAINTEXT", "0.0.0.0", ("SCRAM-SHA-256",), False),
        ("PLAINTEXT", "0.0.0.0", ("PLAIN",), False),
    ],
)
def test_clear_text_passwords_log_a_warning(
    caplog: pytest.LogCaptureFixture,
    protocol: str,
    host: str,
    mechanisms: tuple[str, ...],
    is_warned: bool,
) -> None:
    async def start_and_stop() -> None:
        settings = Settings(sasl_enabled_mechanisms=mechanisms)
        options = ServerOptions(
            settings=settings,
            host=host,
            port=0,
            protocol=SecurityProtocol[protocol],
        )
        server = Server(options, AllowAll())
        await server.start(MemoryLog())
        await server.stop()

    asyncio.run(start_and_stop())
    assert ("PLAIN is enabled without TLS" in caplog.text) is is_warned
