"""May they? The question every API asks, and the answer when nobody minds: yes.

The numbers of operations and resource types are the protocol's (KIP-140, KIP-430), so
that a bit field of authorised operations can be made from them.
"""

from __future__ import annotations

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


class Principal(NamedTuple):
    """Who asks, as in "User:alice"."""

    kind: str
    name: str


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Whoever has not said who they are."""


class Authorizer(Protocol):
    """Decides what a principal may do.

    `version` is another one whenever a decision might be: who keeps a decision keeps
    the version with it.
    """

    @property
    def version(self) -> int:
        """The version of the rules."""

    def authorize(
        self,
        principal: Principal,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the principal may do this to the named resource (E27)."""


class AllowAll:
    """Everybody may do everything: the default, as in Kafka without an authorizer."""

    version = 0

    def authorize(
        self,
        principal: Principal,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Yes."""
        return True
