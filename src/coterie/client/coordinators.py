"""FindCoordinator as clients ask it: many groups at once where the broker can
(KIP-699).

Rules of this file: no I/O; it makes requests for one version, and reads answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from coterie.errors import NoBatchedFindCoordinatorsError, UnsupportedByBroker
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP: Final = 0
TRANSACTION: Final = 1
_BATCHED_SINCE: Final = 4
_TYPES_SINCE: Final = 1
_NOWHERE: Final = -1


class Found(NamedTuple):
    """What a broker answered about one key. The rest means nothing with a code."""

    code: ErrorCode
    message: str | None
    node_id: int
    host: str
    port: int


def lookup_request(
    keys: Sequence[GroupId], version: int, key_type: int = GROUP
) -> FindCoordinatorRequest:
    """The request that asks for the coordinators of `keys` (B-22).

    Raises:
        NoBatchedFindCoordinatorsError: More than one key, and a version before 4.
        UnsupportedByBroker: A transaction in version 0, which knows groups only.
    """
    if key_type != GROUP and version < _TYPES_SINCE:
        raise UnsupportedByBroker(
            f"FindCoordinator v{version} finds coordinators of groups only"
        )
    if version >= _BATCHED_SINCE:
        return FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
    if len(keys) != 1:
        raise NoBatchedFindCoordinatorsError(
            f"FindCoordinator v{version} takes one key, not {len(keys)}; "
            f"{_BATCHED_SINCE} is needed"
        )
    return FindCoordinatorRequest(key_type=key_type, key=keys[0])


def read_lookup(
    answer: FindCoordinatorResponse, keys: Sequence[GroupId], version: int
) -> dict[GroupId, Found]:
    """What the broker said of each key. No node is no coordinator, whatever the code;
    keys that the answer does not name are left out."""
    if version < _BATCHED_SINCE:
        return {keys[0]: _found(answer)}
    return {each.key: _found(each) for each in answer.coordinators}


def _found(said: Coordinator | FindCoordinatorResponse) -> Found:
    code = ErrorCode.read(said.error_code)
    if code is ErrorCode.NONE and said.node_id == _NOWHERE:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return Found(code, said.error_message, said.node_id, said.host, said.port)
