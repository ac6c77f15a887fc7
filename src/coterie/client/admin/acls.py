"""Describe, create and delete ACL bindings (KIP-140, KIP-290).

Bindings and filters are the values of `coterie.auth.acl`, which the broker's authorizer
uses, too. Any broker serves these requests or forwards them (KIP-590).

A binding or filter with an UNKNOWN element is not sent: Kafka closes the connection.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypeVar

from coterie.auth.acl import (
    ANY_BINDING,
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    ResourceType,
    number_or_unknown,
    parse_principal,
)
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Results, api_error
from coterie.errors import ApiError, ClientError, CoterieError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import VERSION_MAX, Versions

T = TypeVar("T", AclBinding, AclBindingFilter)

_USERS_SINCE: Final = 3
"""The first version with users as resources (KIP-373)."""


class Acls(Family):
    """Calls about ACL bindings."""

    async def describe(
        self, wanted: AclBindingFilter | None = None
    ) -> tuple[AclBinding, ...]:
        """Return the ACL bindings that match a filter, sorted; None means all.

        Raises ApiError, and UnsupportedByBroker for brokers before Kafka 2.0.
        """
        which = wanted or ANY_BINDING
        request = describe_acls_request(which)
        versions = _versions([which.resource_type])
        response = await self._cluster.retrying(
            lambda: self._cluster.call(request, m.DescribeAclsResponse, wanted=versions)
        )
        return bindings_of(response)

    async def create(self, new: Iterable[AclBinding]) -> Results[AclBinding, None]:
        """Create ACL bindings; existing ones are not changed.

        Raises UnsupportedByBroker for brokers before Kafka 2.0.
        """
        wanted, errors = _sendable(new)
        if not wanted:
            return Results({}, errors)
        request = m.CreateAclsRequest(
            creations=[
                m.AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    resource_pattern_type=acl.pattern,
                    principal=str(acl.principal),
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in wanted
            ]
        )
        versions = _versions([acl.resource_type for acl in wanted])
        response = await self._cluster.retrying(
            lambda: self._cluster.call(request, m.CreateAclsResponse, wanted=versions)
        )
        _check_count(response.results, wanted)
        errors |= {
            acl: api_error(
                each.error_code, f"to create {in_words(acl)}", each.error_message
            )
            for acl, each in zip(wanted, response.results, strict=True)
            if each.error_code
        }
        return Results({acl: None for acl in wanted if acl not in errors}, errors)

    async def delete(
        self, filters: Iterable[AclBindingFilter]
    ) -> Results[AclBindingFilter, Results[AclBinding, None]]:
        """Delete the ACL bindings that match each filter; return the outcome of each
        binding. Raises as `create` and `Topics.create` do."""
        wanted, errors = _sendable(filters)
        if not wanted:
            return Results({}, errors)
        request = m.DeleteAclsRequest(
            filters=[
                m.DeleteAclsFilter(
                    resource_type_filter=each.resource_type,
                    resource_name_filter=each.name,
                    pattern_type_filter=each.pattern,
                    principal_filter=each.principal,
                    host_filter=each.host,
                    operation=each.operation,
                    permission_type=each.permission,
                )
                for each in wanted
            ]
        )
        versions = _versions([each.resource_type for each in wanted])
        connection = await self._cluster.retrying(self._cluster.connection)
        response = await connection.call(request, m.DeleteAclsResponse, wanted=versions)
        _check_count(response.filter_results, wanted)
        values: dict[AclBindingFilter, Results[AclBinding, None]] = {}
        for each, result in zip(wanted, response.filter_results, strict=True):
            if result.error_code:
                errors[each] = api_error(
                    result.error_code, "to delete ACLs", result.error_message
                )
            else:
                values[each] = _deleted(result)
        return Results(values, errors)


class SyncAcls(SyncFamily[Acls]):
    """The blocking methods of `Acls`."""

    describe = blocking(Acls.describe)
    create = blocking(Acls.create)
    delete = blocking(Acls.delete)


def describe_acls_request(
    which: AclBindingFilter = ANY_BINDING,
) -> m.DescribeAclsRequest:
    """Return the request for the bindings that match a filter. Raises ApiError for an
    UNKNOWN element."""
    if (unknown := _unknown(which)) is not None:
        raise unknown
    return m.DescribeAclsRequest(
        resource_type_filter=which.resource_type,
        resource_name_filter=which.name,
        pattern_type_filter=which.pattern,
        principal_filter=which.principal,
        host_filter=which.host,
        operation=which.operation,
        permission_type=which.permission,
    )


def bindings_of(response: m.DescribeAclsResponse) -> tuple[AclBinding, ...]:
    """Return the bindings of a response, sorted. Raises ApiError for its error."""
    if response.error_code:
        raise api_error(response.error_code, "to describe ACLs", response.error_message)
    return tuple(
        sorted(
            _acl(each, resource.resource_type, resource.resource_name, pattern)
            for resource in response.resources
            for pattern in [resource.pattern_type]
            for each in resource.acls
        )
    )


def in_words(acl: AclBinding) -> str:
    """Return a binding as a sentence."""
    return (
        f"{acl.permission.name} {acl.principal} from {acl.host} to "
        f"{acl.operation.name} {acl.resource_type.name} {acl.name} "
        f"({acl.pattern.name})"
    )


def _deleted(result: m.DeleteAclsFilterResult) -> Results[AclBinding, None]:
    values: dict[AclBinding, None] = {}
    errors: dict[AclBinding, CoterieError] = {}
    for each in result.matching_acls:
        acl = _acl(each, each.resource_type, each.resource_name, each.pattern_type)
        if each.error_code:
            words = f"to delete {in_words(acl)}"
            errors[acl] = api_error(each.error_code, words, each.error_message)
        else:
            values[acl] = None
    return Results(values, errors)


def _acl(
    entry: m.AclDescription | m.DeleteAclsMatchingAcl,
    resource_type: int,
    name: str,
    pattern: int,
) -> AclBinding:
    return AclBinding(
        principal=parse_principal(entry.principal) or Principal("", entry.principal),
        permission=number_or_unknown(PermissionType, entry.permission_type),
        operation=number_or_unknown(Operation, entry.operation),
        resource_type=number_or_unknown(ResourceType, resource_type),
        name=name,
        pattern=number_or_unknown(PatternType, pattern),
        host=entry.host,
    )


def _sendable(items: Iterable[T]) -> tuple[list[T], dict[T, CoterieError]]:
    """Return the items that can be sent, each once, and the errors of the others."""
    found = {each: _unknown(each) for each in items}
    errors: dict[T, CoterieError] = {
        each: error for each, error in found.items() if error is not None
    }
    return [each for each in found if each not in errors], errors


def _unknown(item: AclBinding | AclBindingFilter) -> ApiError | None:
    words = (item.resource_type, item.pattern, item.operation, item.permission)
    if all(words):  # UNKNOWN is 0
        return None
    listed = ", ".join(f"{type(each).__name__} {each.name}" for each in words)
    message = f"UNKNOWN cannot be sent to a broker; replace it ({listed})"
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _versions(kinds: Iterable[ResourceType]) -> Versions:
    return Versions(_USERS_SINCE if ResourceType.USER in kinds else 0, VERSION_MAX)


def _check_count(results: Collection[object], sent: Collection[object]) -> None:
    if len(results) != len(sent):
        raise ClientError(
            f"the response has {len(results)} results for {len(sent)} ACLs: "
            "the outcome is unknown, describe the ACLs"
        )
