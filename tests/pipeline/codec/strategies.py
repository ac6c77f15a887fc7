"""Hypothesis strategies for valid and corrupt records."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Record
from tests.pipeline.codec.golden import GOLDEN
from tests.pipeline.codec.records import KeyValue, batch_of, row_of

_int64 = st.integers(-(2**63), 2**63 - 1)
_times = st.integers(-2, 2**43) | _int64


@st.composite
def commits(draw: st.DrawFn) -> KeyValue:
    """Generate a committed offset of any version, or its tombstone."""
    key = OffsetCommitKey(
        group=draw(st.text(max_size=20)),
        topic=draw(st.text(max_size=20)),
        partition=draw(st.integers(-(2**31), 2**31 - 1)),
    )
    version = draw(st.sampled_from((0, 1, 2, 3, 3, 3, 4)))
    value = OffsetCommitValue(
        offset=draw(_int64),
        leader_epoch=draw(st.sampled_from((-1, 0, 7, -5))) if version >= 3 else -1,
        metadata=draw(st.text(max_size=8) | st.just("m" * 126) | st.just("m" * 127)),
        commit_timestamp=draw(_times),
        expire_timestamp=draw(_times) if version == 1 else -1,
        topic_id=draw(st.sampled_from((bytes(16), b"\1" * 16)))
        if version == 4
        else b"",
    )
    if version < 4:
        value.topic_id = bytes(16)
    key_bytes, value_bytes = encode_record(
        Record(key, draw(st.sampled_from((value, value, None))), version)
    )
    record_type = draw(st.sampled_from((b"\0\1", b"\0\0")))
    return record_type + key_bytes[2:], value_bytes


@st.composite
def broken(draw: st.DrawFn) -> KeyValue:
    """Generate a record with some bytes changed."""
    key, value = draw(commits() | st.sampled_from(sorted(GOLDEN.values(), key=str)))
    if draw(st.booleans()) or value is None:
        return _break(draw, key or b""), value
    return key, _break(draw, value)


def _break(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data)))
    new = draw(st.binary(max_size=2) | st.sampled_from([b"\0", b"\xff", b"\x7f\xff"]))
    return data[:at] + new + data[at + draw(st.integers(0, 4)) :]


def pairs() -> st.SearchStrategy[KeyValue]:
    anything = st.none() | st.binary(max_size=60)
    return (
        commits()
        | broken()
        | st.sampled_from(sorted(GOLDEN.values(), key=str))
        | st.tuples(anything, anything)
    )


@st.composite
def batches(draw: st.DrawFn) -> Any:
    """Generate rows of the table `records`, some as a slice of a larger batch."""
    rows = [
        row_of(
            offset,
            *draw(pairs()),
            is_control=draw(st.sampled_from((False, False, False, True))),
            is_transactional=draw(st.booleans()),
            producer_id=draw(st.integers(-1, 5)),
            outcome=draw(st.sampled_from((None, "committed", "aborted"))),
        )
        for offset in range(draw(st.integers(0, 12)))
    ]
    begin = draw(st.integers(0, len(rows)))
    length = draw(st.integers(0, len(rows) - begin))
    return batch_of(rows).slice(begin, length)
