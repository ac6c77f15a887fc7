"""The true expiration of offsets, by a coordinator with a generated log and a clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coterie.broker.coordinator.result import Origin
from coterie.broker.coordinator.state import State
from coterie.wire.record_batch import decode_marker
from tests.broker.coordinator.shard_driver import Marker, ShardDriver
from tests.testing.log_generator.generated_log import (
    decode_entry,
    partition_folders,
    read_records,
)

Offset = tuple[str, str, int]


def loaded(
    folder: Path, until: Mapping[int, int], until_ms: int = 2**62
) -> list[ShardDriver]:
    """Return the shards of the log partitions, loaded up to the given offsets."""
    drivers = []
    for path in partition_folders(folder):
        driver = ShardDriver()
        end = until.get(int(path.name.rpartition("-")[2]), 0)
        for header, entry in read_records(path):
            if entry.offset >= end or entry.timestamp_ms > until_ms:
                break
            driver.now_ms = entry.timestamp_ms
            producer = header.producer_id, header.producer_epoch
            origin = Origin(entry.offset, entry.timestamp_ms, *producer)
            if header.is_control:
                marker = decode_marker(entry)
                assert marker is not None
                driver._keep_any(Marker(header.producer_id, marker.commit), origin)
            else:
                driver._keep_any(decode_entry(entry), origin)
        drivers.append(driver)
    return drivers


def offsets_of(state: State) -> set[Offset]:
    return {
        (group_id, name.topic, name.partition)
        for group_id in (*state.classic_groups, *state.consumer_groups)
        for name, _ in state.offsets.stored.items(group_id)
    }


def check_forecast(rows: list[dict[str, Any]], drivers: list[ShardDriver]) -> None:
    """Check that the coordinator expires each offset exactly at its `expires_ts`, and
    never expires an offset without one."""
    forecast = {
        (row["group_id"], row["topic"], row["partition"]): row["expires_ts"]
        for row in rows
    }
    for driver in drivers:
        mine = {each: forecast.pop(each) for each in offsets_of(driver.state)}
        ends = {
            each: round(at.timestamp() * 1000) if at else 2**62
            for each, at in mine.items()
        }
        for end_ms in sorted({*ends.values()} - {2**62}):
            for at_ms in (end_ms - 1, end_ms):
                if at_ms >= driver.now_ms:
                    driver.sweep(at_ms - driver.now_ms)
                    left = {each for each, gone_ms in ends.items() if gone_ms > at_ms}
                    assert offsets_of(driver.state) == left, at_ms
        driver.sweep(10**12)
        stays = {each for each, gone_ms in ends.items() if gone_ms == 2**62}
        assert offsets_of(driver.state) == stays
    assert not forecast, "offsets that the coordinator does not have"
