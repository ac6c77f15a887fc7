"""Records of `__share_group_state`, compared with the bytes that Kafka writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.broker.coordinator.share_partition.records import (
    decode_record,
    encode_deletion,
    encode_snapshot,
    encode_update,
)
from coterie.broker.coordinator.share_partition.state import (
    ShareKey,
    ShareState,
    StateBatch,
    StateUpdate,
)
from coterie.errors import LogCorrupt

KEY = ShareKey("grüppe", bytes(range(1, 17)), 7)
FULL = ShareState(
    3,
    2,
    1,
    5,
    7,
    1700000000123,
    1700000000456,
    (
        StateBatch(5, 9, 2, 1),
        StateBatch(4611686018427387904, 4611686018427387905, 4, 5),
    ),
)
EMPTY = ShareState(0, 2, 0, -1, -1, 1, 1)
UPDATE = StateUpdate(5, 2, (StateBatch(5, 9, 0, 3),))


def golden() -> dict[str, tuple[bytes, bytes]]:
    """Return the keys and values that Kafka wrote, by the name of the record."""
    text = (Path(__file__).parent / "kafka_4_4_records.tsv").read_text()
    rows = [line.split("\t") for line in text.splitlines() if line[0] != "#"]
    return {name: (bytes.fromhex(key), bytes.fromhex(val)) for name, key, val in rows}


GOLDEN = golden()


@pytest.mark.parametrize(
    ("name", "state"), [("snapshot", FULL), ("snapshot-empty", EMPTY)]
)
def test_a_snapshot_has_kafkas_bytes(name: str, state: ShareState) -> None:
    assert encode_snapshot(KEY, state) == GOLDEN[name]
    assert decode_record(*GOLDEN[name]) == (KEY, state)


def test_an_update_has_kafkas_bytes() -> None:
    state = FULL._replace(delivery_complete_count=2)
    assert encode_update(KEY, state, UPDATE) == GOLDEN["update"]
    assert decode_record(*GOLDEN["update"]) == (KEY, UPDATE)


def test_a_tombstone_deletes_the_state() -> None:
    key, value = encode_deletion(KEY)
    assert key == GOLDEN["snapshot"][0]
    assert decode_record(key, value) == (KEY, None)


def test_unknown_types_are_skipped_and_broken_records_are_not() -> None:
    assert decode_record(b"\x00\x05abc", b"") is None
    key, value = GOLDEN["snapshot"]
    for broken in ((None, value), (key[:-1], value), (key, value[:-1]), (key, b"\0\1")):
        with pytest.raises(LogCorrupt):
            decode_record(*broken)
