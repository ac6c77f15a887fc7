"""Parse the output of DumpLogSegments into items of `coterie pipeline decode`."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_RECORD: Final = re.compile(
    r"\| offset: (\d+) (?:Create|LogAppend)Time: (-?\d+) .*?"
    r"(?:key: (\{.*?\}\}) payload: (.*)|endTxnMarker: (\w+) coordinatorEpoch: (\d+))$"
)
_BATCH: Final = re.compile(r"(\w+): (\S+)")
_BINARY: Final = frozenset({"topic_id", "user_data"})
_PROTOCOL: Final = {"name", "metadata"}
"""Fields of a classic member's protocol, whose metadata is bytes."""


def records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a dump."""
    for line in text.splitlines():
        if found := _RECORD.match(line):
            offset, time, key, payload, marker, epoch = found.groups()
            item = {"offset": int(offset), "timestamp_ms": int(time)}
            if marker:
                value = {
                    "commit": marker == "COMMIT",
                    "coordinator_epoch": int(epoch),
                }
                yield item | {"key": {}, "value": value, "record_type": None}
            else:
                yield item | _key(json.loads(key)) | _value(payload)


def batches(text: str) -> Iterator[dict[str, Any]]:
    """Yield the batches of a dump."""
    for line in text.splitlines():
        if line.startswith("baseOffset: "):
            facts = dict(_BATCH.findall(line))
            yield {
                "base_offset": int(facts["baseOffset"]),
                "last_offset": int(facts["lastOffset"]),
                "records": int(facts["count"]),
                "base_sequence": int(facts["baseSequence"]),
                "last_sequence": int(facts["lastSequence"]),
                "producer_id": int(facts["producerId"]),
                "producer_epoch": int(facts["producerEpoch"]),
                "leader_epoch": int(facts["partitionLeaderEpoch"]),
                "is_transactional": facts["isTransactional"] == "true",
                "is_control": facts["isControl"] == "true",
                "position": int(facts["position"]),
                "max_timestamp_ms": int(facts["CreateTime"]),
                "size_bytes": int(facts["size"]),
                "codec": facts["compresscodec"],
                "crc": int(facts["crc"]),
            }


def _key(key: Any) -> dict[str, Any]:
    return {"record_type": int(key["type"]), "key": _converted(key["data"])}


def _value(payload: str) -> dict[str, Any]:
    if not payload.startswith("{"):
        return {"value_version": None, "value": None}
    value = json.loads(payload)
    return {"value_version": int(value["version"]), "value": _converted(value["data"])}


def _converted(value: Any, name: str = "") -> Any:
    """Rename fields to snake case, and write bytes as hex digits."""
    if isinstance(value, dict):
        if value.keys() == _PROTOCOL:
            return {**value, "metadata": base64.b64decode(value["metadata"]).hex()}
        return {
            _HUMP.sub("_", key).lower(): _converted(each, _HUMP.sub("_", key).lower())
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_converted(each) for each in value]
    if name in _BINARY and value is not None:
        return base64.urlsafe_b64decode(value + "==").hex()
    return value
