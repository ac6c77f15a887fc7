"""Groups of other types in a log that was written by another server."""

from __future__ import annotations

import struct

import pytest

from coterie.broker.coordinator.admin import DescribeGroup
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.runtime.world import World

CONSUMER_GROUP_METADATA = 3
SHARE_GROUP_METADATA = 11
GROUP = "modern"


def write(world: World, record_type: int) -> None:
    """Append the group metadata record of a type, at epoch 1."""
    name = GROUP.encode()
    key = struct.pack(">hh", record_type, len(name)) + name
    # Version, epoch, in a share group the hash of its topics, no tagged fields.
    layout = ">hiqb" if record_type == SHARE_GROUP_METADATA else ">hib"
    value = struct.pack(layout, *(0, 1, 0, 0)[: len(layout) - 1])
    log_partition = world.partition(GROUP).log_partition
    offset = world.log.bounds(log_partition).next_offset
    record = LogRecord(offset, world.clock(), key, value, ())
    world.log.append(log_partition, encode_batch([record], base_offset=offset))
    world.log.flush()


@pytest.mark.parametrize("record_type", [CONSUMER_GROUP_METADATA, SHARE_GROUP_METADATA])
def test_a_group_of_another_type_is_described_like_a_missing_group(
    record_type: int,
) -> None:
    world = World()
    write(world, record_type)
    loaded = world.reopened()
    old = loaded.call(DescribeGroup(GROUP), GROUP, 5)
    new = loaded.call(DescribeGroup(GROUP), GROUP, 6)
    missing = loaded.call(DescribeGroup("nobody"), "nobody", 6)
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert (new.error_code, new.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Dead",
    )
    assert (missing.error_code, missing.group_state) == (new.error_code, "Dead")
