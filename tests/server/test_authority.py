"""Which authorizer counts: everybody may do everything only where nobody else comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.auth.acl import Acl, Permission
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import (
    ANONYMOUS,
    CLUSTER_NAME,
    AllowAll,
    Caller,
    Operation,
    Principal,
    ResourceType,
)
from coterie.catalog.broker_configs import broker_config_value
from coterie.log.memory import MemoryLog
from coterie.server.authority import choose_authorizer, is_loopback
from coterie.server.config import make_settings
from coterie.server.server import Server, ServerPlan
from coterie.settings import Settings
from coterie.types import SecurityProtocol

ALICE = Principal("User", "alice")
DN = Principal("User", "CN=bob,OU=ops")
DELETE = Operation.DELETE, ResourceType.GROUP, "g"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.7", False),
        ("localhost.example", False),
    ],
)
def test_a_host_is_loopback_when_only_this_machine_can_come(
    host: str, loopback: bool
) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.fact("D-35")
def test_everybody_may_do_everything_on_a_loopback_listener_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert isinstance(choose_authorizer(Settings(), ["127.0.0.1"]), AllowAll)
    assert caplog.text == ""
    for hosts in ["0.0.0.0"], ["127.0.0.1", "10.0.0.7"], [""]:
        assert isinstance(choose_authorizer(Settings(), hosts), AclAuthorizer)
        [line] = caplog.messages
        assert "nobody may do everything, others what an ACL allows" in line
        assert "name super.users, who add ACLs then (coterie acls add)" in line
        assert "or start with authorizer=allow-all" in line
        caplog.clear()


def test_what_the_settings_say_counts_on_every_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    open_to_all = Settings(authorizer="allow-all")
    assert isinstance(choose_authorizer(open_to_all, ["0.0.0.0"]), AllowAll)
    careful = Settings(authorizer="acl")
    assert isinstance(choose_authorizer(careful, ["127.0.0.1"]), AclAuthorizer)
    assert caplog.text == ""


def test_super_users_are_written_as_kafka_writes_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = "User:alice; User:CN=bob,OU=ops;"
    settings = make_settings({"super.users": text})
    assert settings.super_users == ("User:alice", "User:CN=bob,OU=ops")
    told = broker_config_value(settings, "super.users")
    assert told == "User:alice;User:CN=bob,OU=ops"
    authorizer = choose_authorizer(settings, ["10.0.0.7"])
    assert "super users (User:alice, User:CN=bob,OU=ops) may do eve" in caplog.text
    assert "let them add ACLs (coterie acls add), or start with" in caplog.text
    for principal, may in (ALICE, True), (DN, True), (Principal("User", "eve"), False):
        assert authorizer.authorize(Caller(principal, "10.0.0.8"), *DELETE) is may


def test_leave_for_everyone_and_what_delete_implies_are_settings() -> None:
    settings = make_settings(
        {
            "authorizer": "acl",
            "allow.everyone.if.no.acl.found": "true",
            "acl.delete.implies.describe": "false",
        }
    )
    authorizer = choose_authorizer(settings, ["127.0.0.1"])
    assert isinstance(authorizer, AclAuthorizer)
    caller = Caller(ALICE, "127.0.0.1")
    assert authorizer.authorize(caller, *DELETE)
    acl = Acl(ALICE, Permission.ALLOW, *DELETE)
    authorizer.replay(acl.key, acl.to_value())
    assert authorizer.authorize(caller, *DELETE)
    assert not authorizer.authorize(caller, Operation.DESCRIBE, *DELETE[1:])


@pytest.mark.fact("D-35")
def test_a_server_for_other_machines_starts_with_access_control_lists(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answers(host: str, **settings: Any) -> bool:
        """Whether somebody without a name may describe the cluster."""
        plan = ServerPlan(settings=Settings(**settings), host=host, port=0)
        server = Server(plan)
        await server.start(MemoryLog())
        try:
            caller = Caller(ANONYMOUS, "127.0.0.1")
            return server.assembly.broker.authorizer.authorize(
                caller, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME
            )
        finally:
            await server.stop()

    every_address = "0.0.0.0"
    assert asyncio.run(answers("127.0.0.1"))
    assert not asyncio.run(answers(every_address))
    assert "other machines can reach 0.0.0.0" in caplog.text
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
def test_passwords_that_others_can_read_on_their_way_are_a_warning(
    caplog: pytest.LogCaptureFixture,
    protocol: str,
    host: str,
    mechanisms: tuple[str, ...],
    is_warned: bool,
) -> None:
    async def start_and_stop() -> None:
        settings = Settings(sasl_enabled_mechanisms=mechanisms)
        plan = ServerPlan(
            settings=settings,
            host=host,
            port=0,
            protocol=SecurityProtocol[protocol],
        )
        server = Server(plan, AllowAll())
        await server.start(MemoryLog())
        await server.stop()

    asyncio.run(start_and_stop())
    assert ("PLAIN is enabled without TLS" in caplog.text) is is_warned
