"""The bytes of nodes in their upstream group, also of newer releases."""

from __future__ import annotations

import pytest

from coterie.client import JoinedMember
from coterie.errors import MalformedFrame
from coterie.gateway.node_protocol import (
    NodeAssignment,
    NodeMetadata,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)
from coterie.gateway.view import FormerNode, NodeInfo, View

A = NodeInfo(name="a", host="host-a", port=9092, broker_port=9093, version="1.0")
B = NodeInfo(
    name="b", host="host-b", port=9092, broker_port=9093, version="1.1", brokers=[1, 3]
)
VIEW = View((A, B), (0, 1, -1, 0), 7, (FormerNode(name="c", age_ms=60_000),))
BYTES = write_assignment(NodeAssignment(VIEW))


def metadata_of(
    info: NodeInfo,
    shards: tuple[int, ...] = (),
    generation: int = -1,
    started: int = 1,
    *,
    is_serving: bool = False,
    is_leaving: bool = False,
) -> NodeMetadata:
    return NodeMetadata(
        info=info,
        started_ms=started,
        generation=generation,
        shards=list(shards),
        is_serving=is_serving,
        is_leaving=is_leaving,
    )


def member(member_id: str, metadata: NodeMetadata) -> JoinedMember:
    return JoinedMember(member_id, None, write_metadata(metadata))


def of_newer_release(data: bytes) -> bytes:
    """Return bytes as of version 9 with one more tagged field: tag 5, two bytes."""
    assert data[:2] == b"\0\0"
    assert data[-1:] == b"\0", "no tagged fields"
    return b"\0\x09" + data[2:-1] + b"\x01\x05\x02xy"


def test_metadata_and_views_are_read_as_written() -> None:
    metadata = metadata_of(A, (1, 2), 3)
    assert read_metadata(write_metadata(metadata)) == metadata
    assert read_metadata(write_metadata(metadata)).info == A
    for flags in ((False, False), (True, False), (True, True)):
        assignment = NodeAssignment(VIEW, *flags)
        assert read_assignment(write_assignment(assignment), 7) == assignment


def test_bytes_of_a_newer_release_are_read_without_its_fields() -> None:
    metadata = metadata_of(A, (1, 2), 3)
    read = read_metadata(of_newer_release(write_metadata(metadata)))
    assert (read.info, read.shards) == (A, [1, 2])
    assert read_assignment(of_newer_release(BYTES), 7) == NodeAssignment(VIEW)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff" + BYTES[2:],
        BYTES[:-3],
        BYTES + b"\0",
        write_assignment(NodeAssignment(View((A,), (1,), 0))),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_assignment(data, 1)
