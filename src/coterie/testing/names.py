"""The names of APIs and error codes that users of the test kit write."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from typing import Final

from coterie.wire.api import IMPLEMENTED, ApiKey
from coterie.wire.error_codes import ErrorCode

GROUP_APIS: Final = (
    "OffsetCommit",
    "OffsetFetch",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "DeleteGroups",
    "OffsetDelete",
    "TxnOffsetCommit",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "DescribeShareGroupOffsets",
)
"""The APIs that a group's coordinator serves."""
TRANSACTION_APIS: Final = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
)
"""The APIs that the coordinator of a transactional id serves."""


@cache
def _api_keys() -> dict[str, ApiKey]:
    return {key.title: key for key in IMPLEMENTED}


def api_named(name: str) -> ApiKey:
    """Return the API with a name of Kafka's protocol, as "OffsetCommit".

    Raises ValueError, with the nearest names, when there is none.
    """
    keys = _api_keys()
    if name not in keys:
        raise ValueError(f"there is no API {name!r}{_suggestion(name, keys)}")
    return keys[name]


def error_named(name: str) -> ErrorCode:
    """Return the error code with a name of Kafka's protocol, as "NOT_COORDINATOR".

    Raises ValueError, with the nearest names, when there is none.
    """
    try:
        return ErrorCode[name]
    except KeyError:
        names = ErrorCode.__members__
        raise ValueError(
            f"there is no error code {name!r}{_suggestion(name, names)}"
        ) from None


def _suggestion(name: str, names: Iterable[str]) -> str:
    lower = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), lower, n=3, cutoff=0.5)
    return (
        f"; did you mean {' or '.join(lower[each] for each in near)}?" if near else ""
    )
