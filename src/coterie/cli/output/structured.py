"""Output for programs: JSON, JSON lines and YAML.

Within a schema version, keys of the envelope and of items may be added but not renamed
or removed. `jsonl` has one line per item, then one line {"error": ...} for each failure
without an item.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from coterie.cli.output.outcome import Json, Outcome
from coterie.cli.output.tables import is_utf8

_AS_TEXT: Final = json.JSONEncoder(ensure_ascii=False)
_PLAIN_KEY: Final = re.compile(
    "(?!(y|n|yes|no|on|off|true|false|null)$)[a-z][a-z0-9_]*"
)
"""Keys without quotes, which are not truth values or null in YAML 1.1."""
_NOT_IN_YAML: Final = re.compile(
    "[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\ufffe\uffff]"
)
_NOT_ASCII: Final = re.compile("[^\\x00-\\x7e]")
_UNSAFE: Final = re.compile("[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON allows in text, but that act on a terminal: C1 controls, and
those that change the direction of text."""
_BASIC_PLANE_END: Final = 0xFFFF
_AS_LINE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def render(
    outcome: Outcome,
    form: str,
    command: str,
    now: datetime,
    encoding: str | None = None,
) -> Iterator[str]:
    """Return the outcome as text in pieces, with escapes for characters that an
    encoding other than UTF-8 may not have.

    The text of many items takes more memory than the items, so it is not joined.
    """
    if form == "yaml":
        pieces = yaml_lines(envelope(outcome, command, now))
        if is_utf8(encoding):
            return pieces
        return (_NOT_ASCII.sub(_yaml_escape, piece) for piece in pieces)
    pieces = _lines(outcome)
    if form == "json":
        pieces = _document(envelope(outcome, command, now))
    return (safe_json(piece, encoding) for piece in pieces)


def safe_json(text: str, encoding: str | None) -> str:
    """Return JSON text with escapes for characters that act on a terminal, or that the
    encoding of the output may not have."""
    # Such characters occur in quoted strings only.
    unsafe = _UNSAFE if is_utf8(encoding) else _NOT_ASCII
    return unsafe.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _yaml_escape(found: re.Match[str]) -> str:
    # YAML does not join the two surrogates of JSON's escape.
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= _BASIC_PLANE_END else f"\\U{code:08x}"


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


def yaml_lines(document: Mapping[str, Json]) -> Iterator[str]:
    """Yield a document as YAML in blocks.

    YAML is a superset of JSON: strings, numbers and empty collections are written as
    JSON, so that no text is taken for a number, a date or a truth value.
    """
    for key, value in document.items():
        yield from _yaml_pair(key, value, "")


def _yaml_pair(key: str, value: Json, indent: str, first: str = "") -> Iterator[str]:
    """Yield the lines of a key and its value; `first` replaces the first indent."""
    name = key if _PLAIN_KEY.fullmatch(key) else _yaml_scalar(key)
    begin = f"{first or indent}{name}:"
    if isinstance(value, Mapping) and value:
        yield f"{begin}\n"
        for inner, each in value.items():
            yield from _yaml_pair(inner, each, f"{indent}  ")
    elif isinstance(value, list | tuple) and value:
        yield f"{begin}\n"
        for each in value:
            yield from _yaml_item(each, indent)
    else:
        yield f"{begin} {_yaml_scalar(value)}\n"


def _yaml_item(value: Json, indent: str) -> Iterator[str]:
    """Yield the lines of an element of a list."""
    if isinstance(value, Mapping) and value:
        first = f"{indent}- "
        for key, each in value.items():
            yield from _yaml_pair(key, each, f"{indent}  ", first)
            first = ""
    else:  # A list in a list is written as JSON.
        yield f"{indent}- {_yaml_scalar(value)}\n"


def _yaml_scalar(value: Json) -> str:
    """Return a value as JSON, with escapes for what YAML 1.1 does not allow in it."""
    return _NOT_IN_YAML.sub(_yaml_escape, _AS_TEXT.encode(value))
