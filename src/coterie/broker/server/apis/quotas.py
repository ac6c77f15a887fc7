"""The APIs of client quotas (KIP-546).

====================  ===  ========
API                   key  versions
====================  ===  ========
DescribeClientQuotas  48   0-1
AlterClientQuotas     49   0-1
====================  ===  ========
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker.catalog.client_quotas import (
    FilterComponent,
    QuotaChange,
    QuotaEntity,
    QuotaKey,
    quota_entity,
)
from coterie.broker.server.apis.routing import respond_when_durable
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_UNAUTHORIZED: Final = ApiError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
)


# DescribeClientQuotas.


def describe_client_quotas(call: Call) -> None:
    """Describe the quotas that match the filter, once they are durable. Requires
    DESCRIBE_CONFIGS on the cluster."""
    request: m.DescribeClientQuotasRequest = call.request
    components = [
        FilterComponent(each.entity_type, each.match_type, each.match)
        for each in request.components
    ]
    quotas = call.node.broker.catalog.client_quotas
    try:
        if not call.authorize_cluster(Operation.DESCRIBE_CONFIGS):
            raise _UNAUTHORIZED
        described = [
            _described(entity, values)
            for entity, values in quotas.describe(components, is_strict=request.strict)
        ]
    except ApiError as error:
        call.respond(_describe_error(error.code, error.message))
        return

    def durable(code: ErrorCode) -> None:
        call.respond(
            _describe_error(code)
            if code
            else m.DescribeClientQuotasResponse(error_message="", entries=described)
        )

    call.node.broker.data.when_durable(durable)


_DESCRIBED_KEYS: Final = (
    QuotaKey.FETCH,
    QuotaKey.REQUEST,
    QuotaKey.PRODUCE,
    QuotaKey.CONTROLLER_MUTATION,
    QuotaKey.CONNECTION,
)
"""The order of an entity's values: that of Kafka's hash map for the first three."""
assert len(_DESCRIBED_KEYS) == len(QuotaKey)


def _described(entity: QuotaEntity, values: Mapping[str, float]) -> m.DescribedQuota:
    return m.DescribedQuota(
        entity=[
            m.DescribedQuotaEntity(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
        values=[
            m.DescribedQuotaValue(key=key, value=values[key])
            for key in _DESCRIBED_KEYS
            if key in values
        ],
    )


def _describe_error(
    code: ErrorCode, message: str | None = None
) -> m.DescribeClientQuotasResponse:
    return m.DescribeClientQuotasResponse(
        error_code=code, error_message=message, entries=None
    )


# AlterClientQuotas.


def alter_client_quotas(call: Call) -> None:
    """Change the quotas of entities. Requires ALTER_CONFIGS on the cluster.

    Every entity has a result; the response is sent once all changes are durable.
    """
    request: m.AlterClientQuotasRequest = call.request
    changes = [_change(each) for each in request.entries]
    data = call.node.broker.data
    try:
        if not call.authorize_cluster(Operation.ALTER_CONFIGS):
            raise _UNAUTHORIZED
        entries, results = data.catalog.client_quotas.alter(changes)
    except ApiError as error:
        failed = [_result(change.entity, error) for change in changes]
        call.respond(m.AlterClientQuotasResponse(entries=failed))
        return
    if not request.validate_only:
        data.stage(entries)
    response = m.AlterClientQuotasResponse(
        entries=[_result(entity, error) for entity, error in results.items()]
    )
    respond_when_durable(call, response, response.entries)


def _change(alteration: m.QuotaAlteration) -> QuotaChange:
    entity = {each.entity_type: each.entity_name for each in alteration.entity}
    return QuotaChange(
        quota_entity(entity),
        [(each.key, None if each.remove else each.value) for each in alteration.ops],
    )


def _result(entity: QuotaEntity, error: ApiError | None) -> m.AlterClientQuotasResult:
    return m.AlterClientQuotasResult(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=[
            m.AlteredQuotaEntity(entity_type=kind, entity_name=name)
            for kind, name in entity
        ],
    )
