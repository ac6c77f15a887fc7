"""Authorizers: `AllowAll`, and `AclAuthorizer` with the rules of Kafka's
StandardAuthorizer.

The rules of `AclAuthorizer` (KIP-11, KIP-290, and KIP-229 as Kafka implements it):

- a super user is allowed everything;
- a matching DENY binding takes precedence over all ALLOW bindings;
- an allowed operation may imply another one (`IMPLIED_BY`); a denied one implies
  nothing, except that ALL denies every operation;
- a resource that no binding matches is denied to everyone, unless
  `allow.everyone.if.no.acl.found` is set.

A decision uses only the bindings of one resource, principal and host, and is cached
until a binding is added or removed: its cost does not grow with the number of bindings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from itertools import chain
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from coterie.auth.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclBindingFilter,
    Operation,
    PatternType,
    PermissionType,
    Principal,
    RequestContext,
    ResourceType,
    binding_from_value,
    parse_network,
)


class Authorizer(Protocol):
    """The interface of authorizers.

    `version` changes whenever a decision may change: callers store a cached decision
    with the version in which it was made.
    """

    @property
    def version(self) -> int:
        """The version of the rules and bindings."""

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Return whether the operation on the named resource is allowed."""

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether the operation is allowed on at least one resource of the
        type, which need not exist (KIP-679)."""


class AllowAll:
    """An authorizer that allows every operation, as Kafka does without an
    authorizer."""

    version = 0

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Return True."""
        return True

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return True."""
        return True


IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""An operation is allowed when one of these is."""

_CACHED_DECISIONS_MAX: Final = 10_000
_CACHED_NAME_LENGTH_MAX: Final = 256
_ARBITRARY_NAME: Final = "hardcode"
"""The resource name with which Kafka's authorizeByResourceType tests whether any name
is allowed."""

_Key = TypeVar("_Key")
_Bindings: TypeAlias = dict[tuple[Principal, str], set[AclBinding]]
"""The bindings of one resource pattern, by principal and canonical host."""


class _Index:
    """An index of ACL bindings by resource pattern."""

    def __init__(self) -> None:
        self._by_pattern: dict[tuple[ResourceType, PatternType, str], _Bindings] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self._by_principal: dict[str, set[AclBinding]] = {}
        self._network_sizes: Counter[int] = Counter()
        """The number of bindings for networks, by the length of their prefix."""

    def add(self, acl: AclBinding) -> None:
        pattern = acl.resource_type, acl.pattern, acl.name
        bindings = self._by_pattern.setdefault(pattern, {})
        if not bindings and acl.pattern is PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(acl.resource_type, Counter())
            lengths[len(acl.name)] += 1
        bindings.setdefault(_holder(acl), set()).add(acl)
        if (network := parse_network(acl.host)) is not None:
            self._network_sizes[network.prefixlen] += 1
        self._by_principal.setdefault(str(acl.principal), set()).add(acl)

    def remove(self, acl: AclBinding) -> None:
        pattern = acl.resource_type, acl.pattern, acl.name
        bindings = self._by_pattern[pattern]
        _discard(bindings, _holder(acl), acl)
        if (network := parse_network(acl.host)) is not None:
            self._network_sizes[network.prefixlen] -= 1
            if not self._network_sizes[network.prefixlen]:
                del self._network_sizes[network.prefixlen]
        _discard(self._by_principal, str(acl.principal), acl)
        if bindings:
            return
        del self._by_pattern[pattern]
        if acl.pattern is PatternType.PREFIXED:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.name)] -= 1
            if not lengths[len(acl.name)]:
                del lengths[len(acl.name)]

    def holders(self, context: RequestContext) -> Sequence[tuple[Principal, str]]:
        """Return the keys of a request's bindings: its principal and host, wildcards
        and networks included."""
        canonical = _canonical(context.host)
        hosts = {WILDCARD, canonical}
        for size in self._network_sizes:
            network = parse_network(f"{canonical}/{size}")
            if network is not None:
                hosts.add(str(network))
        return [
            (principal, host)
            for principal in (context.principal, WILDCARD_PRINCIPAL)
            for host in hosts
        ]

    def matching(self, resource_type: ResourceType, name: str) -> Iterator[_Bindings]:
        """Yield the bindings of each resource pattern that matches a resource."""
        patterns = [(PatternType.LITERAL, name)]
        if name != WILDCARD:
            patterns.append((PatternType.LITERAL, WILDCARD))
        # Look up only the prefixes whose length occurs in a PREFIXED binding.
        patterns += [
            (PatternType.PREFIXED, name[:length])
            for length in self._prefix_lengths.get(resource_type, ())
            if length <= len(name)
        ]
        for pattern_type, pattern_name in patterns:
            pattern = resource_type, pattern_type, pattern_name
            bindings = self._by_pattern.get(pattern)
            if bindings is not None:
                yield bindings

    def of_type(
        self, resource_type: ResourceType, context: RequestContext
    ) -> Iterator[AclBinding]:
        """Yield the bindings of all patterns of a resource type for a request."""
        holders = self.holders(context)
        for pattern, bindings in self._by_pattern.items():
            if pattern[0] == resource_type:
                yield from _held(bindings, holders)

    def candidates(self, acl_filter: AclBindingFilter) -> Iterable[AclBinding] | None:
        """Return the few bindings that a filter may match; None for a filter that names
        neither a resource nor a principal."""
        name, principal = acl_filter.name, acl_filter.principal
        if name is None:
            return None if principal is None else self._by_principal.get(principal, ())
        if acl_filter.pattern is PatternType.MATCH:
            found = (self.matching(each, name) for each in ResourceType)
            some = list(chain.from_iterable(found))
        else:
            some = [
                self._by_pattern.get((resource_type, pattern, name), {})
                for resource_type in ResourceType
                for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
            ]
        return chain.from_iterable(acls for each in some for acls in each.values())


class AclAuthorizer:
    """An authorizer that decides by ACL bindings.

    `replay` and `clear` update the bindings from the catalog's entries. With
    `delete_implies_describe` false, an allowed DELETE does not imply DESCRIBE: the rule
    in the text of KIP-229.
    """

    def __init__(
        self,
        super_users: Iterable[Principal] = (),
        *,
        allow_everyone_if_no_acl_found: bool = False,
        delete_implies_describe: bool = True,
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_none = allow_everyone_if_no_acl_found
        self._implied_by = dict(IMPLIED_BY)
        if not delete_implies_describe:
            self._implied_by[Operation.DESCRIBE] -= {Operation.DELETE}
        self._is_enforced = True
        self._version = 0
        self.clear()

    def enforce(self, *, is_enforced: bool) -> None:
        """Decide by the bindings, or allow every operation: the cluster whose bindings
        these are has no authorizer."""
        if is_enforced != self._is_enforced:
            self._is_enforced = is_enforced
            self._invalidate_decisions()

    @property
    def version(self) -> int:
        """The number of changes of the bindings so far."""
        return self._version

    @property
    def binding_count(self) -> int:
        """The number of bindings."""
        return len(self._acls)

    def __contains__(self, acl: AclBinding) -> bool:
        return acl.key in self._acls

    def matching(self, acl_filter: AclBindingFilter) -> list[AclBinding]:
        """Return the bindings that a filter matches, in order of resources."""
        candidates = self._index.candidates(acl_filter)
        if candidates is None:
            candidates = self._acls.values()
        return sorted(
            filter(acl_filter.matches, candidates),
            key=lambda acl: (acl.resource_type, acl.name, acl.pattern, *acl),
        )

    def clear(self) -> None:
        """Remove every binding, before the catalog is loaded."""
        self._acls: dict[str, AclBinding] = {}
        self._index = _Index()
        self._invalidate_decisions()

    def replay(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry: add the binding, or remove it when `value` is None."""
        before = self._acls.pop(name, None)
        if before is not None:
            self._index.remove(before)
        if value is not None:
            self._acls[name] = acl = binding_from_value(value)
            self._index.add(acl)
        self._invalidate_decisions()

    def _invalidate_decisions(self) -> None:
        self._version += 1
        self._decisions: dict[object, bool] = {}

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Return whether the operation on the named resource is allowed."""
        question = context, operation, resource_type, name
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide(context, operation, resource_type, name)
            if len(name) <= _CACHED_NAME_LENGTH_MAX:
                self._cache(question, decision)
        return decision

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether the operation is allowed on at least one resource of the
        type, which need not exist (KIP-679)."""
        question = context, operation, resource_type
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide(
                context, operation, resource_type, _ARBITRARY_NAME
            ) or self._allows_some_pattern(context, operation, resource_type)
            self._cache(question, decision)
        return decision

    def _cache(self, question: object, decision: bool) -> None:
        if len(self._decisions) >= _CACHED_DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[question] = decision

    def _decide(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if not self._is_enforced or context.principal in self._super_users:
            return True
        allowing = {operation, Operation.ALL, *self._implied_by.get(operation, ())}
        is_allowed, has_bindings = False, False
        holders = self._index.holders(context)
        for bindings in self._index.matching(resource_type, name):
            # allow.everyone.if.no.acl.found has no effect once any principal has a
            # binding.
            has_bindings = True
            for acl in _held(bindings, holders):
                if acl.permission is PermissionType.ALLOW:
                    is_allowed = is_allowed or acl.operation in allowing
                elif acl.operation in {operation, Operation.ALL}:
                    return False
        return is_allowed or (self._allow_if_none and not has_bindings)

    def _allows_some_pattern(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a resource pattern is allowed that no DENY binding covers
        completely."""
        acls = [
            acl
            for acl in self._index.of_type(resource_type, context)
            if acl.operation in {operation, Operation.ALL}
        ]
        denied = {
            (acl.pattern, acl.name)
            for acl in acls
            if acl.permission is PermissionType.DENY
        }
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(
            acl.permission is PermissionType.ALLOW and not _is_denied(acl, denied)
            for acl in acls
        )


def _is_denied(acl: AclBinding, denied: set[tuple[PatternType, str]]) -> bool:
    """Return whether every resource that the binding matches is denied."""
    if (acl.pattern, acl.name) == (PatternType.LITERAL, WILDCARD):
        return False
    if acl.pattern is PatternType.LITERAL and (PatternType.LITERAL, acl.name) in denied:
        return True
    lengths = range(1, len(acl.name) + 1)
    return any(
        (PatternType.PREFIXED, acl.name[:length]) in denied for length in lengths
    )


def _holder(acl: AclBinding) -> tuple[Principal, str]:
    network = parse_network(acl.host)
    return acl.principal, _canonical(acl.host) if network is None else str(network)


def _held(
    bindings: _Bindings, holders: Iterable[tuple[Principal, str]]
) -> Iterator[AclBinding]:
    for holder in holders:
        yield from bindings.get(holder, ())


def _discard(sets: dict[_Key, set[AclBinding]], key: _Key, acl: AclBinding) -> None:
    """Remove a binding, and its set when that becomes empty."""
    sets[key].remove(acl)
    if not sets[key]:
        del sets[key]


@lru_cache(1_024)
def _canonical(host: str) -> str:
    """Return the canonical text of an address.

    An IPv6 address has several text forms, and a dual-stack socket reports IPv4 clients
    as IPv4-mapped IPv6 addresses.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
