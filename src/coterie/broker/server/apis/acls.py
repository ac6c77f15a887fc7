"""The APIs of ACLs (KIP-140; 1: resource patterns, KIP-290).

============  ===  ========
API           key  versions
============  ===  ========
DescribeAcls  29   1-3
CreateAcls    30   1-3
DeleteAcls    31   1-3
============  ===  ========
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from coterie.auth.acl import (
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    check_binding,
    check_filter,
    number_or_unknown,
    parse_principal,
)
from coterie.auth.authorizer import AclAuthorizer
from coterie.broker.catalog.entries import (
    CHANGES_PER_REQUEST_MAX,
    Entry,
    EntryKind,
    too_many_changes,
)
from coterie.broker.server.apis.routing import respond_when_durable
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode


def describe_acls(call: Call) -> None:
    """List the ACL bindings that match a filter, once they are durable.

    Requires DESCRIBE on the cluster. An unknown operation, resource type or pattern
    type matches nothing.
    """
    try:
        acls = _authorized_acls(call, Operation.DESCRIBE)
    except ApiError as error:
        call.respond(
            m.DescribeAclsResponse(error_code=error.code, error_message=error.message)
        )
        return
    matching = acls.matching(_decode_filter(call.request))
    response = m.DescribeAclsResponse(
        resources=[
            m.DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    m.AclDescription(
                        principal=str(acl.principal),
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in bindings
                ],
            )
            for (resource_type, name, pattern), bindings in groupby(
                matching, lambda acl: (acl.resource_type, acl.name, acl.pattern)
            )
        ]
    )

    def durable(error: ErrorCode) -> None:
        failed = m.DescribeAclsResponse(error_code=error, error_message=None)
        call.respond(failed if error else response)

    call.node.broker.data.when_durable(durable)


@in_slices
def create_acls(call: Call) -> Iterator[None]:
    """Create ACL bindings, each with its own result; respond once all are durable.

    Requires ALTER on the cluster. Creating an existing binding succeeds without a
    change.
    """
    request: m.CreateAclsRequest = call.request
    failures = call.node.broker.data.failures
    results = []
    for creation in request.creations:
        results.append(_create(call, creation))
        yield
    response = m.CreateAclsResponse(results=results)
    respond_when_durable(call, response, results, failures)


def _create(call: Call, creation: m.AclCreation) -> m.AclCreationResult:
    try:
        acls = _authorized_acls(call, Operation.ALTER)
        principal = parse_principal(creation.principal)
        if principal is None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Could not parse principal from `{creation.principal}`; "
                "write it like User:alice",
            )
        acl = AclBinding(
            principal=principal,
            permission=number_or_unknown(PermissionType, creation.permission_type),
            operation=number_or_unknown(Operation, creation.operation),
            resource_type=number_or_unknown(ResourceType, creation.resource_type),
            name=creation.resource_name,
            pattern=number_or_unknown(PatternType, creation.resource_pattern_type),
            host=creation.host,
        )
        check_binding(acl)
        if len(call.request.creations) > CHANGES_PER_REQUEST_MAX:
            raise too_many_changes()
        if acl not in acls:
            call.node.broker.catalog.check_room(EntryKind.ACL)
    except ApiError as error:
        return m.AclCreationResult(error_code=error.code, error_message=error.message)
    if acl not in acls:
        call.node.broker.data.stage([Entry(EntryKind.ACL, acl.key, acl.to_value())])
    return m.AclCreationResult(error_message=None)


@in_slices
def delete_acls(call: Call) -> Iterator[None]:
    """Delete the ACL bindings that match each filter; respond once that is durable.

    Requires ALTER on the cluster. All filters are matched before anything is deleted.
    """
    request: m.DeleteAclsRequest = call.request
    keys: dict[str, None] = {}
    results = []
    match_count = 0
    for requested in request.filters:
        yield
        matching: Sequence[AclBinding] = ()
        result = m.DeleteAclsFilterResult(error_message=None)
        try:
            acls = _authorized_acls(call, Operation.ALTER)
            acl_filter = _decode_filter(requested)
            check_filter(acl_filter)
            if match_count <= CHANGES_PER_REQUEST_MAX:
                matching = acls.matching(acl_filter)
                match_count += len(matching)
            if match_count > CHANGES_PER_REQUEST_MAX:
                matching = ()
                raise too_many_changes()
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        result.matching_acls = [
            m.DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.name,
                pattern_type=acl.pattern,
                principal=str(acl.principal),
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in matching
        ]
        keys.update((acl.key, None) for acl in matching)
        results.append(result)
    data = call.node.broker.data
    data.stage(Entry(EntryKind.ACL, key, None) for key in keys)

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for result in results:
                result.error_code = result.error_code or error
                result.matching_acls = []
        call.respond(m.DeleteAclsResponse(filter_results=results))

    data.when_durable(durable)


def _authorized_acls(call: Call, operation: Operation) -> AclAuthorizer:
    """Return the ACL bindings if the operation on the cluster is authorized.

    Raises ApiError CLUSTER_AUTHORIZATION_FAILED, or SECURITY_DISABLED when the server
    has no ACLs.
    """
    if not call.authorize_cluster(operation):
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"{call.principal} is not authorized to {operation.name} the cluster.",
        )
    acls = call.node.broker.acls
    if acls is None:
        raise ApiError(
            ErrorCode.SECURITY_DISABLED,
            "No authorizer is configured; start the server with authorizer=acl.",
        )
    return acls


def _decode_filter(
    requested: m.DescribeAclsRequest | m.DeleteAclsFilter,
) -> AclBindingFilter:
    return AclBindingFilter(
        resource_type=number_or_unknown(ResourceType, requested.resource_type_filter),
        name=requested.resource_name_filter,
        pattern=number_or_unknown(PatternType, requested.pattern_type_filter),
        principal=requested.principal_filter,
        host=requested.host_filter,
        operation=number_or_unknown(Operation, requested.operation),
        permission=number_or_unknown(PermissionType, requested.permission_type),
    )
