"""DescribeAcls, key 29: versions 1-3 (KIP-140; 1: patterns, KIP-290)."""

from __future__ import annotations

from itertools import groupby

from coterie.auth.acl import Acl
from coterie.auth.authorizer import Operation
from coterie.errors import ApiError
from coterie.server.apis.acl_parts import acls_for, read_filter
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(call: Call) -> None:
    """List the bindings that a filter means, once they are durable (DESCRIBE on the
    cluster). Of an unknown operation, resource or pattern there are none."""
    try:
        acls = acls_for(call, Operation.DESCRIBE)
    except ApiError as error:
        call.answer(
            DescribeAclsResponse(error_code=error.code, error_message=error.message)
        )
        return
    found = acls.picked_by(read_filter(call.request))
    response = DescribeAclsResponse(
        resources=[
            DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern,
                acls=[_described(acl) for acl in bindings],
            )
            for (resource_type, name, pattern), bindings in groupby(found, _resource)
        ]
    )

    def durable(error: ErrorCode) -> None:
        failed = DescribeAclsResponse(error_code=error, error_message=None)
        call.answer(failed if error else response)

    call.node.broker.data.when_durable(durable)


def _resource(acl: Acl) -> tuple[int, str, int]:
    return acl.resource_type, acl.name, acl.pattern


def _described(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=str(acl.principal),
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
