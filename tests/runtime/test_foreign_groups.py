"""Groups of the newer protocols, as another server may have left them in the log."""

from __future__ import annotations

import struct

import pytest

from coterie.coordinator.describe.describe_groups import DescribeGroup
from coterie.log.log import BatchInfo
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.runtime.world import World

CONSUMER_GROUP_METADATA = 3
SHARE_GROUP_METADATA = 11
GROUP = "modern"


def write(world: World, record_type: int) -> None:
    """Append the record that says a group of that kind exists, at epoch 1."""
    name = GROUP.encode()
    key = struct.pack(">hh", record_type, len(name)) + name
    value = struct.pack(">hib", 0, 1, 0)  # version, epoch, no tagged fields
    where = world.driven(GROUP).where
    offset = world.log.bounds(where).next_offset
    record = LogRecord(offset, world.clock(), key, value, ())
    batch = encode_batch([record], base_offset=offset)
    world.log.append(where, batch, BatchInfo(offset, offset, 0, len(batch)))
    world.log.flush()


@pytest.mark.parametrize("record_type", [CONSUMER_GROUP_METADATA, SHARE_GROUP_METADATA])
@pytest.mark.fact("C-22")
def test_a_group_of_another_kind_is_described_like_one_that_is_missing(
    record_type: int,
) -> None:
    world = World()
    write(world, record_type)
    loaded = world.reopened()
    old = loaded.ask(DescribeGroup(GROUP), GROUP, 5)
    new = loaded.ask(DescribeGroup(GROUP), GROUP, 6)
    missing = loaded.ask(DescribeGroup("nobody"), "nobody", 6)
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert (new.error_code, new.group_state) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Dead",
    )
    assert (missing.error_code, missing.group_state) == (new.error_code, "Dead")
