"""A server that decides by bindings, with topics, groups and offsets to ask about."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.auth.acl import Acl, Permission
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import Principal
from coterie.settings import Settings
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.server.apis.acl_rows import Right, Row
from tests.server.apis.acl_rows_offsets import commit
from tests.server.apis.in_process import Office

ALICE = Principal("User", "alice")
ADMIN = Principal("User", "admin")


class GuardedOffice(Office):
    """A server that decides by bindings, with what the rows speak of."""

    def __init__(self, settings: Settings) -> None:
        self.acls = AclAuthorizer(super_users=[ADMIN])
        super().__init__(settings=settings, authorizer=self.acls, principal=ADMIN)
        doomed = CreatableTopic(name="d", num_partitions=1, replication_factor=1)
        self.call(CreateTopicsRequest(topics=[doomed], timeout_ms=5_000), 7)
        self.call(commit(self), 9)
        join = ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="first",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert self.call(join, 1).error_code == 0

    def grant(self, *rights: Right) -> None:
        """Let Alice have these rights and no others."""
        self.acls.clear()
        for right in rights:
            acl = Acl(ALICE, Permission.ALLOW, *right)
            self.acls.replay(acl.key, acl.to_value())

    def told(self, row: Row, rights: Iterable[Right]) -> object:
        """What Alice is told who has these rights and no others."""
        self.grant(*rights)
        self.principal = ALICE
        try:
            return row.told(self.call(row.request(self), row.version))
        finally:
            self.principal = ADMIN
