"""ListGroups, key 16: versions 0-5, flexible from 3.

v1: throttle time.
v2: throttled responses are sent at once; the client delays (KIP-219).
v3: flexible (KIP-482).
v4: states, and a filter by them (KIP-518).
v5: types, and a filter by them (KIP-848).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


class ListGroupsResponse(Message, key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
