"""Records as items of JSON, and back.

A key, a value or the value of a header is text with the encoding "utf-8", or base64
with the encoding "base64" when its bytes are not UTF-8; null is null. So every record
survives `records read --output jsonl | records produce --format jsonl`.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

from coterie import client
from coterie.cli.output.outcome import Item
from coterie.errors import SettingError
from coterie.types import TopicPartition

UTF_8: Final = "utf-8"
BASE64: Final = "base64"
_ENCODINGS: Final = (None, UTF_8, BASE64)
RECORD_KEYS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "key",
    "key_encoding",
    "value",
    "value_encoding",
    "headers",
)
"""The keys of every item, in order."""
_KEYS_IGNORED: Final = frozenset({"topic", "offset"})
"""Keys of read records that say where they were."""
_KEYS_READ: Final = frozenset(RECORD_KEYS) - _KEYS_IGNORED
_KEYS_OF_HEADER: Final = frozenset({"key", "value", "encoding"})
_INT64_MAX: Final = 2**63 - 1


def record_item(partition: TopicPartition, record: client.LogRecord) -> Item:
    """Return a record as an item."""
    key, key_encoding = _text(record.key)
    value, value_encoding = _text(record.value)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
        "key": key,
        "key_encoding": key_encoding,
        "value": value,
        "value_encoding": value_encoding,
        "headers": [_header_item(*each) for each in record.headers],
    }


def _header_item(name: str, content: bytes | None) -> Item:
    text, encoding = _text(content)
    return {"key": name, "value": text, "encoding": encoding}


def _text(data: bytes | None) -> tuple[str | None, str | None]:
    """Return bytes as text, and its encoding."""
    if data is None:
        return None, None
    try:
        return data.decode(), UTF_8
    except UnicodeDecodeError:
        return b64encode(data).decode(), BASE64


def json_line(item: Item, *, is_utf8: bool = True) -> str:
    """Return an item as one line of JSON without control characters, and without other
    characters than ASCII for another encoding than UTF-8."""
    text = json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    if not text.isprintable() or not (is_utf8 or text.isascii()):
        text = json.dumps(item, separators=(",", ":"))
    return f"{text}\n"


def read_json_line(line: bytes) -> client.NewRecord:
    """Return the record of a line of JSON. Raises SettingError."""
    try:
        item = json.loads(line)
    except ValueError as error:
        raise SettingError(f"it is not JSON: {error}") from None
    if not isinstance(item, dict):
        raise SettingError("it is not a JSON object")
    if unknown := sorted(item.keys() - _KEYS_READ - _KEYS_IGNORED):
        raise SettingError(
            f"unknown key {unknown[0]!r}; known are {', '.join(sorted(_KEYS_READ))}"
        )
    if "value" not in item:
        raise SettingError('it has no "value"; write null for a tombstone')
    headers = item.get("headers") or []
    if not isinstance(headers, list):
        raise SettingError('"headers" is not a list of objects with key and value')
    return client.NewRecord(
        _bytes(item["value"], item.get("value_encoding"), "value"),
        _bytes(item.get("key"), item.get("key_encoding"), "key"),
        tuple(map(_header, headers)),
        _number(item, "partition", 2**31 - 1),
        _number(item, "timestamp_ms", _INT64_MAX),
    )


def _header(item: Any) -> tuple[str, bytes | None]:
    is_header = isinstance(item, Mapping) and isinstance(item.get("key"), str)
    if not is_header or item.keys() - _KEYS_OF_HEADER:
        raise SettingError(
            'a header is {"key": TEXT, "value": TEXT, "encoding": "utf-8" or "base64"}'
        )
    return item["key"], _bytes(item.get("value"), item.get("encoding"), "header")


def _bytes(text: Any, encoding: Any, name: str) -> bytes | None:
    """Return the bytes of a key or value. Raises SettingError."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise SettingError(
            f'"{name}" is {type(text).__name__}, not text or null; write JSON as text'
        )
    if encoding not in _ENCODINGS:
        raise SettingError(f'the encoding of "{name}" is not "{UTF_8}" or "{BASE64}"')
    if encoding == BASE64:
        return read_base64(text, f'"{name}"')
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise SettingError(f'"{name}" has a lone surrogate: use base64') from None


def read_base64(text: str | bytes, name: str) -> bytes:
    """Return the bytes of a base64 text. Raises SettingError."""
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise SettingError(f"{name} is not base64: {error}") from None


def _number(item: Mapping[str, Any], name: str, highest: int) -> int | None:
    number = item.get(name)
    if number is None:
        return None
    is_number = isinstance(number, int) and not isinstance(number, bool)
    if not is_number or not 0 <= number <= highest:
        raise SettingError(f'"{name}" is {number!r}, not a number from 0 on')
    return int(number)
