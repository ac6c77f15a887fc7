"""A hostile client as a process, bounded in time, connections and bytes.

    python -m benchmarks.peers.hostile KIND HOST:PORT SECONDS

It prepares its requests, prints `hostile ready on HOST:PORT`, and starts after a line
on stdin. At the end it prints what it did as JSON. All requests are well-formed as far
as they go; each kind makes a server work, or hold memory, far beyond the bytes sent.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crc32c import crc32c

from benchmarks.peers.connection import Connection, create_topic, frame
from benchmarks.peers.offset_requests import OFFSET_FETCH, offset_fetch
from coterie.wire import messages as m
from coterie.wire.compression import Codec, compress
from coterie.wire.record_batch import HEADER_BYTES, LogRecord, encode_batch

NICE = 10
"""The observer of the benchmark shares a core with this process, and goes first."""
RECONNECT_S = 0.02
CONNECTIONS_MAX = 2_000
READ_BYTES = 1 << 20

HIDDEN, HIDDEN_TOPICS = "hidden-", 4_000
BOMB_TOPIC, BOMB_RECORDS, STORED_RECORDS = "bomb", 8_000_000, 100_000
WIDE_TOPICS, WIDE_PARTITIONS, METADATA_BURST = 5, 10_000, 200
EMPTY_NAMES = 15_000_000
HALF_FRAMES, HALF_BYTES, HALF_SIZE = 100, 4_000_000, 90_000_000
FLOOD_BURST = 500
DELETED_GROUPS, DESCRIBED_GROUPS, UNKNOWN_TOPICS = 100_000, 50_000, 20_000
COMMIT_TOPIC, COMMITTED = "committed", 65_000
CREATED_PARTITIONS = 10_000


@dataclass(slots=True)
class Attack:
    """Bursts of frames, sent in turn on one connection; each burst is answered before
    the next is sent.

    With `held` connections, each sends a burst that is never complete and waits.
    """

    bursts: Sequence[Sequence[bytes]]
    held: int = 0


@dataclass(slots=True)
class Tally:
    """The work of an attack."""

    sent: int = 0
    answered: int = 0
    response_bytes: int = 0
    connections: int = 0


def refused_topics(address: str) -> Attack:
    """Fetch the offsets of thousands of topics that this client may not describe."""
    others = m.AclCreation(
        resource_type=2,  # TOPIC
        resource_name=HIDDEN,
        resource_pattern_type=4,  # PREFIXED
        principal="User:other",
        host="*",
        operation=3,  # READ
        permission_type=3,  # ALLOW
    )
    with Connection(address) as connection:
        request = m.CreateAclsRequest(creations=[others])
        connection.call(request, m.CreateAclsResponse, 3)
    names = [f"{HIDDEN}{number}" for number in range(HIDDEN_TOPICS)]
    topics = [
        m.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in names
    ]
    group = m.OffsetFetchRequestGroup(group_id="hostile", topics=topics)
    return Attack([[frame(m.OffsetFetchRequest(groups=[group]), 8)]])


def record_bomb(address: str) -> Attack:
    """Produce a few kilobytes that decompress to millions of records, and search a
    stored batch by timestamp."""
    create_topic(address, BOMB_TOPIC, 1)
    with Connection(address) as connection:
        stored = encode_batch(
            [LogRecord(at, at + 1, None, b"") for at in range(STORED_RECORDS)],
            codec=Codec.ZSTD,
        )
        connection.send(_produce(stored), 9)
        connection.skip(1)
    last = m.ListOffsetsPartition(partition_index=0, timestamp=STORED_RECORDS)
    search = m.ListOffsetsRequest(
        replica_id=-1,
        topics=[m.ListOffsetsTopic(name=BOMB_TOPIC, partitions=[last])],
    )
    return Attack([[frame(_produce(_bomb()), 9)], [frame(search, 6)]])


def _bomb() -> bytes:
    one = encode_batch([LogRecord(0, 1, None, b"")])
    record = one[HEADER_BYTES:]
    packed = compress(Codec.ZSTD, record * BOMB_RECORDS)
    head = bytearray(one[:HEADER_BYTES])
    head[21:23] = int(Codec.ZSTD).to_bytes(2, "big")
    head[23:27] = (BOMB_RECORDS - 1).to_bytes(4, "big")
    head[57:61] = BOMB_RECORDS.to_bytes(4, "big")
    head[8:12] = (HEADER_BYTES - 12 + len(packed)).to_bytes(4, "big")
    head[17:21] = crc32c(bytes(head[21:]) + packed).to_bytes(4, "big")
    return bytes(head) + packed


def _produce(batch: bytes) -> m.ProduceRequest:
    data = m.PartitionProduceData(index=0, records=batch)
    topic = m.TopicProduceData(name=BOMB_TOPIC, partition_data=[data])
    return m.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def wide_metadata(address: str) -> Attack:
    """Pipeline Metadata requests whose responses list tens of thousands of
    partitions."""
    for number in range(WIDE_TOPICS):
        create_topic(address, f"wide-{number}", WIDE_PARTITIONS)
    return Attack([[frame(m.MetadataRequest(topics=None), 9)] * METADATA_BURST])


def empty_names(address: str) -> Attack:
    """Send one large frame whose array has millions of empty strings."""
    assert address
    request = frame(m.MetadataRequest(topics=[]), 4)
    # The body of v4: the number of topics, the topics, one flag.
    front, flags = request[4:-5], request[-1:]
    names = EMPTY_NAMES // 2  # each takes the two bytes of its length
    body = front + names.to_bytes(4, "big") + bytes(2 * names) + flags
    return Attack([[len(body).to_bytes(4, "big") + body]])


def half_frames(address: str) -> Attack:
    """Hold many connections, each with megabytes of a frame that never ends."""
    assert address
    request = frame(_produce(bytes(HALF_BYTES)), 9)
    size = HALF_SIZE.to_bytes(4, "big")
    return Attack([[size + request[4:]]], held=HALF_FRAMES)


def flood(address: str) -> Attack:
    """Pipeline ordinary requests as fast as they are answered."""
    assert address
    request = frame(offset_fetch(["hostile"], "t", [0]), OFFSET_FETCH)
    return Attack([[request] * FLOOD_BURST])


def delete_groups(address: str) -> Attack:
    """Delete groups that do not exist."""
    assert address
    names = [f"group-{number}" for number in range(DELETED_GROUPS)]
    return Attack([[frame(m.DeleteGroupsRequest(groups_names=names), 2)]])


def describe_groups(address: str) -> Attack:
    """Describe groups that do not exist."""
    assert address
    names = [f"group-{number}" for number in range(DESCRIBED_GROUPS)]
    return Attack([[frame(m.DescribeGroupsRequest(groups=names), 5)]])


def unknown_topics(address: str) -> Attack:
    """Describe topics that do not exist."""
    assert address
    topics = [
        m.MetadataRequestTopic(name=f"unknown-{number}")
        for number in range(UNKNOWN_TOPICS)
    ]
    request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    return Attack([[frame(request, 9)]])


def large_commits(address: str) -> Attack:
    """Commit offsets of partitions of which most do not exist, and delete them."""
    create_topic(address, COMMIT_TOPIC, 100)
    partitions = [
        m.OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in range(COMMITTED)
    ]
    topic = m.OffsetCommitRequestTopic(name=COMMIT_TOPIC, partitions=partitions)
    commit = m.OffsetCommitRequest(group_id="hostile", topics=[topic])
    deleted = m.OffsetDeleteRequestTopic(
        name=COMMIT_TOPIC,
        partitions=[
            m.OffsetDeleteRequestPartition(partition_index=index)
            for index in range(COMMITTED)
        ],
    )
    delete = m.OffsetDeleteRequest(group_id="hostile", topics=[deleted])
    return Attack([[frame(commit, 9)], [frame(delete, 0)]])


def create_topics(address: str) -> Attack:
    """Create a topic of many partitions, and delete it, again and again."""
    assert address
    topic = m.CreatableTopic(
        name="created", num_partitions=CREATED_PARTITIONS, replication_factor=1
    )
    create = m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    delete = m.DeleteTopicsRequest(topic_names=["created"], timeout_ms=30_000)
    return Attack([[frame(create, 5)], [frame(delete, 5)]])


KINDS: dict[str, Callable[[str], Attack]] = {
    "delete groups": delete_groups,
    "describe groups": describe_groups,
    "unknown topics": unknown_topics,
    "large commits": large_commits,
    "create topics": create_topics,
    "refused topics": refused_topics,
    "record bomb": record_bomb,
    "wide metadata": wide_metadata,
    "empty names": empty_names,
    "half frames": half_frames,
    "flood": flood,
}


def run(attack: Attack, address: str, seconds: float) -> Tally:
    """Attack until the time is over; connect again when the server disconnects."""
    ends = time.monotonic() + seconds
    tally = Tally()
    while time.monotonic() < ends and tally.connections < CONNECTIONS_MAX:
        try:
            if attack.held:
                _hold(attack, address, ends, tally)
            else:
                _send_bursts(attack, address, ends, tally)
        except OSError:  # closed by the server, or out of time
            time.sleep(RECONNECT_S)
    return tally


def _connect(address: str, ends: float, tally: Tally) -> socket.socket:
    host, _, port = address.rpartition(":")
    left = max(ends - time.monotonic(), RECONNECT_S)
    tally.connections += 1
    connected = socket.create_connection((host, int(port)), timeout=left)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _send_bursts(attack: Attack, address: str, ends: float, tally: Tally) -> None:
    buffer = bytearray(READ_BYTES)
    with _connect(address, ends, tally) as connected:
        while time.monotonic() < ends:
            for burst in attack.bursts:
                connected.settimeout(max(ends - time.monotonic(), RECONNECT_S))
                connected.sendall(b"".join(burst))
                tally.sent += len(burst)
                _read_responses(connected, len(burst), buffer, tally)


def _read_responses(
    connected: socket.socket, count: int, buffer: bytearray, tally: Tally
) -> None:
    """Read and discard responses, in pieces of one buffer."""
    for _ in range(count):
        front = b""
        while len(front) < 4:
            piece = connected.recv(4 - len(front))
            if not piece:
                raise ConnectionError("closed by the server")
            front += piece
        left = int.from_bytes(front, "big")
        tally.response_bytes += left
        while left:
            size = connected.recv_into(buffer, min(left, READ_BYTES))
            if not size:
                raise ConnectionError("closed by the server")
            left -= size
        tally.answered += 1


def _hold(attack: Attack, address: str, ends: float, tally: Tally) -> None:
    """Open the connections, send a burst on each, and hold them to the end."""
    [[part]] = attack.bursts
    held: list[socket.socket] = []
    try:
        while time.monotonic() < ends:
            if len(held) == attack.held:
                time.sleep(min(RECONNECT_S, max(ends - time.monotonic(), 0)))
                held = [each for each in held if not _is_closed(each)]
                continue
            if tally.connections >= CONNECTIONS_MAX:
                return
            connected = _connect(address, ends, tally)
            held.append(connected)
            connected.sendall(part)
            tally.sent += 1
            connected.setblocking(False)
            time.sleep(RECONNECT_S)
    finally:
        for each in held:
            each.close()


def _is_closed(connected: socket.socket) -> bool:
    try:
        is_closed = not connected.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        is_closed = True
    if is_closed:
        connected.close()
    return is_closed


def main(arguments: Sequence[str]) -> None:
    """Prepare, wait for a line, attack, and report."""
    kind, address, seconds = arguments
    attack = KINDS[kind](address)
    os.nice(NICE)
    print(f"hostile ready on {address}", flush=True)
    sys.stdin.readline()
    tally = run(attack, address, float(seconds))
    print(json.dumps(dataclasses.asdict(tally)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
