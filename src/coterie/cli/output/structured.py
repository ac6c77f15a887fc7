"""Output for programs: JSON, JSON lines and CSV.

Within a schema version, keys of the envelope and of items may be added but not renamed
or removed. `jsonl` has one line per item, then one line {"error": ...} for each failure
without an item.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from typing import Final

from coterie.cli.output.outcome import Json, Outcome

_AS_TEXT: Final = json.JSONEncoder(ensure_ascii=False)
_AS_LINE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def render(outcome: Outcome, form: str, command: str, now: datetime) -> Iterator[str]:
    """Return the outcome as text in pieces.

    The text of many items takes more memory than the items, so it is not joined.
    """
    if form == "json":
        yield from _document(envelope(outcome, command, now))
    elif form == "jsonl":
        yield from _lines(outcome)
    else:
        yield from _csv(outcome)


def envelope(outcome: Outcome, command: str, now: datetime) -> dict[str, Json]:
    """Return the JSON document with all items."""
    counts: dict[str, Json] = {"ok": outcome.ok, "failed": outcome.failed}
    if outcome.unit:
        counts["unit"] = outcome.unit
    return {
        "schema": outcome.schema,
        "schema_version": outcome.schema_version,
        "command": command,
        "cluster_id": outcome.cluster_id,
        **outcome.context,
        "generated_at": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "items": outcome.items,
        "errors": [each.as_item() for each in outcome.failures],
        "summary": {**counts, **outcome.summary},
    }


def _document(document: Mapping[str, Json]) -> Iterator[str]:
    """Encode a document with one line per key and one per item."""
    before = "{"
    for key, value in document.items():
        yield f'{before}\n  "{key}": '
        if isinstance(value, list | tuple) and value:
            yield from _array(value)
        else:
            yield _AS_TEXT.encode(value)
        before = ","
    yield "\n}\n"


def _array(values: Sequence[Json]) -> Iterator[str]:
    before = "["
    for value in values:
        yield f"{before}\n    {_AS_TEXT.encode(value)}"
        before = ","
    yield "\n  ]"


def _lines(outcome: Outcome) -> Iterator[str]:
    encode = _AS_LINE.encode
    for item in outcome.items:
        yield encode(item) + "\n"
    for each in outcome.failures:
        yield encode({"error": each.as_item()}) + "\n"


def _csv(outcome: Outcome) -> Iterator[str]:
    """Encode one row per item; an unknown value is an empty field."""
    import csv

    keys = list(outcome.items[0]) if outcome.items else []
    keys = keys or [each.key for each in outcome.columns]
    line = StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(keys)
    for item in outcome.items:
        yield line.getvalue()
        line.seek(0)
        line.truncate()
        writer.writerow([_field(item.get(key)) for key in keys])
    yield line.getvalue()


def _field(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Mapping):
        if "code" in value:
            return str(value["code"])
        return ";".join(f"{key}:{_list(each)}" for key, each in value.items())
    return ";".join(_field(each) for each in value)


def _list(value: Json) -> str:
    return _field(value).replace(";", ",")
