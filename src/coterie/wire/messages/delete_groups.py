"""DeleteGroups, key 42: versions 0-3, flexible from 2.

v0: several groups, an error code for each (KIP-229).
v1: throttled responses are sent at once; the client delays (KIP-219).
v2: flexible (KIP-482).
v3: error messages (KIP-1331).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions="0-3", flexible="2+"):
    groups_names: list[str] = array("string")


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None)


class DeleteGroupsResponse(Message, key=42, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
