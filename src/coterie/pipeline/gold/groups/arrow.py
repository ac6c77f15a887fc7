"""Records of a group out of Arrow, and what the replay says into Arrow."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from coterie.pipeline.gold.groups.fold import Folded
from coterie.pipeline.gold.groups.record import Record
from coterie.pipeline.tables.group_history import GROUP_HISTORY

NAME_TYPE: Final = -1
"""The `record_type` of a row that is no record but says a topic's name: its id is in
`member_id`, its name in `protocol`."""

_PLACE: Final = Record._fields[:6]
_TYPE: Final = _PLACE.index("record_type")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_SCHEMA: Final = GROUP_HISTORY.schema


def records_of(table: Any) -> tuple[list[Record], dict[str, str]]:
    """The records of one group in order of their offsets, and names of topics. Columns:
    the first fields of `Record`, and `value`, the others in JSON without nulls."""
    columns = [table.column(name).to_pylist() for name in (*_PLACE, "value")]
    records, names = [], {}
    for *place, value in sorted(zip(*columns, strict=True), key=itemgetter(0)):
        fields = _decode(value)
        if place[_TYPE] == NAME_TYPE:
            names[fields["member_id"]] = fields["protocol"]
        else:
            records.append(Record(*place, **fields))
    return records, names


def history_of(log_partition: int, group_id: str, folded: Folded) -> Any:
    """Rows of group_history."""
    kinds = {
        "group": [folded.group],
        "member": folded.members,
        "ownership": folded.ownership,
        "session": folded.sessions,
        "rebalance": folded.rebalances,
    }
    count = sum(map(len, kinds.values()))
    columns: dict[str, list[Any]] = {
        "log_partition": [log_partition] * count,
        "group_id": [group_id] * count,
        "kind": [kind for kind, rows in kinds.items() for _ in rows],
        "number": [number for rows in kinds.values() for number in range(len(rows))],
    }
    before = 0
    for kind, rows in kinds.items():
        after = count - before - len(rows)
        columns[kind] = [*[None] * before, *rows, *[None] * after]
        before += len(rows)
    arrays = [pa.array(columns[each.name], each.type) for each in _SCHEMA]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)
