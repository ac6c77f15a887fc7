"""What users other than the admin may do on both servers."""

from __future__ import annotations

from typing import Final

from coterie.auth.acl import Operation, PatternType, PermissionType, ResourceType
from coterie.wire import messages as m
from tests.differential.servers import Server, client_of

_EVERY: Final = "*"
RIGHTS: Final[dict[str, tuple[tuple[ResourceType, str, Operation], ...]]] = {
    # A consumer that may read some topics.
    "alice": (
        (ResourceType.GROUP, _EVERY, Operation.READ),
        (ResourceType.TOPIC, "t1", Operation.READ),
        (ResourceType.TOPIC, "t2", Operation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, _EVERY, Operation.WRITE),
    ),
    # An observer.
    "rita": (
        (ResourceType.GROUP, _EVERY, Operation.DESCRIBE),
        (ResourceType.TOPIC, _EVERY, Operation.DESCRIBE),
        (ResourceType.CLUSTER, "kafka-cluster", Operation.DESCRIBE),
        (ResourceType.TRANSACTIONAL_ID, _EVERY, Operation.DESCRIBE),
    ),
    # An operator without topics.
    "otto": (
        (ResourceType.GROUP, _EVERY, Operation.DELETE),
        (ResourceType.GROUP, _EVERY, Operation.ALTER_CONFIGS),
        (ResourceType.CLUSTER, "kafka-cluster", Operation.CREATE),
        (ResourceType.CLUSTER, "kafka-cluster", Operation.IDEMPOTENT_WRITE),
    ),
}
"""Operations allowed on resources, by user of `tests.interop.node`."""


def grant(server: Server) -> None:
    """Create the bindings of all users."""
    creations = [
        m.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )
        for user, rights in RIGHTS.items()
        for kind, name, operation in rights
    ]
    with client_of(server) as client:
        response = client.call(m.CreateAclsRequest(creations=creations), 3)
    assert not any(each.error_code for each in response.results), response
