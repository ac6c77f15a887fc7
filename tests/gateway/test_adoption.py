"""Groups of upstream are adopted with their offsets by the first request for them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client import AdminClient, ClientOptions, SyncAdmin
from coterie.client.cluster import Cluster
from coterie.errors import ApiError
from coterie.gateway import adoption as module
from coterie.gateway.adoption import Adoption
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer, WireClient
from tests.support.waiting import eventually

from .upstream_group import Pair, at, upstream_server

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
BRIEF = ClientOptions(api_timeout_ms=2_000)


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with upstream_server() as address:
        yield address


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    with ThreadServer(group_initial_rebalance_delay_ms=0) as started:
        yield started


@pytest.fixture
def pair(
    upstream: str, server: ThreadServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    monkeypatch.setattr(module, "REFUSED_MS", 1)
    both = Pair(upstream, server)
    admin = AdminClient(upstream, BRIEF)
    adoption = Adoption(both.broker, admin, Counter())
    both.broker.admit = adoption.admit
    yield both
    both.broker.admit = None
    server.run(adoption.close())
    server.run(admin.close())


def adoption_of(pair: Pair) -> Adoption:
    admit: Any = pair.broker.admit
    adopted: Adoption = admit.__self__
    return adopted


def test_a_group_is_adopted_with_offsets_epochs_and_metadata(pair: Pair) -> None:
    pair.create_topic()
    pair.commit(pair.upstream, p0=at(7, "note"), p2=at(9))
    assert pair.committed(pair.own) == {0: at(7, "note"), 2: at(9)}
    pair.commit(pair.upstream, p0=at(100))
    assert pair.committed(pair.own)[0] == at(7, "note"), "adopted once"
    assert adoption_of(pair)._counts == {"adopted": 1}


def test_the_first_commit_of_a_group_does_not_hide_its_other_offsets(
    pair: Pair,
) -> None:
    pair.create_topic()
    pair.commit(pair.upstream, p0=at(7), p1=at(8))
    assert pair.commit(pair.own, p1=at(20)) == {}
    assert pair.committed(pair.own) == {0: at(7), 1: at(20)}


def test_a_kip_848_member_joins_an_adopted_group(pair: Pair) -> None:
    pair.create_topic()
    pair.commit(pair.upstream, p0=at(7))
    with pair.server.client() as client:
        answer = client.call(
            m.ConsumerGroupHeartbeatRequest(
                group_id=pair.group,
                member_id="m",
                member_epoch=0,
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=[pair.topic],
                topic_partitions=[],
            )
        )
        assert answer.error_code == 0
    assert pair.committed(pair.own) == {0: at(7)}


def test_offsets_of_deleted_topics_are_left_out(pair: Pair) -> None:
    pair.create_topic()
    gone = TopicPartition(f"member-gone-{pair.suffix}", 0)
    with SyncAdmin(pair.upstream) as admin:
        # Kafka refuses offsets of topics that do not exist.
        errors = admin.alter_group_offsets(pair.group, {gone: at(5)}).errors
        assert errors or admin.list_group_offsets(pair.group).all()
    pair.commit(pair.upstream, p0=at(7))
    assert pair.committed(pair.own) == {0: at(7)}


def test_a_group_that_upstream_lacks_is_looked_up_once(pair: Pair) -> None:
    for _ in range(3):
        assert pair.committed(pair.own) == {}
    assert adoption_of(pair)._counts == {"absent": 1}
    pair.create_topic()
    pair.commit(pair.upstream, p0=at(7))
    assert pair.committed(pair.own) == {}, "the result is remembered"
    adoption_of(pair)._until_ms.clear()  # as after a minute
    assert pair.committed(pair.own) == {0: at(7)}


def test_a_group_that_was_deleted_here_is_not_adopted_again(pair: Pair) -> None:
    pair.create_topic()
    pair.commit(pair.upstream, p0=at(7))
    assert pair.committed(pair.own) == {0: at(7)}
    with SyncAdmin(pair.own) as admin:
        admin.delete_groups([pair.group]).all()
    assert pair.committed(pair.own) == {}


def test_a_group_with_members_upstream_waits_until_they_have_stopped(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.create_topic()
    pair.commit(pair.upstream, p0=at(7))
    member_id = _join_upstream(pair)
    with caplog.at_level(logging.WARNING):
        assert pair.fetch_code() == LOADING
        assert pair.fetch_code() == LOADING
        with pair.server.client() as client:
            beat = m.HeartbeatRequest(
                group_id=pair.group, generation_id=1, member_id="m"
            )
            assert client.call(beat).error_code in {0, LOADING}  # H-121a
    warned = [each for each in caplog.messages if pair.group in each]
    assert len(warned) == 1
    assert "it has 1 members upstream" in warned[0]
    _leave_upstream(pair, member_id)
    eventually(lambda: pair.fetch_code() == 0, expected="the group is adopted")
    assert pair.committed(pair.own) == {0: at(7)}


def test_a_group_waits_for_topics_that_this_node_does_not_know_yet(
    pair: Pair,
) -> None:
    pair.create_topic(pair.upstream)
    pair.commit(pair.upstream, p2=at(7))
    assert pair.fetch_code() == LOADING
    pair.create_topic(pair.own)
    eventually(lambda: pair.fetch_code() == 0, expected="the group is adopted")
    assert pair.committed(pair.own) == {2: at(7)}


@pytest.mark.slow
def test_without_upstream_every_unknown_group_gets_a_retriable_error(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.create_topic()
    pair.commit(pair.own, group="known-" + pair.suffix, p0=at(3))

    async def fail(*_: object) -> None:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(Cluster, "find_coordinators", fail)
    monkeypatch.setattr(Cluster, "metadata", fail)
    assert pair.fetch_code() == LOADING
    assert pair.fetch_code("known-" + pair.suffix) == 0


@pytest.mark.slow
def test_many_groups_are_adopted_by_few_lookups(pair: Pair) -> None:
    pair.create_topic()
    groups = [f"{pair.group}-{number}" for number in range(200)]
    for number, group in enumerate(groups):
        pair.commit(pair.upstream, group, p0=at(number + 1))
    with SyncAdmin(pair.own) as admin:
        found = admin.list_groups_offsets(dict.fromkeys(groups)).all()
    assert [
        offset and offset.offset
        for group in groups
        for offset in found[group].offsets.values()
    ] == [number + 1 for number in range(200)]
    assert adoption_of(pair)._counts == {"adopted": 200}


def _join_upstream(pair: Pair) -> str:
    protocol = m.JoinGroupRequestProtocol(name="p", metadata=b"")
    host, _, port = pair.upstream.rpartition(":")
    join = m.JoinGroupRequest(
        group_id=pair.group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="other",
        protocols=[protocol],
    )
    with WireClient(host, int(port)) as client:
        join.member_id = client.call(join, 5).member_id
        joined = client.call(join, 5)
    assert joined.error_code == 0
    member_id: str = joined.member_id
    return member_id


def _leave_upstream(pair: Pair, member_id: str) -> None:
    host, _, port = pair.upstream.rpartition(":")
    with WireClient(host, int(port)) as client:
        leave = m.LeaveGroupRequest(group_id=pair.group, member_id=member_id)
        assert client.call(leave, 1).error_code == 0
