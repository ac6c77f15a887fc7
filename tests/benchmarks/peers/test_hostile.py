"""The hostile requests are what they claim: a server that refuses them as malformed for
another reason would look isolated."""

from __future__ import annotations

import pytest

from benchmarks.peers import hostile
from coterie.broker.protocol.connection import Connection, Request
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.record_batch import crc_matches, read_header

ELEMENTS_MAX = 1_000


def received(data: bytes) -> tuple[Connection, list[Request]]:
    """Return the connection of a server that reads these bytes, and its requests."""
    limit = Settings().socket_request_max_bytes
    connection = Connection(limit, produce_bytes_max=limit, elements_max=ELEMENTS_MAX)
    connection.receive_data(data)
    requests = []
    while (request := connection.next_request()) is not None:
        requests.append(request)
    return connection, requests


@pytest.mark.slow
def test_the_bomb_is_a_valid_batch_of_few_bytes_and_many_records() -> None:
    batch = hostile._bomb()
    assert len(batch) < 10_000
    assert crc_matches(batch)
    header = read_header(batch)
    assert header.size_bytes == len(batch)
    assert header.record_count == hostile.BOMB_RECORDS
    assert header.last_offset == hostile.BOMB_RECORDS - 1


@pytest.mark.slow
def test_the_frame_of_empty_names_is_refused_for_its_elements_only() -> None:
    [[frame]] = hostile.empty_names("unused").bursts
    assert len(frame) < Settings().socket_request_without_records_max_bytes
    connection, requests = received(frame)
    assert requests == []
    assert f"{hostile.EMPTY_NAMES // 2} elements" in str(connection.failure)


@pytest.mark.slow
def test_half_frames_are_the_begin_of_a_produce_request() -> None:
    attack = hostile.half_frames("unused")
    [[part]] = attack.bursts
    connection, requests = received(part)
    assert requests == []
    assert connection.failure is None
    assert connection.frames.waiting_bytes == len(part)
    assert attack.held == hostile.HALF_FRAMES


def test_the_flood_has_ordinary_requests() -> None:
    [burst] = hostile.flood("unused").bursts
    connection, requests = received(b"".join(burst[:1]))
    assert connection.failure is None
    assert [type(each.body) for each in requests] == [m.OffsetFetchRequest]
