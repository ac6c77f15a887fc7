"""The records of consumer groups (types 3 to 8 and 16) and their bytes.

Apart from `serde` on purpose: a loader that read these types would hand them to a
shard, which must be able to replay what it is given. Until it can, a log that holds
them loads as before, the types being skipped as unknown ones (E22-04).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from coterie.coordinator.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from coterie.coordinator.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
)
from coterie.coordinator.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.coordinator.records.serde import RecordTypes, decode_record
from coterie.coordinator.result import Record
from coterie.wire.codec import encode
from coterie.wire.schema import Message

CONSUMER_TYPES: Final[RecordTypes] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: (
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""The key and the value of each record type (E22.2)."""

_INT16: Final = struct.Struct(">h")
_VERSION_ZERO: Final = _INT16.pack(0)
_PREFIXES: Final[Mapping[type[Message], bytes]] = {
    key: _INT16.pack(number) for number, (key, _) in CONSUMER_TYPES.items()
}


def encode_consumer_record(record: Record) -> tuple[bytes, bytes | None]:
    """The key's and the value's bytes; None is the value of a tombstone (E22-02).

    All these values are of version 0: what comes later comes as tags (E22-03).
    """
    key, value, version = record
    assert version == 0
    key_bytes = _PREFIXES[type(key)] + encode(key, 0)
    if value is None:
        return key_bytes, None
    return key_bytes, _VERSION_ZERO + encode(value, 0)


def decode_consumer_record(key: bytes, value: bytes | None) -> Record | None:
    """The record; None when its type is not one of a consumer group's (E22-04).

    Raises:
        LogCorrupt: The record is of such a type and does not decode.
    """
    return decode_record(key, value, CONSUMER_TYPES)
