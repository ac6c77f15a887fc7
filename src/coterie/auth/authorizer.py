"""May they? The question every API asks, and the answer when nobody minds: yes.

The numbers of operations and resource types are the protocol's (KIP-140, KIP-430), so
that a bit field of authorised operations can be made from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Protocol


class Operation(IntEnum):
    """What somebody wants to do to a resource."""

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
    """What kind of thing the resource is."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of type CLUSTER."""

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
"""What can be done to a resource of each type, beside ALL of it (D-33)."""


class Principal(NamedTuple):
    """Who asks, as in "User:alice"."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER: Final = "User"
"""The kind of every principal that connections have."""
ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""Whoever has not said who they are."""


def parse_principal(text: str) -> Principal | None:
    """A principal from "Kind:name"; None when it has no colon."""
    kind, colon, name = text.partition(":")
    return Principal(kind, name) if colon else None


class Caller(NamedTuple):
    """Who asks, and the address they ask from, as in "127.0.0.1"."""

    principal: Principal
    host: str


class Authorizer(Protocol):
    """Decides what a caller may do.

    `version` is another one whenever a decision might be: who keeps a decision keeps
    the version with it.
    """

    @property
    def version(self) -> int:
        """The version of the rules."""

    def authorize(
        self,
        caller: Caller,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the caller may do this to the named resource (E27)."""

    def authorize_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is a name of such a resource, though it may not exist, to which
        the caller may do this (KIP-679)."""


class AllowAll:
    """Everybody may do everything: as in Kafka without an authorizer (D-35)."""

    version = 0

    def authorize(
        self,
        caller: Caller,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Yes."""
        return True

    def authorize_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Yes."""
        return True
