"""The topics and groups that the table of required operations needs, on any broker."""

from __future__ import annotations

from functools import partial
from typing import Any

from coterie.auth.acl import Operation, PatternType, PermissionType, ResourceType
from coterie.wire import messages as m
from coterie.wire.schema import Message
from tests.broker.server.apis.acl_rows import Right, Row
from tests.broker.server.apis.acl_rows_offsets import commit
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .sasl_listener import SaslListener

PARTITIONS = {"t": 4, "u": 4, "d": 1}
BOUND: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": PermissionType.ANY,
}


class AclEnvironment:
    """Topics, groups and bindings on a broker, changed as its admin for one user."""

    def __init__(self, sasl: SaslListener, user: str) -> None:
        self._door = sasl
        self._user = user
        self._admin: WireClient = sasl.client("admin")
        self._bound = {**BOUND, "principal_filter": f"User:{user}"}
        self.make_topics()
        for key_type, key in (0, "g"), (0, "c"), (1, "x"):
            has_coordinator = partial(self._has_coordinator, key_type, key)
            eventually(has_coordinator, expected=f"a node for {key}")
        eventually(self._commits, expected="offsets of g")

    def close(self) -> None:
        self.grant()
        self._admin.close()

    def topic_id(self, name: str) -> bytes:
        request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)])
        [found] = self._admin.call(request, 12).topics
        assert found.error_code == 0
        return bytes(found.topic_id)

    def make_topics(self) -> None:
        """Create missing topics, and delete the topic "new" that rows create."""
        new = m.DeleteTopicState(name="new")
        self._admin.call(m.DeleteTopicsRequest(topics=[new], timeout_ms=5_000), 6)
        topics = [
            m.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in PARTITIONS.items()
        ]
        self._admin.call(m.CreateTopicsRequest(topics=topics, timeout_ms=5_000), 7)
        for name in PARTITIONS:
            eventually(partial(self._has, name), expected=f"topic {name}")

    def join(self) -> None:
        """Join group c, so that it has a live member."""
        heartbeat = m.ConsumerGroupHeartbeatRequest(
            group_id="c",
            member_id="first",
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        assert self._admin.call(heartbeat, 1).error_code == 0

    def join_share_group(self) -> None:
        """Join group s, so that it has a live member."""
        heartbeat = m.ShareGroupHeartbeatRequest(
            group_id="s", member_id="first", subscribed_topic_names=["none"]
        )
        assert self._admin.call(heartbeat, 1).error_code == 0

    def grant(self, *granted: Right) -> None:
        """Grant the user exactly these operations; wait until they are in effect."""
        rights = set(granted)
        everything = m.DeleteAclsFilter(**self._bound)
        self._admin.call(m.DeleteAclsRequest(filters=[everything]), 3)
        creations = [
            m.AclCreation(
                resource_type=right.resource_type,
                resource_name=right.name,
                principal=f"User:{self._user}",
                host="*",
                operation=right.operation,
                permission_type=PermissionType.ALLOW,
            )
            for right in rights
        ]
        created = self._admin.call(m.CreateAclsRequest(creations=creations), 3)
        assert {result.error_code for result in created.results} <= {0}
        eventually(lambda: self._granted() == rights, expected=f"{rights} in effect")

    def result(self, row: Row, rights: set[Right]) -> object:
        """Return the row's result for a user with exactly these operations granted."""
        if row.leaves_topics:
            self.make_topics()
        if any(right.name == "c" for right in row.without):
            self.join()
        if any(right.name == "s" for right in row.without):
            self.join_share_group()
        self.grant(*rights)
        return row.result(self.call(row.request(self), row.version))

    def call(self, request: Message, version: int) -> Any:
        """Send a request as the user, on a new connection."""
        client = self._door.client(self._user)
        try:
            return client.call(request, version)
        finally:
            client.close()

    def _granted(self) -> set[Right]:
        found = self._admin.call(m.DescribeAclsRequest(**self._bound), 3)
        return {
            Right(
                Operation(acl.operation),
                ResourceType(each.resource_type),
                each.resource_name,
            )
            for each in found.resources
            for acl in each.acls
        }

    def _has(self, name: str) -> bool:
        request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)])
        [found] = self._admin.call(request, 12).topics
        return found.error_code == 0 and len(found.partitions) == PARTITIONS[name]

    def _has_coordinator(self, key_type: int, key: str) -> bool:
        request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        [found] = self._admin.call(request, 4).coordinators
        return bool(found.error_code == 0)

    def _commits(self) -> bool:
        answer = self._admin.call(commit(self), 9)
        return all(p.error_code == 0 for t in answer.topics for p in t.partitions)
