"""What the modules of access control lists share: who may, and filters read."""

from __future__ import annotations

from typing import Protocol

from coterie.auth.acl import AclFilter, Pattern, Permission, known
from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import Operation, ResourceType
from coterie.errors import ApiError
from coterie.server.apis.support import may_cluster
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode


class _WireFilter(Protocol):
    """A filter as requests carry it."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def acls_for(call: Call, operation: Operation) -> AclAuthorizer:
    """The bindings, for a caller that may do this to the cluster.

    Raises ApiError CLUSTER_AUTHORIZATION_FAILED, or SECURITY_DISABLED where everybody
    may do everything.
    """
    if not may_cluster(call, operation):
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{call.principal} may not {operation.name} the cluster.",
        )
    acls = call.node.broker.acls
    if acls is None:
        raise ApiError(
            ErrorCode.SECURITY_DISABLED,
            "No authorizer is configured; start the server with authorizer=acl.",
        )
    return acls


def read_filter(wanted: _WireFilter) -> AclFilter:
    """A filter off the wire."""
    return AclFilter(
        resource_type=known(ResourceType, wanted.resource_type_filter),
        name=wanted.resource_name_filter,
        pattern=known(Pattern, wanted.pattern_type_filter),
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=known(Operation, wanted.operation),
        permission=known(Permission, wanted.permission_type),
    )
