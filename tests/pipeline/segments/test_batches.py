"""The scan of many small batches at once, compared with the scan one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c

from coterie.pipeline.segments import batches
from coterie.pipeline.segments.batches import (
    CHUNK_BYTES,
    BatchHeaders,
    bad_checksums,
    scan,
)
from coterie.wire.record_batch import (
    CHECKED_FROM,
    HEADER_BYTES,
    LogRecord,
    encode_batch,
)

CRC_AT = 17


def small_batches(count: int, rng: Random, first: int = 0) -> list[bytes]:
    """Return batches of one to three small records."""
    made = []
    for _ in range(count):
        many = rng.randint(1, 3)
        records = [
            LogRecord(first + at, 7, b"\0\1" + rng.randbytes(9), rng.randbytes(12))
            for at in range(many)
        ]
        made.append(encode_batch(records))
        first += many
    return made


def scanned(data: bytes, *, verify: bool, chunk_bytes: int) -> list[Any]:
    """Return the positions and faults of a scan."""
    chunks = scan(
        _Bytes(data),
        "log",
        verify=verify,
        chunk_bytes=chunk_bytes,
    )
    found: list[Any] = []
    for chunk in chunks:
        positions = (chunk.headers.position + chunk.at).tolist()
        faults = [fault for _, fault in chunk.faults]
        for index, (before, fault) in enumerate(chunk.faults):
            after = positions[before] if before < len(positions) else chunk.end
            assert fault.position < after, index
        found += sorted([*positions, *(each[1:] for each in faults)], key=_position)
    return found


def _position(each: Any) -> int:
    return int(each if isinstance(each, int) else each[0])


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def size(self) -> int:
        return len(self._data)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return self._data[offset : offset + nbytes]


def damaged(log: list[bytes], rng: Random) -> bytes:
    """Return the log with a few changed bytes, removed bytes or a large batch."""
    data = bytearray()
    for each in log:
        kind = rng.random()
        if kind < 0.002:
            data += each[: rng.randrange(len(each))]
        elif kind < 0.004:
            at = rng.randrange(len(each))
            data += each[:at] + bytes([each[at] ^ 1 << rng.randrange(8)])
            data += each[at + 1 :]
        elif kind < 0.006:
            data += encode_batch([LogRecord(0, 7, b"k", rng.randbytes(20_000))])
        else:
            data += each
    return bytes(data)


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_lanes_find_the_same_batches_and_faults_as_the_loop(
    seed: int, verify: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    data = damaged(small_batches(1_500, rng), rng)
    for name, value in (("_LANE_BYTES", 1024), ("_LANE_STEPS_MAX", 34)):
        monkeypatch.setattr(batches, name, value)
    sizes = [CHUNK_BYTES, 9_000]
    in_lanes = [scanned(data, verify=verify, chunk_bytes=each) for each in sizes]
    none = np.zeros(0, np.int64)
    monkeypatch.setattr(batches, "_follow_in_lanes", lambda data, begin: none)
    assert in_lanes[0] == scanned(data, verify=verify, chunk_bytes=CHUNK_BYTES)
    assert in_lanes[0] == in_lanes[1]


def test_every_small_batch_of_a_whole_log_is_found_in_lanes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = small_batches(4_000, Random(1))
    data = b"".join(log)
    found = batches._follow_in_lanes(data, 0)
    edges = np.cumsum([0, *(len(each) for each in log)])
    assert found.tolist() == edges[:-1].tolist()
    calls = []

    def counted(data: Any, crc: int = 0) -> int:
        calls.append(len(data))
        return crc32c(data, crc)

    monkeypatch.setattr(batches, "crc32c", counted)
    assert len(scanned(data, verify=True, chunk_bytes=CHUNK_BYTES)) == len(log)
    assert len(calls) == 1


def test_large_batches_are_followed_one_by_one() -> None:
    log = [encode_batch([LogRecord(0, 7, b"k", bytes(9_000))])] * 40
    assert not len(batches._follow_in_lanes(b"".join(log), 0))


def test_each_changed_byte_is_found_by_the_checksum_of_many_batches() -> None:
    log = small_batches(5, Random(3))
    data = b"".join(log)
    edges = np.cumsum([0, *(len(each) for each in log)])
    headers = BatchHeaders.read(data, edges[:-1])
    assert bad_checksums(data, headers) == []
    for at in range(len(data)):
        batch = int(np.searchsorted(edges, at, side="right")) - 1
        within = at - int(edges[batch])
        if within < CRC_AT:
            continue  # no checksum covers it, or it is a length
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        broken = BatchHeaders.read(bytes(changed), edges[:-1])
        assert bad_checksums(bytes(changed), broken) == [batch], at


def test_all_wrong_checksums_among_many_batches_are_found() -> None:
    log = small_batches(500, Random(4))
    edges = np.cumsum([0, *(len(each) for each in log)])
    data = bytearray(b"".join(log))
    wrong = [0, 7, 8, 499]
    for each in wrong:
        data[int(edges[each]) + HEADER_BYTES] ^= 0xFF
    headers = BatchHeaders.read(bytes(data), edges[:-1])
    assert bad_checksums(bytes(data), headers) == wrong
    some = headers.select(np.array([3, 7, 9, 499]))  # not consecutive
    assert bad_checksums(bytes(data), some) == [1, 3]


def test_bytes_without_a_checksum_may_change() -> None:
    log = small_batches(30, Random(5))
    edges = np.cumsum([0, *(len(each) for each in log)])
    data = bytearray(b"".join(log))
    for at in edges[:-1].tolist():
        data[at + 12] = 9  # the leader epoch
    headers = BatchHeaders.read(bytes(data), edges[:-1])
    assert bad_checksums(bytes(data), headers) == []
    assert CHECKED_FROM == CRC_AT + 4
