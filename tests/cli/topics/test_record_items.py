"""Records as items of JSON, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli.topics.record_items import json_line, read_json_line, record_item
from coterie.errors import SettingError
from coterie.types import TopicPartition
from coterie.wire.record_batch import LogRecord

PARTITION = TopicPartition("t", 3)
CONTENT = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3).map(tuple)


@pytest.mark.slow
@given(key=CONTENT, value=CONTENT, headers=HEADERS, time=st.integers(0, 2**62))
def test_every_record_survives_its_line(
    key: bytes | None, value: bytes | None, headers: Any, time: int
) -> None:
    line = json_line(record_item(PARTITION, LogRecord(7, time, key, value, headers)))
    record = read_json_line(line.encode())
    assert record == (value, key, headers, 3, time)


@given(value=st.text(max_size=20))
def test_a_line_has_no_control_characters(value: str) -> None:
    line = json_line(record_item(PARTITION, LogRecord(7, 0, None, value.encode())))
    assert line[-1] == "\n"
    assert line[:-1].isprintable()


def test_a_line_for_another_encoding_is_ascii() -> None:
    item = record_item(PARTITION, LogRecord(7, 0, None, "é😀".encode()))
    line = json_line(item, is_utf8=False)
    assert line.isascii()
    assert read_json_line(line.encode()).value == "é😀".encode()


def test_a_line_needs_only_a_value() -> None:
    assert read_json_line(b'{"value": null}') == (None, None, (), None, None)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"key": "k"}, 'it has no "value"; write null for a tombstone'),
        ({"value": "v", "vaule": "v"}, "unknown key 'vaule'"),
        ({"value": {"a": 1}}, '"value" is dict, not text or null'),
        ({"value": "v", "value_encoding": "hex"}, 'the encoding of "value" is not'),
        ({"value": "*", "value_encoding": "base64"}, '"value" is not base64'),
        ({"value": "\ud800"}, '"value" has a lone surrogate'),
        ({"value": "v", "partition": -1}, '"partition" is -1, not a number'),
        ({"value": "v", "timestamp_ms": True}, '"timestamp_ms" is True, not a number'),
        ({"value": "v", "headers": {"a": "b"}}, '"headers" is not a list'),
        ({"value": "v", "headers": [{"name": "h"}]}, "a header is"),
        (["v"], "it is not a JSON object"),
    ],
)
def test_a_wrong_line_is_refused(item: Any, message: str) -> None:
    with pytest.raises(SettingError) as error:
        read_json_line(json.dumps(item).encode())
    assert message in str(error.value)


@pytest.mark.parametrize("line", [b"v", b"\xff", b'{"value": "v"} x'])
def test_a_line_that_is_not_json_is_refused(line: bytes) -> None:
    with pytest.raises(SettingError, match="it is not JSON"):
        read_json_line(line)
