"""Bindings of access control lists, and filters that pick some of them (KIP-140).

A binding says that a principal, from a host, is allowed or denied an operation on the
resources that a pattern names. What follows from many of them, acl_authorizer.py says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from coterie.auth.authorizer import (
    CLUSTER_NAME,
    USER,
    Operation,
    Principal,
    ResourceType,
    parse_principal,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

ANY_NAME: Final = "*"
"""As the name of a literal binding, or as its host: every one."""
EVERYBODY: Final = Principal(USER, ANY_NAME)
"""The principal of a binding for every principal, of whatever kind."""


class Permission(IntEnum):
    """What a binding says, with the protocol's numbers."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Pattern(IntEnum):
    """How a binding names its resources, with the protocol's numbers (KIP-290).

    A binding is LITERAL or PREFIXED; a filter may also ask for ANY of them, or for
    those that MATCH a name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


_Number = TypeVar("_Number", Operation, ResourceType, Permission, Pattern)


def known(kind: type[_Number], number: int) -> _Number:
    """The meaning of a number off the wire; UNKNOWN for one from the future."""
    try:
        return kind(number)
    except ValueError:
        return kind.UNKNOWN


class Acl(NamedTuple):
    """One binding. `name` "*" of a literal pattern, `host` "*" and the principal
    "User:*" stand for all."""

    principal: Principal
    permission: Permission
    operation: Operation
    resource_type: ResourceType
    name: str
    pattern: Pattern = Pattern.LITERAL
    host: str = ANY_NAME

    @property
    def key(self) -> str:
        """What tells it from every other binding."""
        return json.dumps(list(self.to_value().values()), ensure_ascii=False)

    def to_value(self) -> Mapping[str, str]:
        """The binding as it is kept, in words."""
        return {
            "resource": self.resource_type.name,
            "pattern": self.pattern.name,
            "name": self.name,
            "principal": str(self.principal),
            "host": self.host,
            "operation": self.operation.name,
            "permission": self.permission.name,
        }


def from_value(value: Mapping[str, Any]) -> Acl:
    """A binding as it was kept."""
    principal = parse_principal(value["principal"])
    assert principal is not None, value
    return Acl(
        principal=principal,
        permission=Permission[value["permission"]],
        operation=Operation[value["operation"]],
        resource_type=ResourceType[value["resource"]],
        name=value["name"],
        pattern=Pattern[value["pattern"]],
        host=value["host"],
    )


def check_acl(acl: Acl) -> None:
    """Raise ApiError INVALID_REQUEST for a binding that cannot be.

    One for an operation which its resource does not have can be, as in Kafka: nobody
    ever asks for it.
    """
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(
            f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        )
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if not acl.host:
        raise _invalid('Host pattern cannot be empty; write "*" for every host')
    if acl.resource_type in {ResourceType.UNKNOWN, ResourceType.ANY}:
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern not in {Pattern.LITERAL, Pattern.PREFIXED}:
        raise _invalid(f"Invalid patternType {acl.pattern.name}")
    if acl.operation in {Operation.UNKNOWN, Operation.ANY}:
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in {Permission.ALLOW, Permission.DENY}:
        raise _invalid(f"Invalid permissionType {acl.permission.name}")


class AclFilter(NamedTuple):
    """Which bindings are meant; None, and ANY, stand for whatever there is."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def picks(self, acl: Acl) -> bool:
        """Whether a binding is one of them."""
        return (
            self.resource_type in {ResourceType.ANY, acl.resource_type}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
            and self.principal in {None, str(acl.principal)}
            and self.host in {None, acl.host}
            and self._picks_name(acl)
        )

    def _picks_name(self, acl: Acl) -> bool:
        """A name means itself, but for MATCH: there it means what applies to it."""
        if self.pattern not in {Pattern.ANY, Pattern.MATCH, acl.pattern}:
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern is not Pattern.MATCH:
            return False
        if acl.pattern is Pattern.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name == ANY_NAME


EVERY_ACL: Final = AclFilter()
"""All bindings there are."""


def check_filter(wanted: AclFilter) -> None:
    """Raise ApiError INVALID_REQUEST for a filter of something unknown."""
    if (
        wanted.resource_type is ResourceType.UNKNOWN
        or wanted.pattern is Pattern.UNKNOWN
    ):
        raise _invalid("Unknown patternFilter.")
    if Operation.UNKNOWN is wanted.operation or Permission.UNKNOWN is wanted.permission:
        raise _invalid("Unknown entryFilter.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
