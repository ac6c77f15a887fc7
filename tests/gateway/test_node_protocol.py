"""The bytes of nodes in their upstream group, also of newer releases."""

from __future__ import annotations

import pytest

from coterie.client import JoinedMember
from coterie.errors import MalformedFrame
from coterie.gateway.membership import make_view
from coterie.gateway.node_protocol import (
    NodeMetadata,
    read_metadata,
    read_view,
    write_metadata,
    write_view,
)
from coterie.gateway.view import NO_VIEW, NodeInfo, View

A = NodeInfo("a", "host-a", 9092, 9093, "1.0")
B = NodeInfo("b", "host-b", 9092, 9093, "1.1")
VIEW = View((A, B), (0, 1, -1, 0), 7)


def metadata_of(
    info: NodeInfo,
    shards: tuple[int, ...] = (),
    generation: int = -1,
    started: int = 1,
    *,
    is_serving: bool = False,
) -> NodeMetadata:
    return NodeMetadata(
        name=info.name,
        host=info.host,
        port=info.port,
        broker_port=info.broker_port,
        software_version=info.version,
        started_ms=started,
        generation=generation,
        shards=list(shards),
        is_serving=is_serving,
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
    assert read_view(write_view(VIEW), 7) == VIEW


def test_bytes_of_a_newer_release_are_read_without_its_fields() -> None:
    metadata = metadata_of(A, (1, 2), 3)
    read = read_metadata(of_newer_release(write_metadata(metadata)))
    assert (read.info, read.shards) == (A, [1, 2])
    assert read_view(of_newer_release(write_view(VIEW)), 7) == VIEW


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\xff\xff" + write_view(VIEW)[2:],
        write_view(VIEW)[:-3],
        write_view(VIEW) + b"\0",
        write_view(View((A,), (1,), 0)),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_view(data, 1)


def test_nodes_keep_their_shards_and_others_share_the_rest() -> None:
    members = [
        member("2", metadata_of(B, (1, 3), 7)),
        member("1", metadata_of(A)),
    ]
    assert make_view(members, 4, NO_VIEW) == View((A, B), (0, 1, 0, 1), -1)


def test_a_restarted_node_claims_what_it_owned() -> None:
    before = View((A, B), (1, 0, 1, 0), 7)
    members = [member("1", metadata_of(A)), member("2", metadata_of(B, (0, 2), 7))]
    assert make_view(members, 4, before).owners == (1, 0, 1, 0)
    # The leader was cut off and did not see that B took all shards over.
    newer = [member("1", metadata_of(A)), member("2", metadata_of(B, (0, 1, 2, 3), 8))]
    assert make_view(newer, 4, before).owners == (1, 1, 0, 0)


def test_of_two_processes_with_one_name_the_newer_one_is_the_node() -> None:
    moved = A._replace(host="moved")
    members = [
        member("1", metadata_of(moved, started=2)),
        member("2", metadata_of(A, (0, 1), 7, started=1)),
    ]
    assert make_view(members, 2, NO_VIEW) == View((moved,), (0, 0), -1)


def test_a_member_that_is_no_node_gets_no_shard() -> None:
    members = [JoinedMember("1", None, b"?"), member("2", metadata_of(A))]
    assert make_view(members, 2, NO_VIEW) == View((A,), (0, 0), -1)


def test_a_shard_that_another_node_serves_is_released_first() -> None:
    serving = metadata_of(A, (0, 1, 2, 3), 7, is_serving=True)
    view = make_view([member("1", serving), member("2", metadata_of(B))], 4, NO_VIEW)
    assert view.owners == (0, 0, -1, -1)
    released = metadata_of(A, (0, 1), 8, is_serving=True)
    view = make_view([member("1", released), member("2", metadata_of(B))], 4, NO_VIEW)
    assert view.owners == (0, 0, 1, 1)


def test_a_removed_node_keeps_no_shard_from_its_new_owner() -> None:
    removed = metadata_of(A, (0, 1, 2, 3), 7)
    owner = metadata_of(B, (0, 1, 2, 3), 8, is_serving=True)
    view = make_view([member("1", removed), member("2", owner)], 4, NO_VIEW)
    assert view.owners == (1, 1, -1, -1)
