"""Who may do what, decided by bindings as Kafka's own authorizer decides it.

Its rules (KIP-11, KIP-290, and what Kafka made of KIP-229, D-31):

- a super user may do everything;
- one binding that denies settles it, whatever others allow;
- to be allowed one operation may imply another (`IMPLIED_BY`); to be denied implies
  nothing, but that ALL denies everything (D-32);
- where no binding speaks of a resource, nobody may do anything to it, unless everyone
  was given leave (`allow.everyone.if.no.acl.found`).

A decision looks at the bindings of one resource and one principal only, and is
remembered until a binding comes or goes: it costs the same beside ten bindings as
beside ten thousand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, Final, TypeAlias

from coterie.auth.acl import (
    ANY_NAME,
    EVERYBODY,
    Acl,
    AclFilter,
    Pattern,
    Permission,
    from_value,
)
from coterie.auth.authorizer import Caller, Operation, Principal, ResourceType

IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""The operations whose being allowed allows this one too (D-30, D-31)."""

_MEMO_MAX: Final = 10_000
_MEMO_NAME_MAX: Final = 256
_SOME_NAME: Final = "hardcode"
"""A name like any other; Kafka asks about this one, too, where any would do."""

_Bindings: TypeAlias = dict[Principal, set[Acl]]
"""The bindings to one pattern, by whom they are for."""


class _Index:
    """Bindings by the resources they speak of."""

    def __init__(self) -> None:
        self._by_pattern: dict[tuple[ResourceType, Pattern, str], _Bindings] = {}
        self._prefix_sizes: dict[ResourceType, Counter[int]] = {}

    def add(self, acl: Acl) -> None:
        """Take a binding in."""
        where = acl.resource_type, acl.pattern, acl.name
        bindings = self._by_pattern.setdefault(where, {})
        if not bindings and acl.pattern is Pattern.PREFIXED:
            sizes = self._prefix_sizes.setdefault(acl.resource_type, Counter())
            sizes[len(acl.name)] += 1
        bindings.setdefault(acl.principal, set()).add(acl)

    def remove(self, acl: Acl) -> None:
        """Let go of a binding that was taken in."""
        where = acl.resource_type, acl.pattern, acl.name
        bindings = self._by_pattern[where]
        bindings[acl.principal].remove(acl)
        if not bindings[acl.principal]:
            del bindings[acl.principal]
        if bindings:
            return
        del self._by_pattern[where]
        if acl.pattern is Pattern.PREFIXED:
            sizes = self._prefix_sizes[acl.resource_type]
            sizes[len(acl.name)] -= 1
            if not sizes[len(acl.name)]:
                del sizes[len(acl.name)]

    def about(self, resource_type: ResourceType, name: str) -> Iterator[_Bindings]:
        """All bindings that speak of a resource, pattern by pattern."""
        literal = Pattern.LITERAL
        names = (
            [(literal, name)]
            if name == ANY_NAME
            else [
                (literal, name),
                (literal, ANY_NAME),
            ]
        )
        names += [
            (Pattern.PREFIXED, name[:size])
            for size in self._prefix_sizes.get(resource_type, ())
            if size <= len(name)
        ]
        for pattern, found in names:
            bindings = self._by_pattern.get((resource_type, pattern, found))
            if bindings is not None:
                yield bindings

    def of_type(
        self, resource_type: ResourceType, principal: Principal
    ) -> Iterator[Acl]:
        """The bindings to such resources that are for the principal."""
        for where, bindings in self._by_pattern.items():
            if where[0] == resource_type:
                yield from _for(bindings, principal)


class AclAuthorizer:
    """Decides by bindings, and keeps them.

    The bindings are those of the catalog's entries that were replayed (`replay`,
    `clear`), by their keys. With `delete_implies_describe` false, whoever may delete a
    resource may not therefore describe it: the rule of KIP-229's text (D-31).
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
        self._version = 0
        self.clear()

    @property
    def version(self) -> int:
        """The version of the rules."""
        return self._version

    # The bindings.

    def __contains__(self, acl: Acl) -> bool:
        return acl.key in self._acls

    def picked_by(self, wanted: AclFilter) -> list[Acl]:
        """The bindings that a filter means, in order of resources."""
        found = [acl for acl in self._acls.values() if wanted.picks(acl)]
        return sorted(found, key=_place)

    def clear(self) -> None:
        """Forget every binding, to be loaded again."""
        self._acls: dict[str, Acl] = {}
        self._index = _Index()
        self._changed()

    def replay(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry: a binding is there from now on, or is no more."""
        before = self._acls.pop(name, None)
        if before is not None:
            self._index.remove(before)
        if value is not None:
            self._acls[name] = acl = from_value(value)
            self._index.add(acl)
        self._changed()

    def _changed(self) -> None:
        self._version += 1
        self._memo: dict[object, bool] = {}

    # Decisions.

    def authorize(
        self,
        caller: Caller,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether the caller may do this to the named resource (E27)."""
        asked = caller, operation, resource_type, name
        known = self._memo.get(asked)
        if known is None:
            known = self._decide(caller, operation, resource_type, name)
            if len(name) <= _MEMO_NAME_MAX:
                self._remember(asked, known)
        return known

    def authorize_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there is a name of such a resource, though it may not exist, to which
        the caller may do this (KIP-679)."""
        asked = caller, operation, resource_type
        known = self._memo.get(asked)
        if known is None:
            known = self._decide(
                caller, operation, resource_type, _SOME_NAME
            ) or self._may_some(caller, operation, resource_type)
            self._remember(asked, known)
        return known

    def _remember(self, asked: object, decision: bool) -> None:
        if len(self._memo) >= _MEMO_MAX:
            self._memo.clear()
        self._memo[asked] = decision

    def _decide(
        self,
        caller: Caller,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if caller.principal in self._super_users:
            return True
        allows = {operation, Operation.ALL, *self._implied_by.get(operation, ())}
        is_allowed, is_spoken_of = False, False
        for bindings in self._index.about(resource_type, name):
            is_spoken_of = True
            for acl in _from(_for(bindings, caller.principal), caller.host):
                if acl.permission is Permission.ALLOW:
                    is_allowed = is_allowed or acl.operation in allows
                elif acl.operation in {operation, Operation.ALL}:
                    return False
        return is_allowed or (self._allow_if_none and not is_spoken_of)

    def _may_some(
        self, caller: Caller, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a pattern is allowed that no binding denies as a whole."""
        found = self._index.of_type(resource_type, caller.principal)
        said = [
            acl
            for acl in _from(found, caller.host)
            if acl.operation in {operation, Operation.ALL}
        ]
        denied = {
            (acl.pattern, acl.name) for acl in said if acl.permission is Permission.DENY
        }
        if (Pattern.LITERAL, ANY_NAME) in denied:
            return False
        return any(
            acl.permission is Permission.ALLOW and not _is_denied(acl, denied)
            for acl in said
        )


def _is_denied(acl: Acl, denied: set[tuple[Pattern, str]]) -> bool:
    """Whether everything that the binding allows is denied."""
    if (acl.pattern, acl.name) == (Pattern.LITERAL, ANY_NAME):
        return False
    if acl.pattern is Pattern.LITERAL and (Pattern.LITERAL, acl.name) in denied:
        return True
    sizes = range(1, len(acl.name) + 1)
    return any((Pattern.PREFIXED, acl.name[:size]) in denied for size in sizes)


def _for(bindings: _Bindings, principal: Principal) -> Iterator[Acl]:
    """Those for the principal, and those for everybody."""
    yield from bindings.get(principal, ())
    yield from bindings.get(EVERYBODY, ())


def _from(acls: Iterable[Acl], host: str) -> Iterator[Acl]:
    """Those that hold for who comes from there."""
    for acl in acls:
        if acl.host in {ANY_NAME, host} or _address(acl.host) == _address(host):
            yield acl


@lru_cache(1_024)
def _address(host: str) -> str:
    """An address in one spelling: IPv6 has many, and a host that listens for both
    families sees IPv4 callers inside it."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)


def _place(acl: Acl) -> tuple[object, ...]:
    return (acl.resource_type, acl.name, acl.pattern, *acl)
