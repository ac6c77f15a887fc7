"""Log lines of an event and its fields: `event key=value ...`, or JSON.

A value that has other characters than those of names, numbers and addresses is written
as a JSON string, so that a client cannot add fields or lines to the log by its names.
Long values are cut.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

Value: TypeAlias = "str | int | float | bool | Sequence[str] | None"

VALUE_MAX: Final = 256
"""The largest number of characters of a value, or of an element of a list."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.:/*@+#()\[\]-]+")


def log_event(logger: logging.Logger, event: str, fields: Mapping[str, Value]) -> None:
    """Log an event at level INFO; fields that are None are left out."""
    present = {name: _cut(value) for name, value in fields.items() if value is not None}
    words = [f"{name}={_text(value)}" for name, value in present.items()]
    extra = {"event": event, "fields": present}
    logger.info("%s %s", event, " ".join(words), extra=extra)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= VALUE_MAX else f"{value[:VALUE_MAX]}..."
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value]
    return value


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value)) or '""'
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text)


class JsonFormatter(logging.Formatter):
    """One JSON object for each log line: `time`, `level`, `logger`, and either the
    `message`, or `event` and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        created = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": f"{created:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
        }
        fields = getattr(record, "fields", None)
        if fields is None:
            line["message"] = record.getMessage()
        else:
            line |= {"event": getattr(record, "event", ""), **fields}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
