"""A server with ACLs, and with the topics and groups that the rows need."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.auth.acl import AclBinding, PermissionType, Principal
from coterie.auth.authorizer import AclAuthorizer
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.server.apis.acl_rows import Right, Row
from tests.broker.server.apis.acl_rows_offsets import commit
from tests.broker.server.apis.in_process_server import InProcessServer

ALICE = Principal("User", "alice")
ADMIN = Principal("User", "admin")


class AuthorizingServer(InProcessServer):
    """A server with ACLs, and with the topics and groups that the rows need."""

    def __init__(self, settings: Settings) -> None:
        self.acls = AclAuthorizer(super_users=[ADMIN])
        super().__init__(settings=settings, authorizer=self.acls, principal=ADMIN)
        topic_d = m.CreatableTopic(name="d", num_partitions=1, replication_factor=1)
        self.call(m.CreateTopicsRequest(topics=[topic_d], timeout_ms=5_000), 7)
        self.call(commit(self), 9)
        join = m.ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="first",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert self.call(join, 1).error_code == 0
        share = m.ShareGroupHeartbeatRequest(
            group_id="s", member_id="first", subscribed_topic_names=["none"]
        )
        assert self.call(share, 1).error_code == 0

    def grant(self, *rights: Right) -> None:
        """Replace the ACLs of Alice."""
        self.acls.clear()
        for right in rights:
            acl = AclBinding(ALICE, PermissionType.ALLOW, *right)
            self.acls.replay(acl.key, acl.to_value())

    def result(self, row: Row, rights: Iterable[Right]) -> object:
        """Return the result of a row for Alice with only these operations."""
        self.grant(*rights)
        self.principal = ALICE
        try:
            return row.result(self.call(row.request(self), row.version))
        finally:
            self.principal = ADMIN
