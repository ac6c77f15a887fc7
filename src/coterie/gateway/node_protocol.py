"""The metadata and assignments of gateway nodes in their upstream group, as bytes.

Each starts with a version. Nodes of two releases form one group during an upgrade, so a
newer version only adds tagged fields: a node reads bytes of an unknown version as those
of the newest version that it knows.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final, NamedTuple, TypeVar

from coterie.errors import MalformedFrame
from coterie.gateway.view import FormerNode, NodeInfo, View
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Message, array, boolean, int32, int64, struct

PROTOCOL: Final = "coterie-shards"
"""The name of the protocol, as in JoinGroup."""
_VERSION: Final = Layout(">h")
_ELEMENTS_MAX: Final = 1_000_000
_Message = TypeVar("_Message", bound=Message)


class NodeMetadata(Message, versions="0", flexible="0+"):
    """The metadata of a node, and the shards that it serves by the assignment of a
    generation.

    `started_ms` orders two processes with one name. `join` is different in each
    JoinGroup that must cause a rebalance: a coordinator answers a known member with
    known metadata from the current generation. `is_serving` is whether the node serves
    the shards now, and not only did so before it was removed from the group.
    `is_leaving` is whether it leaves the group once all nodes know that.
    """

    info: NodeInfo = struct(NodeInfo)
    started_ms: int = int64()
    join: int = int32()
    generation: int = int32(default=-1)
    shards: list[int] = array("int32")
    is_serving: bool = boolean()
    is_leaving: bool = boolean()


class ShardAssignment(Message, versions="0", flexible="0+"):
    """The live nodes and, for each shard, the position of its owner; nodes that have
    left; see `NodeAssignment` for the rest."""

    nodes: list[NodeInfo] = array(NodeInfo)
    former: list[FormerNode] = array(FormerNode)
    owners: list[int] = array("int32")
    is_interim: bool = boolean()
    has_to_release: bool = boolean()


class NodeAssignment(NamedTuple):
    """The assignment of one member."""

    view: View
    is_interim: bool = False
    """Whether shards have no owner because another node still serves them, so that a
    rebalance follows once it has released them."""
    has_to_release: bool = False
    """Whether this member is such a node: it has to join again."""


def write_metadata(metadata: NodeMetadata) -> bytes:
    """Return the bytes of a node's metadata."""
    return _write(metadata)


def read_metadata(data: bytes) -> NodeMetadata:
    """Decode a node's metadata. Raises MalformedFrame for other bytes."""
    return _read(NodeMetadata, data)


def write_assignment(assignment: NodeAssignment) -> bytes:
    """Return the bytes of an assignment."""
    view = assignment.view
    return _write(
        ShardAssignment(
            nodes=list(view.nodes),
            former=list(view.former),
            owners=list(view.owners),
            is_interim=assignment.is_interim,
            has_to_release=assignment.has_to_release,
        )
    )


def read_assignment(data: bytes, generation: int) -> NodeAssignment:
    """Decode an assignment. Raises MalformedFrame for other bytes."""
    read = _read(ShardAssignment, data)
    count = len(read.nodes)
    for shard, owner in enumerate(read.owners):
        if not -1 <= owner < count:
            raise MalformedFrame(f"shard {shard} has owner {owner} of {count} nodes")
    view = View(tuple(read.nodes), tuple(read.owners), generation, tuple(read.former))
    return NodeAssignment(view, read.is_interim, read.has_to_release)


def _write(message: Message) -> bytes:
    version = type(message).VERSIONS.high
    return _VERSION.pack(version) + encode(message, version)


def _read(message: type[_Message], data: bytes) -> _Message:
    if len(data) < _VERSION.size:
        raise MalformedFrame(f"{len(data)} bytes are not a {message.__name__}")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise MalformedFrame(f"version {version} of {message.__name__}")
    known = min(version, message.VERSIONS.high)
    value, end = decode(message, known, data, _VERSION.size, _ELEMENTS_MAX)
    if end != len(data):
        raise MalformedFrame(f"{len(data) - end} bytes after a {message.__name__}")
    return value
