"""ApiVersions, key 18: versions 0-4 (KIP-35, KIP-511, KIP-584).

A version from the future never gets here: the connection answers it in the form of v0,
with UNSUPPORTED_VERSION (G1-03).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from coterie.server.call import Call
from coterie.wire.api import ADVERTISED, KNOWN
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE: Final = 3
_FROM_ZERO_SINCE: Final = 4

FEATURES: Final = (("group.version", 0, 1), ("transaction.version", 0, 2))
"""Name, least and greatest level. Group version 1 is KIP-848 (E30-02), transaction
version 2 is KIP-890."""


def handle(call: Call) -> None:
    """List the APIs, their versions, and the features with their levels."""
    request: ApiVersionsRequest = call.request
    sasl = call.peer.sasl
    if sasl is not None and sasl.takes_tokens:
        call.answer(ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        call.close()
        return
    if call.api_version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        call.answer(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    settings = call.node.broker.settings
    call.answer(
        _response(
            from_zero=call.api_version >= _FROM_ZERO_SINCE,
            consumer="consumer" in settings.group_coordinator_rebalance_protocols,
            private=settings.group_consumer_client_assignors_enable,
        )
    )


@cache
def _response(*, from_zero: bool, consumer: bool, private: bool) -> ApiVersionsResponse:
    """Up to v3 a feature whose least level is 0 cannot be told: clients of the time
    refuse it, so it is left out (KAFKA-17011)."""
    levels = {"group.version": int(consumer), "transaction.version": 2}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in (KNOWN if private else ADVERTISED).items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, low, high in FEATURES
            if low or from_zero
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(
                name=name, min_version_level=level, max_version_level=level
            )
            for name, level in levels.items()
            if level
        ],
    )
