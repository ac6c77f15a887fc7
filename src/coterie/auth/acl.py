"""Principals, resources and operations, and ACL bindings (KIP-11, KIP-140, KIP-290).

A binding allows or denies a principal, from a host, an operation on the resources that
a resource pattern matches. The values of all enumerations are the numbers of the Kafka
protocol. authorizer.py authorizes requests by a set of bindings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import IntEnum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final, NamedTuple, TypeVar

from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode


class Operation(IntEnum):
    """The operations on resources (Kafka's AclOperation)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """The types of resources."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations of each resource type, besides ALL."""


class Principal(NamedTuple):
    """An authenticated identity, as in "User:alice" (Kafka's KafkaPrincipal)."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER: Final = "User"
"""The type of all principals of connections."""
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of a connection without authentication."""


def parse_principal(text: str) -> Principal | None:
    """Parse "Type:name"; return None if the text has no colon."""
    kind, colon, name = text.partition(":")
    return Principal(kind, name) if colon else None


class RequestContext(NamedTuple):
    """The principal of a request and the client's address, as in "127.0.0.1" (part of
    Kafka's AuthorizableRequestContext)."""

    principal: Principal
    host: str


WILDCARD: Final = "*"
"""The resource name, or host, of a binding for all of them."""
WILDCARD_PRINCIPAL: Final = Principal(USER, WILDCARD)
"""The principal of a binding for all principals, of any type."""


class PermissionType(IntEnum):
    """The types of permissions: allow and deny (Kafka's AclPermissionType)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class PatternType(IntEnum):
    """The types of resource patterns (KIP-290).

    A binding is LITERAL or PREFIXED. A filter may also be ANY, or MATCH: the patterns
    that match a resource name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


_Number = TypeVar("_Number", Operation, ResourceType, PermissionType, PatternType)


def number_or_unknown(kind: type[_Number], number: int) -> _Number:
    """Return the enumeration member for a number in a request or response; UNKNOWN for
    an undefined number.
    """
    try:
        return kind(number)
    except ValueError:
        return kind.UNKNOWN


class AclBinding(NamedTuple):
    """An ACL binding: permission, operation, resource pattern, principal and host.

    The wildcards are `name` "*" in a literal pattern, `host` "*" and the principal
    "User:*".
    """

    principal: Principal
    permission: PermissionType
    operation: Operation
    resource_type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL
    host: str = WILDCARD

    @property
    def key(self) -> str:
        """The binding's unique name in the catalog."""
        return json.dumps(list(self.to_value().values()), ensure_ascii=False)

    def to_value(self) -> Mapping[str, str]:
        """Return the value of the binding's catalog entry."""
        return {
            "resource": self.resource_type.name,
            "pattern": self.pattern.name,
            "name": self.name,
            "principal": str(self.principal),
            "host": self.host,
            "operation": self.operation.name,
            "permission": self.permission.name,
        }


def binding_from_value(value: Mapping[str, Any]) -> AclBinding:
    """Decode a binding from the value of its catalog entry."""
    principal = parse_principal(value["principal"])
    assert principal is not None, value
    return AclBinding(
        principal=principal,
        permission=PermissionType[value["permission"]],
        operation=Operation[value["operation"]],
        resource_type=ResourceType[value["resource"]],
        name=value["name"],
        pattern=PatternType[value["pattern"]],
        host=value["host"],
    )


_LEADING_ZEROS: Final = re.compile(r"\b0+(?=\d)")
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
"""The addresses of IPv4 in IPv6."""


def parse_network(host: str) -> IPv4Network | IPv6Network | None:
    """Return the network of a binding's host in CIDR notation, as "10.0.0.0/8" (Kafka
    4.4); None for another host."""
    address, slash, size = host.partition("/")
    if not slash or not (size.isascii() and size.isdigit()):
        return None
    if ":" not in address:
        address = _LEADING_ZEROS.sub("", address)  # decimal in Java
    try:
        network = ip_network((address, int(size)), strict=False)
    except ValueError:
        return None
    # Java takes a mapped address for one of IPv4, to which the prefix does not fit.
    is_mapped = isinstance(network, IPv6Network) and network.subnet_of(_MAPPED)
    return None if is_mapped else network


def check_binding(acl: AclBinding) -> None:
    """Raise ApiError INVALID_REQUEST for an invalid binding.

    As in Kafka, a binding with an operation that the resource type does not support is
    valid but has no effect.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        )
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if not acl.host:
        raise _invalid('Host pattern cannot be empty; write "*" for every host')
    if "/" in acl.host and parse_network(acl.host) is None:
        raise _invalid(f"Invalid CIDR notation '{acl.host}'")
    if acl.resource_type in {ResourceType.UNKNOWN, ResourceType.ANY}:
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern not in {PatternType.LITERAL, PatternType.PREFIXED}:
        raise _invalid(f"Invalid patternType {acl.pattern.name}")
    if acl.operation in {Operation.UNKNOWN, Operation.ANY}:
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in {PermissionType.ALLOW, PermissionType.DENY}:
        raise _invalid(f"Invalid permissionType {acl.permission.name}")


class AclBindingFilter(NamedTuple):
    """A filter of ACL bindings; None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: PermissionType = PermissionType.ANY

    def matches(self, acl: AclBinding) -> bool:
        """Return whether the filter matches a binding."""
        return (
            self.resource_type in {ResourceType.ANY, acl.resource_type}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {PermissionType.ANY, acl.permission}
            and self.principal in {None, str(acl.principal)}
            and self.host in {None, acl.host}
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: AclBinding) -> bool:
        if self.pattern not in {PatternType.ANY, PatternType.MATCH, acl.pattern}:
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not PatternType.MATCH:
            return False
        # MATCH selects the bindings that apply to the resource with the filter's name.
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == WILDCARD


ANY_BINDING: Final = AclBindingFilter()
"""The filter that matches all bindings."""


def check_filter(acl_filter: AclBindingFilter) -> None:
    """Raise ApiError INVALID_REQUEST for a filter with an UNKNOWN number."""
    if (
        acl_filter.resource_type is ResourceType.UNKNOWN
        or acl_filter.pattern is PatternType.UNKNOWN
    ):
        raise _invalid("Unknown patternFilter.")
    if (
        Operation.UNKNOWN is acl_filter.operation
        or PermissionType.UNKNOWN is acl_filter.permission
    ):
        raise _invalid("Unknown entryFilter.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
