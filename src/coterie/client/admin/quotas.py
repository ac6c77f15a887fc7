"""Describe and alter client quotas (KIP-546).

Any broker serves DescribeClientQuotas (key 48); the controller serves AlterClientQuotas
(key 49).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from coterie.client.admin.calls import call_controller
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.results import Results, api_error, results_of
from coterie.wire import messages as m


class QuotaName(Enum):
    """A name of a quota's entity other than a text."""

    DEFAULT = "<default>"
    """The default of its type, for names without their own quota."""
    ANY = "<any>"
    """Any name and the default; only to describe quotas."""


QuotaEntityName: TypeAlias = str | QuotaName | None
"""The name of a part of an entity; None for an entity without that part."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """A user, a client id, a user with a client id, or an IP address; None for a type
    that the entity does not have."""

    user: QuotaEntityName = None
    client_id: QuotaEntityName = None
    ip: QuotaEntityName = None

    def __str__(self) -> str:
        return " ".join(f"{kind} {_text(name)}" for kind, name in _types(self).items())


_FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}
_EXACT, _DEFAULT, _SPECIFIED = range(3)
_MATCH_TYPES: Final = {QuotaName.DEFAULT: _DEFAULT, QuotaName.ANY: _SPECIFIED}


class Quotas(Family):
    """Calls about client quotas."""

    async def describe(
        self, match: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, Mapping[str, float]]:
        """Describe the quotas of the entities that match; None matches all.

        A strict match leaves out entities with other types, such as the pairs of a user
        and a client id when `match` has only a user. Raises ApiError, and
        UnsupportedByBroker for brokers before Kafka 2.6.
        """
        request = m.DescribeClientQuotasRequest(
            components=[
                _component(kind, name)
                for kind, name in _types(match or QuotaEntity()).items()
            ],
            strict=strict,
        )
        response = await self._cluster.retrying(
            lambda: self._cluster.call(request, m.DescribeClientQuotasResponse)
        )
        if response.error_code:
            raise api_error(
                response.error_code, "to describe client quotas", response.error_message
            )
        return {
            _entity({each.entity_type: each.entity_name for each in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> Results[QuotaEntity, None]:
        """Set quotas of entities by their keys, such as `producer_byte_rate`; None
        removes one. Raises as `Topics.create` does."""
        request = m.AlterClientQuotasRequest(
            entries=[_alteration(entity, values) for entity, values in changes.items()],
            validate_only=validate_only,
        )
        response = await call_controller(
            self._cluster,
            request,
            m.AlterClientQuotasResponse,
            lambda response: (each.error_code for each in response.entries),
        )
        outcomes = {}
        for each in response.entries:
            entity = _entity(
                {part.entity_type: part.entity_name for part in each.entity}
            )
            outcomes[entity] = (
                api_error(each.error_code, f"quotas of {entity}", each.error_message)
                if each.error_code
                else None
            )
        return results_of(changes, outcomes)


class SyncQuotas(SyncFamily[Quotas]):
    """The blocking methods of `Quotas`."""

    describe = blocking(Quotas.describe)
    alter = blocking(Quotas.alter)


def _types(entity: QuotaEntity) -> dict[str, str | QuotaName]:
    """Return the names of an entity by Kafka's types."""
    names = {kind: getattr(entity, field) for kind, field in _FIELDS.items()}
    return {kind: name for kind, name in names.items() if name is not None}


def _entity(types: Mapping[str, str | None]) -> QuotaEntity:
    return QuotaEntity(
        **{
            _FIELDS[kind]: QuotaName.DEFAULT if name is None else name
            for kind, name in types.items()
            if kind in _FIELDS
        }
    )


def _component(kind: str, name: str | QuotaName) -> m.QuotaFilterComponent:
    if isinstance(name, str):
        return m.QuotaFilterComponent(entity_type=kind, match_type=_EXACT, match=name)
    return m.QuotaFilterComponent(entity_type=kind, match_type=_MATCH_TYPES[name])


def _alteration(
    entity: QuotaEntity, values: Mapping[str, float | None]
) -> m.QuotaAlteration:
    types = _types(entity)
    if QuotaName.ANY in types.values():
        raise ValueError(f"{entity}: ANY has no quota of its own; use DEFAULT")
    return m.QuotaAlteration(
        entity=[
            m.AlteredQuotaEntity(
                entity_type=kind, entity_name=name if isinstance(name, str) else None
            )
            for kind, name in types.items()
        ],
        ops=[
            m.QuotaOperation(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )


def _text(name: str | QuotaName) -> str:
    return name if isinstance(name, str) else name.value
