"""The vectorized decoder and the decoder by row return equal rows for any records."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from coterie.pipeline.codec.decode import decode
from coterie.pipeline.codec.row_decoder import decode_rows, visible_rows
from coterie.records import Unreadable
from coterie.records import decode as decode_record
from tests.pipeline.codec.generated import generated
from tests.pipeline.codec.golden import GOLDEN
from tests.pipeline.codec.records import KeyValue, batch
from tests.pipeline.codec.strategies import batches


def decode_both(records: Any) -> dict[str, Any]:
    """Run both decoders, assert that their rows are equal, and return the rows."""
    found = decode(records)
    by_row = decode_rows(records, visible_rows(records))
    expected = {name: rows for name, (_, rows) in by_row.items()}
    assert {name: rows.to_pylist() for name, rows in found.items()} == {
        name: rows.to_pylist() for name, rows in expected.items()
    }
    for name, rows in found.items():
        rows.validate(full=True)
        assert rows.equals(expected[name], check_metadata=True), name
    return found


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(batches())
def test_both_decoders_return_equal_rows(records: Any) -> None:
    decode_both(records)


@pytest.mark.parametrize("name", GOLDEN)
def test_both_decoders_return_equal_rows_of_corrupt_kafka_records(
    name: str,
) -> None:
    key, value = GOLDEN[name]
    assert key is not None
    records = [*_broken(key, value)]
    if value is not None:
        records += [(key, each) for each, _ in _broken(value, None)]
    decode_both(batch(*records))
    # Next to invalid UTF-8, all rows that are not ASCII are decoded by row.
    decode_both(batch(*filter(_is_utf8, records)))


def _is_utf8(record: KeyValue) -> bool:
    result = decode_record(*record)
    return not isinstance(result, Unreadable) or "utf-8" not in result.message


def _broken(data: bytes, other: bytes | None) -> list[KeyValue]:
    cuts = [data[:end] for end in range(len(data))]
    turned = [
        data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]
    return [(each, other) for each in (*cuts, *turned)]


def test_invalid_utf8_puts_only_its_own_record_into_quarantine() -> None:
    key, value = GOLDEN["offset-commit-v3"]
    assert key is not None
    assert value is not None
    bad_key = key.replace("ü".encode(), b"\xff\xfe")
    bad_value = value.replace("ä".encode(), b"\xc3\x28")
    found = decode_both(
        batch((key, value), (bad_key, value), (key, bad_value), (bad_key, None))
    )
    assert found["offset_commits"]["log_offset"].to_pylist() == [0]
    assert found["quarantine"]["reason"].to_pylist() == [
        *("bad_key", "bad_value", "bad_key")
    ]


def test_impossible_lengths_are_rejected_even_when_they_add_up() -> None:
    key, _ = GOLDEN["offset-commit-v3"]
    below_zero = b"\0\1\xff\xfc\0\0\0"
    no_text = pack(">hqih", 3, 5, 0, -1) + bytes(7)
    text = b"\x82\1" + b"m" * 129
    one_byte_short = pack(">hqi", 4, 5, 0) + text + pack(">q", 256)
    records = batch((below_zero, None), (key, no_text), (key, one_byte_short))
    assert decode_both(records)["quarantine"]["reason"].to_pylist() == [
        *("bad_key", "bad_value", "bad_value")
    ]


def test_bytes_of_a_null_value_are_ignored() -> None:
    """Ignore bytes that Arrow may store for a null value."""
    key, value = GOLDEN["offset-commit-v3"]
    records = batch((key, value), (key, value))
    hidden = {
        name: pa.Array.from_buffers(
            pa.binary(), 2, [pa.py_buffer(b"\1"), *records[name].buffers()[1:]]
        )
        for name in ("key", "value")
    }
    no_key, no_value = (
        records.set_column(records.schema.get_field_index(name), name, column)
        for name, column in hidden.items()
    )
    assert decode_both(no_key)["quarantine"]["reason"].to_pylist() == ["no_key"]
    assert len(decode_both(no_value)["tombstones"]) == 1


@pytest.mark.slow
def test_both_decoders_return_equal_rows_of_a_generated_log(tmp_path: Path) -> None:
    for records in generated(tmp_path):
        found = decode_both(records)
        assert len(found["offset_commits"])
        assert not len(found["quarantine"])
