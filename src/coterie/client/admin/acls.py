"""Access control lists: looked at, added to and taken from (KIP-140, KIP-290).

Bindings and filters are the values of `coterie.auth.acl`, the same that our server
decides by. Any broker answers, or passes on what it is asked (KIP-590).

What has something UNKNOWN in it is not sent: Kafka hangs up on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol, TypeVar

from coterie.auth.acl import EVERY_ACL, Acl, AclFilter, Pattern, Permission, known
from coterie.auth.authorizer import Operation, Principal, ResourceType, parse_principal
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Results
from coterie.client.cluster import Cluster
from coterie.errors import ApiError, ClientError, CoterieError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from coterie.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from coterie.wire.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from coterie.wire.schema import VERSION_MAX, Versions

T = TypeVar("T", Acl, AclFilter)

_USERS_SINCE: Final = 3
"""Users are resources since this version (KIP-373)."""


class _Entry(Protocol):
    """Who may do what, as answers carry it."""

    principal: str
    host: str
    operation: int
    permission_type: int


async def describe_acls(
    cluster: Cluster, which: AclFilter | None = None
) -> tuple[Acl, ...]:
    """The bindings that a filter means, sorted; None means every one.

    Raises ApiError, and UnsupportedByBroker for brokers before Kafka 2.0.
    """
    wanted = which or EVERY_ACL
    if (unknown := _unknown(wanted)) is not None:
        raise unknown
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    versions = _versions([wanted.resource_type])
    answer = await Deadline(cluster).retrying(
        lambda: cluster.call(request, DescribeAclsResponse, wanted=versions)
    )
    if answer.error_code:
        raise refusal(answer.error_code, "to see ACLs", answer.error_message)
    return tuple(
        sorted(
            _acl(each, resource.resource_type, resource.resource_name, pattern)
            for resource in answer.resources
            for pattern in [resource.pattern_type]
            for each in resource.acls
        )
    )


async def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> Results[Acl, None]:
    """Add bindings; one that is there already stays, so it is safe to do it again.

    Raises UnsupportedByBroker for brokers before Kafka 2.0.
    """
    wanted, errors = _sendable(acls)
    if not wanted:
        return Results({}, errors)
    request = CreateAclsRequest(
        creations=[
            AclCreation(
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
    answer = await Deadline(cluster).retrying(
        lambda: cluster.call(request, CreateAclsResponse, wanted=versions)
    )
    _check_count(answer.results, wanted)
    errors |= {
        acl: refusal(each.error_code, f"to create {in_words(acl)}", each.error_message)
        for acl, each in zip(wanted, answer.results, strict=True)
        if each.error_code
    }
    return Results({acl: None for acl in wanted if acl not in errors}, errors)


async def delete_acls(
    cluster: Cluster, filters: Iterable[AclFilter]
) -> Results[AclFilter, Results[Acl, None]]:
    """Take away what each filter means; the bindings that were, or could not be.

    Raises UnsupportedByBroker for brokers before Kafka 2.0, and RequestTimedOut or
    ConnectionLost when it is unknown what was taken away: asked again, the broker would
    not tell.
    """
    wanted, errors = _sendable(filters)
    if not wanted:
        return Results({}, errors)
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
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
    connection = await Deadline(cluster).retrying(cluster.connection)
    answer = await connection.call(request, DeleteAclsResponse, wanted=versions)
    _check_count(answer.filter_results, wanted)
    values: dict[AclFilter, Results[Acl, None]] = {}
    for each, result in zip(wanted, answer.filter_results, strict=True):
        if result.error_code:
            said = result.error_message
            errors[each] = refusal(result.error_code, "to delete ACLs", said)
        else:
            values[each] = _deleted(result)
    return Results(values, errors)


def in_words(acl: Acl) -> str:
    """A binding as a person reads it."""
    return (
        f"{acl.permission.name} {acl.principal} from {acl.host} to "
        f"{acl.operation.name} {acl.resource_type.name} {acl.name} "
        f"({acl.pattern.name})"
    )


def _deleted(result: DeleteAclsFilterResult) -> Results[Acl, None]:
    values: dict[Acl, None] = {}
    errors: dict[Acl, CoterieError] = {}
    for each in result.matching_acls:
        acl = _matching(each)
        if each.error_code:
            words = f"to delete {in_words(acl)}"
            errors[acl] = refusal(each.error_code, words, each.error_message)
        else:
            values[acl] = None
    return Results(values, errors)


def _matching(each: DeleteAclsMatchingAcl) -> Acl:
    return _acl(each, each.resource_type, each.resource_name, each.pattern_type)


def _acl(entry: _Entry, resource_type: int, name: str, pattern: int) -> Acl:
    return Acl(
        principal=parse_principal(entry.principal) or Principal("", entry.principal),
        permission=known(Permission, entry.permission_type),
        operation=known(Operation, entry.operation),
        resource_type=known(ResourceType, resource_type),
        name=name,
        pattern=known(Pattern, pattern),
        host=entry.host,
    )


def _sendable(items: Iterable[T]) -> tuple[list[T], dict[T, CoterieError]]:
    """What can be sent, each once, and why the rest cannot."""
    found = {each: _unknown(each) for each in items}
    errors: dict[T, CoterieError] = {
        each: error for each, error in found.items() if error is not None
    }
    return [each for each in found if each not in errors], errors


def _unknown(item: Acl | AclFilter) -> ApiError | None:
    words = (item.resource_type, item.pattern, item.operation, item.permission)
    if all(words):  # UNKNOWN is 0
        return None
    told = ", ".join(f"{type(each).__name__} {each.name}" for each in words)
    message = f"no broker knows what is UNKNOWN; say what is meant ({told})"
    return ApiError(ErrorCode.INVALID_REQUEST, message)


def _versions(kinds: Iterable[ResourceType]) -> Versions:
    return Versions(_USERS_SINCE if ResourceType.USER in kinds else 0, VERSION_MAX)


def _check_count(said: Collection[object], asked: Collection[object]) -> None:
    if len(said) != len(asked):
        raise ClientError(
            f"the broker answered {len(said)} of {len(asked)} ACLs: look at what holds"
        )
