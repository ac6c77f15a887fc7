"""DeleteAcls, key 31: versions 1-3 (KIP-140; 1: patterns, KIP-290)."""

from __future__ import annotations

from coterie.auth.acl import Acl, check_filter
from coterie.auth.authorizer import Operation
from coterie.catalog.entries import Entry, Kind
from coterie.errors import ApiError
from coterie.server.apis.acl_parts import acls_for, read_filter
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(call: Call) -> None:
    """Take away what each filter means, or say why not; answer when that is durable
    (ALTER on the cluster). Filters are all held against what there is before."""
    request: DeleteAclsRequest = call.request
    doomed: dict[str, Acl] = {}
    results = [_pick(call, wanted, doomed) for wanted in request.filters]
    data = call.node.broker.data
    data.stage(Entry(Kind.ACL, key, None) for key in doomed)

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for result in results:
                result.error_code = result.error_code or error
                result.matching_acls = []
        call.answer(DeleteAclsResponse(filter_results=results))

    data.when_durable(durable)


def _pick(
    call: Call, wanted: DeleteAclsFilter, doomed: dict[str, Acl]
) -> DeleteAclsFilterResult:
    try:
        acls = acls_for(call, Operation.ALTER)
        which = read_filter(wanted)
        check_filter(which)
    except ApiError as error:
        return DeleteAclsFilterResult(
            error_code=error.code, error_message=error.message
        )
    found = acls.picked_by(which)
    doomed.update((acl.key, acl) for acl in found)
    return DeleteAclsFilterResult(
        error_message=None, matching_acls=[_matching(acl) for acl in found]
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=str(acl.principal),
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
