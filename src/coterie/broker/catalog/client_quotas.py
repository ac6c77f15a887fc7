"""Client quotas: their entities, values and order of precedence (KIP-55, KIP-546).

An entity is a user, a client id, both, or an IP address; a name of None is the default
of its type, as in `<default>`. Conditions and messages of errors are those of Kafka's
`ClientQuotaControlManager` and `ClientQuotasImage`, except that an IP address must be a
literal, because the catalog resolves no host names.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.catalog.entries import (
    CHANGES_PER_REQUEST_MAX,
    Entry,
    EntryKind,
    too_many_changes,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The entity's types, sorted, each with its name; None for the default."""

_LONG_BOUND: Final = 2.0**63
_INT_BOUND: Final = 2.0**31 - 1
_FRACTION_MAX: Final = 1e-6


class QuotaKey(StrEnum):
    """The quotas, by the key of their configuration."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


_CLIENT_KEYS: Final = frozenset(QuotaKey) - {QuotaKey.CONNECTION}
_IP_KEYS: Final = frozenset({QuotaKey.CONNECTION})
_INTEGRAL: Final[Mapping[str, tuple[float, str]]] = {
    QuotaKey.PRODUCE: (_LONG_BOUND, "a LONG"),
    QuotaKey.FETCH: (_LONG_BOUND, "a LONG"),
    QuotaKey.CONNECTION: (_INT_BOUND, "an INT"),
}


class QuotaLimit(NamedTuple):
    """The quota of a client: its bound, and the user and client id that share it.

    An empty user or client id stands for all.
    """

    bound: float
    user: str
    client_id: str


class MatchType(IntEnum):
    """The ways in which a filter component matches an entity's name."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2
    """Any name, or the default."""


class FilterComponent(NamedTuple):
    """One condition on the entities to describe."""

    entity_type: str
    match_type: int
    match: str | None


class QuotaChange(NamedTuple):
    """The changes of one entity in a request: pairs of key and value, None to remove
    it. A key may be repeated, which is an error."""

    entity: QuotaEntity
    values: Sequence[tuple[str, float | None]]


class ClientQuotas:
    """The quotas of all entities.

    The object lives as long as its catalog; `clear` empties it, so that references to
    it stay valid when the catalog is loaded again. `version` grows with each change.
    """

    def __init__(self) -> None:
        self._entities: dict[QuotaEntity, Mapping[str, float]] = {}
        self._by_ip: dict[str, float] = {}
        self.version = 0
        self.has_client_quotas = False
        """Whether there is a quota of a user or a client id."""

    def clear(self) -> None:
        """Remove all quotas, before the catalog is loaded."""
        self._entities.clear()
        self._changed()

    # Decisions: they return entries and do not change the state.

    def alter(
        self, changes: Sequence[QuotaChange]
    ) -> tuple[list[Entry], dict[QuotaEntity, ApiError | None]]:
        """Return the entries to write, and the error of each entity or None.

        As in Kafka, the second change of an entity is an error, which is its result,
        and the first takes effect. Raises ApiError POLICY_VIOLATION for too many
        changed values.
        """
        entries: list[Entry] = []
        results: dict[QuotaEntity, ApiError | None] = {}
        changed_count = 0
        for entity, values in changes:
            new = dict(values)
            if entity in results or len(new) < len(values):
                results[entity] = _invalid(
                    f"Ignoring duplicate entity {_entity_text(entity)}"
                )
                continue
            try:
                changed = self._altered(entity, new)
            except ApiError as error:
                results[entity] = error
                continue
            results[entity] = None
            own = self._entities.get(entity, {})
            count = sum(own.get(key) != changed.get(key) for key in new)
            changed_count += count
            if changed_count > CHANGES_PER_REQUEST_MAX:
                raise too_many_changes()
            if count:
                name = json.dumps(dict(entity), separators=(",", ":"))
                entries.append(Entry(EntryKind.CLIENT_QUOTA, name, changed or None))
        return entries, results

    def _altered(
        self, entity: QuotaEntity, new: Mapping[str, float | None]
    ) -> dict[str, float]:
        """Return the entity's values after the change. Raises INVALID_REQUEST."""
        keys = _keys_of(entity)
        values = dict(self._entities.get(entity, {}))
        for key, value in new.items():
            if value is None:
                values.pop(key, None)
            else:
                _check_value(keys, key, value)
                values[key] = value
        return values

    # Queries.

    def describe(
        self, components: Sequence[FilterComponent], *, is_strict: bool
    ) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
        """Return the entities that match all components, with their values.

        A strict filter matches only entities without other types. Raises ApiError
        INVALID_REQUEST, or UNSUPPORTED_VERSION for an unknown type.
        """
        exact, types = _parse_filter(components)
        return (
            (entity, values)
            for entity, values in self._entities.items()
            if _matches(dict(entity), exact, types, is_strict=is_strict)
        )

    def limit(self, key: QuotaKey, user: str, client_id: str) -> QuotaLimit | None:
        """Return the quota of a client, in Kafka's order of precedence; None for none.

        An empty client id has only the quotas of its user, as in Kafka's
        `ClientQuotaManager`.
        """
        for entity in _levels(user, client_id):
            bound = self._entities.get(entity, {}).get(key)
            if bound is not None:
                types = dict(entity)
                return QuotaLimit(
                    bound,
                    user if USER in types else "",
                    client_id if CLIENT_ID in types else "",
                )
        return None

    @property
    def has_connection_quotas(self) -> bool:
        """Whether there is a quota of an IP address."""
        return bool(self._by_ip)

    def connection_rate(self, address: str) -> float | None:
        """Return the limit of new connections per second from an IP address, or
        None."""
        if not self._by_ip:
            return None
        own = self._by_ip.get(_canonical(address))
        return self._by_ip.get("") if own is None else own

    # Replay.

    def replay(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry."""
        entity: QuotaEntity = tuple(json.loads(name).items())
        if value is None:
            self._entities.pop(entity, None)
        else:
            self._entities[entity] = value
        self._changed(entity)

    def _changed(self, entity: QuotaEntity = ()) -> None:
        self.version += 1
        if not self._entities:
            self._by_ip.clear()
            self.has_client_quotas = False
        elif entity[0][0] == IP:
            address = entity[0][1]
            at = "" if address is None else _canonical(address)
            self._by_ip.pop(at, None)
            rate = self._entities.get(entity, {}).get(QuotaKey.CONNECTION)
            if rate is not None:
                self._by_ip[at] = rate
        self.has_client_quotas = len(self._entities) > len(self._by_ip)


def _levels(user: str, client_id: str) -> Iterator[QuotaEntity]:
    """Yield the entities whose quota may apply to a client, the first one first."""
    for user_name in (user, None):
        if client_id:
            yield (CLIENT_ID, client_id), (USER, user_name)
            yield (CLIENT_ID, None), (USER, user_name)
        yield ((USER, user_name),)
    if client_id:
        yield ((CLIENT_ID, client_id),)
        yield ((CLIENT_ID, None),)


def quota_entity(types: Mapping[str, str | None]) -> QuotaEntity:
    """Return the entity with these types and names."""
    return tuple(sorted(types.items()))


# Validation.


def _keys_of(entity: QuotaEntity) -> frozenset[QuotaKey]:
    """Return the quotas that an entity may have. Raises ApiError INVALID_REQUEST for an
    invalid entity."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in _TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    types = dict(entity)
    if IP not in types:
        return _CLIENT_KEYS
    if len(types) > 1:
        # Kafka's message has no space either.
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with "
            "User or ClientId"
        )
    address = types[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _check_value(keys: frozenset[QuotaKey], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:  # NaN, too
        raise _invalid(f"Quota {key} must be greater than 0")
    if key not in _INTEGRAL:
        if math.isinf(value):  # Kafka accepts it; the same as no quota
            raise _invalid(f"Quota {key} must be finite")
        return
    bound, type_name = _INTEGRAL[key]
    if value > bound:
        raise _invalid(f"Proposed value for {key} is too large for {type_name}.")
    if math.fmod(value, 1.0) > _FRACTION_MAX:
        raise _invalid(f"{key} cannot be a fractional value.")


def _parse_filter(
    components: Sequence[FilterComponent],
) -> tuple[dict[str, str | None], set[str]]:
    """Return the names to match exactly by type, and the types to match by any name."""
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for kind, match_type, match in components:
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in exact or kind in types:
            raise _invalid(
                f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in _TYPES:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
            )
        _check_match(match_type, match)
        if match_type == MatchType.SPECIFIED:
            types.add(kind)
        else:
            exact[kind] = match
    named = exact.keys() | types
    if IP in named and len(named) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should "
            "not be used with user or clientId filter component."
        )
    return exact, types


def _check_match(match_type: int, match: str | None) -> None:
    try:
        name = MatchType(match_type).name
    except ValueError:
        raise _invalid(f"Unknown match type {match_type}") from None
    if match_type == MatchType.EXACT:
        if match is None:
            raise _invalid(
                f"Request specified MATCH_TYPE_{name}, but set match string to null."
            )
    elif match is not None:
        raise _invalid(
            f"Request specified MATCH_TYPE_{name}, but also specified a match string."
        )


def _matches(
    entity: Mapping[str, str | None],
    exact: Mapping[str, str | None],
    types: set[str],
    *,
    is_strict: bool,
) -> bool:
    if is_strict and len(entity) != len(exact) + len(types):
        return False
    return types <= entity.keys() and exact.items() <= entity.items()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _canonical(address: str) -> str:
    """Return one spelling for all spellings of an IPv6 address."""
    return ipaddress.ip_address(address).compressed if ":" in address else address


def _entity_text(entity: QuotaEntity) -> str:
    """Return an entity as in messages of Kafka."""
    names = ", ".join(
        f"{kind}={'null' if name is None else name}" for kind, name in entity
    )
    return f"ClientQuotaEntity(entries={{{names}}})"


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
