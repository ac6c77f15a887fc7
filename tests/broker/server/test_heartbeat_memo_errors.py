"""Error responses are never stored, and renew no session."""

from __future__ import annotations

import asyncio

import pytest

from coterie.auth.acl import (
    ANONYMOUS,
    AclBinding,
    Operation,
    PermissionType,
    Principal,
    ResourceType,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.server.broker import Node
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import read_response
from tests.broker.server.test_heartbeat_memo import (
    Client,
    World,
    counted_answers,
    in_a_world,
)

ADMIN = Principal("User", "admin")


def test_a_deleted_acl_applies_to_the_next_heartbeat() -> None:
    read = AclBinding(
        ANONYMOUS, PermissionType.ALLOW, Operation.READ, ResourceType.GROUP, "*"
    )
    acls = AclAuthorizer(super_users=[ADMIN])

    def test(world: World) -> None:
        acls.replay(read.key, read.to_value())
        world.slow.connection.principal = ADMIN
        world.create_topic()
        world.consumer_join("m")
        heartbeat = m.ConsumerGroupHeartbeatRequest(
            group_id="c", member_id="m", member_epoch=1
        )

        def code() -> tuple[int, bool]:
            """Send a heartbeat; return its error and whether the memo responded."""
            with counted_answers(world.fast) as answers:
                data = world.fast.send(heartbeat, 1)
            _, at = read_response(data[4:], tagged=True)
            response, _ = decode(m.ConsumerGroupHeartbeatResponse, 1, data[4:], at)
            return response.error_code, answers[0]

        assert [code(), code()] == [(0, False), (0, True)]
        acls.replay(read.key, None)
        timers = world.assembly.broker.runtime.shards[0].timers
        due = {key: entry.deadline_ms for key, entry in timers.entries.items()}
        no = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert [code(), code()] == [(no, False), (no, False)]
        # A refused heartbeat does not renew the session.
        assert due == {key: each.deadline_ms for key, each in timers.entries.items()}
        acls.replay(read.key, read.to_value())
        assert [code(), code()] == [(0, False), (0, True)]

    in_a_world(test, acls)


@pytest.mark.parametrize("version", range(5))
def test_an_error_response_is_never_from_the_memo(version: int) -> None:
    acls = AclAuthorizer(super_users=[ADMIN])

    def test(world: World) -> None:
        allowed = AclBinding(
            ANONYMOUS, PermissionType.ALLOW, Operation.READ, ResourceType.GROUP, "g"
        )
        acls.replay(allowed.key, allowed.to_value())
        generation, [member] = world.join([""])
        acls.clear()
        with counted_answers(world.fast) as answers:
            for _ in range(3):
                world.heartbeat(generation, member, version)
        assert answers == [False] * 3

    in_a_world(test, acls)


def test_a_node_that_does_not_coordinate_the_group_renews_no_session() -> None:
    def test(world: World) -> None:
        generation, [member] = world.join([""])
        broker = world.assembly.broker
        broker.nodes.append(Node(2, "localhost", 2, broker))
        other = Client(broker.nodes[1], asyncio.get_running_loop())
        entry = broker.runtime.shards[0].timers.entries["session", "g", member]
        entry.deadline_ms = 0
        heartbeat = m.HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member
        )
        with counted_answers(other) as answers:
            for _ in range(3):
                response = other.send(heartbeat, 0)
                code = int.from_bytes(response[-2:])
                assert code == ErrorCode.NOT_COORDINATOR
        assert answers == [False] * 3
        assert entry.deadline_ms == 0

    in_a_world(test)
