"""CreateAcls, key 30: versions 1-3 (KIP-140; 1: patterns, KIP-290)."""

from __future__ import annotations

from coterie.auth.acl import Acl, Pattern, Permission, check_acl, known
from coterie.auth.authorizer import Operation, ResourceType, parse_principal
from coterie.catalog.entries import Entry, Kind
from coterie.errors import ApiError
from coterie.server.apis.acl_parts import acls_for
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(call: Call) -> None:
    """Make each binding, or say why not; answer when all are durable (ALTER on the
    cluster). One that is there already is made again: nothing happens."""
    request: CreateAclsRequest = call.request
    results = [_create(call, creation) for creation in request.creations]

    def durable(error: ErrorCode) -> None:
        for result in results:
            result.error_code = result.error_code or error
        call.answer(CreateAclsResponse(results=results))

    call.node.broker.data.when_durable(durable)


def _create(call: Call, creation: AclCreation) -> AclCreationResult:
    try:
        acls = acls_for(call, Operation.ALTER)
        acl = _asked(creation)
        check_acl(acl)
    except ApiError as error:
        return AclCreationResult(error_code=error.code, error_message=error.message)
    if acl not in acls:
        call.node.broker.data.stage([Entry(Kind.ACL, acl.key, acl.to_value())])
    return AclCreationResult(error_message=None)


def _asked(creation: AclCreation) -> Acl:
    principal = parse_principal(creation.principal)
    if principal is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Could not parse principal from `{creation.principal}`; "
            "write it like User:alice",
        )
    return Acl(
        principal=principal,
        permission=known(Permission, creation.permission_type),
        operation=known(Operation, creation.operation),
        resource_type=known(ResourceType, creation.resource_type),
        name=creation.resource_name,
        pattern=known(Pattern, creation.resource_pattern_type),
        host=creation.host,
    )
