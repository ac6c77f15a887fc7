"""Access control lists: who may do what to which resources, as Kafka decides it.

An `AclAuthorizer` is an `Authorizer` over a set of bindings. Its rules (KIP-11,
KIP-290, and what Kafka's own authorizer makes of KIP-229, D-31):

- a super user may do everything;
- one binding that denies settles it, whatever others allow;
- to be allowed one operation may imply another (`IMPLIED_BY`); to be denied implies
  nothing, but that ALL denies everything (D-32);
- whoever no binding speaks of may do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from coterie.auth.authorizer import Operation, Principal, ResourceType
from coterie.errors import SettingError

ANY_NAME: Final = "*"
"""As the name of a literal binding, or of its principal: every one."""

_ALWAYS: Final = frozenset({Operation.ALL})
GROUP_OPERATIONS: Final = frozenset(
    {
        Operation.READ,
        Operation.DESCRIBE,
        Operation.DELETE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    }
)
"""What can be done to a group, beside ALL of it (D-33)."""

IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose being allowed allows this one too (D-30, D-31)."""


class Permission(IntEnum):
    """What a binding says, with the protocol's numbers."""

    DENY = 2
    ALLOW = 3


class Pattern(IntEnum):
    """How a binding names its resources, with the protocol's numbers (KIP-290)."""

    LITERAL = 3
    PREFIXED = 4


class Acl(NamedTuple):
    """One binding. `name` "*" of a literal pattern, and the principal "*" of a kind,
    stand for all."""

    principal: Principal
    permission: Permission
    operation: Operation
    resource_type: ResourceType
    name: str
    pattern: Pattern = Pattern.LITERAL

    def is_about(
        self, principal: Principal, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether the binding speaks of this principal and this resource."""
        kind, who = self.principal
        if kind != principal.kind or who not in {principal.name, ANY_NAME}:
            return False
        if self.resource_type != resource_type:
            return False
        if self.pattern is Pattern.PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, ANY_NAME}


class AclAuthorizer:
    """Decides by bindings.

    Raises SettingError for a binding to an operation that groups do not have.
    """

    def __init__(
        self, acls: Iterable[Acl], super_users: Iterable[Principal] = ()
    ) -> None:
        self._super_users = frozenset(super_users)
        self._version = 0
        self.replace(acls)

    @property
    def version(self) -> int:
        """The version of the rules."""
        return self._version

    def replace(self, acls: Iterable[Acl]) -> None:
        """Decide by these bindings from now on. Raises SettingError as above."""
        given = tuple(acls)
        for acl in given:
            _check(acl)
        self._acls = given
        self._version += 1

    def authorize(
        self,
        principal: Principal,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal may do this to the named resource (E27)."""
        if principal in self._super_users:
            return True
        said = [
            acl for acl in self._acls if acl.is_about(principal, resource_type, name)
        ]
        denies = _ALWAYS | {operation}
        if any(_says(acl, Permission.DENY, denies) for acl in said):
            return False
        allows = denies | IMPLIED_BY.get(operation, frozenset())
        return any(_says(acl, Permission.ALLOW, allows) for acl in said)


def _says(acl: Acl, permission: Permission, operations: frozenset[Operation]) -> bool:
    return acl.permission is permission and acl.operation in operations


def _check(acl: Acl) -> None:
    possible = GROUP_OPERATIONS | _ALWAYS
    if acl.resource_type is ResourceType.GROUP and acl.operation not in possible:
        known = ", ".join(sorted(each.name for each in possible))
        raise SettingError(
            f"a group has no operation {acl.operation.name}: it has {known}"
        )
