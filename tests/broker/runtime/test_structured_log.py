"""Log lines of events, as text and as JSON."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from coterie.broker.runtime.structured_log import VALUE_MAX, JsonFormatter, log_event

LOGGER = logging.getLogger("test.events")


def logged(caplog: pytest.LogCaptureFixture, **fields: object) -> logging.LogRecord:
    caplog.set_level(logging.INFO)
    log_event(LOGGER, "tested", fields)  # type: ignore[arg-type]
    return caplog.records[-1]


def test_fields_are_words_of_one_line(caplog: pytest.LogCaptureFixture) -> None:
    record = logged(
        caplog, group="g", size=3, share=0.5, is_new=True, none=None, names=["a", "b"]
    )
    message = "tested group=g size=3 share=0.5 is_new=true names=a,b"
    assert record.getMessage() == message


def test_a_value_cannot_add_fields_or_lines(caplog: pytest.LogCaptureFixture) -> None:
    record = logged(
        caplog,
        group='x principal="User:root"\nforged line',
        names=["a,b", ""],
        empty="",
    )
    assert record.getMessage() == (
        'tested group="x principal=\\"User:root\\"\\nforged line" '
        'names="a,b","" empty=""'
    )


def test_long_values_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    record = logged(caplog, group="x" * 100_000, names=["y" * 100_000])
    assert len(record.getMessage()) < 2 * VALUE_MAX + 50


def test_json_has_the_fields_of_an_event(caplog: pytest.LogCaptureFixture) -> None:
    record = logged(caplog, group="a b", names=["a,b"], none=None)
    line = json.loads(JsonFormatter().format(record))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "test.events",
        "event": "tested",
        "group": "a b",
        "names": ["a,b"],
    }


def test_json_has_the_message_and_the_exception_of_other_lines() -> None:
    try:
        raise ValueError("a bug")
    except ValueError:
        record = LOGGER.makeRecord(
            "test", logging.ERROR, "file", 1, "found %d", (3,), sys.exc_info()
        )
    line = json.loads(JsonFormatter().format(record))
    assert line["message"] == "found 3"
    assert line["exception"].endswith("ValueError: a bug")
