"""Commits of this node's groups are repeated upstream."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.offsets.committed import CommittedOffset, Packed, pack
from coterie.broker.runtime.shards import Phase
from coterie.client import AdminClient, ClientOptions, SyncAdmin
from coterie.client import CommittedOffset as ClientOffset
from coterie.client.admin.group_offsets import GroupOffsets
from coterie.client.admin.results import Results
from coterie.errors import ApiError
from coterie.gateway.mirror import Mirror, compare
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer

from .test_adoption import _join_upstream, _leave_upstream
from .upstream_group import Pair, at, upstream_server


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with upstream_server() as address:
        yield address


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    with ThreadServer(group_initial_rebalance_delay_ms=0) as started:
        yield started


class Mirrored(Pair):
    """A pair whose mirror makes a pass when told to."""

    def __init__(self, upstream: str, server: ThreadServer) -> None:
        super().__init__(upstream, server)
        self.admin = AdminClient(upstream, ClientOptions(api_timeout_ms=10_000))
        self.restart()
        self.create_topic()

    def restart(self) -> None:
        """Forget what was repeated, as after a fail-over."""

        async def make() -> Mirror:
            return Mirror(self.broker.runtime, self.admin, 1, Counter())

        self.mirror = self.server.run(make())

    def repeat(self) -> None:
        self.server.run(self.mirror.mirror_all())

    def repeated(self) -> dict[int, ClientOffset]:
        """Make a pass, and return the offsets upstream."""
        self.repeat()
        return self.committed(self.upstream)


@pytest.fixture
def pair(upstream: str, server: ThreadServer) -> Iterator[Mirrored]:
    both = Mirrored(upstream, server)
    yield both
    with SyncAdmin(both.own) as admin:  # the tests share the servers
        admin.groups.delete([both.group])
    server.run(both.admin.close())


def test_commits_are_repeated_with_epochs_and_metadata(pair: Mirrored) -> None:
    pair.commit(pair.own, p0=at(7, "note"), p2=at(9))
    assert pair.repeated() == {0: at(7, "note"), 2: at(9)}
    assert pair.mirror._counts == {"committed": 2}
    pair.commit(pair.own, p0=at(8), p2=at(9))
    assert pair.repeated() == {0: at(8), 2: at(9)}
    assert pair.mirror._counts == {"committed": 3}, "only what differs"


def test_a_reset_to_an_earlier_offset_is_repeated(pair: Mirrored) -> None:
    pair.commit(pair.own, p0=at(7))
    pair.repeat()
    pair.commit(pair.own, p0=at(3))
    assert pair.repeated() == {0: at(3)}


def test_deleted_offsets_are_deleted_upstream(pair: Mirrored) -> None:
    pair.commit(pair.upstream, p2=at(1))
    pair.commit(pair.own, p0=at(7), p1=at(8))
    pair.repeat()
    with SyncAdmin(pair.own) as admin:
        admin.group_offsets.delete(pair.group, [pair.partition(0)]).all()
    assert pair.repeated() == {1: at(8), 2: at(1)}
    with SyncAdmin(pair.own) as admin:
        admin.groups.delete([pair.group]).all()
    assert pair.repeated() == {2: at(1)}, "what was never repeated stays"


def test_a_new_group_replaces_offsets_upstream(pair: Mirrored) -> None:
    pair.repeat()
    pair.commit(pair.upstream, p0=at(9))
    pair.commit(pair.own, p0=at(7))
    assert pair.repeated() == {0: at(7)}


def test_offsets_of_a_former_owner_move_only_forward(pair: Mirrored) -> None:
    pair.commit(pair.own, p0=at(7), p1=at(7), p2=at(7))
    pair.commit(pair.upstream, p0=at(9), p1=at(5))
    assert pair.repeated() == {0: at(9), 1: at(7), 2: at(7)}
    pair.restart()
    assert pair.repeated() == {0: at(9), 1: at(7), 2: at(7)}
    assert pair.mirror._counts == {}


def test_a_group_with_members_upstream_is_left_alone(
    pair: Mirrored, caplog: pytest.LogCaptureFixture
) -> None:
    pair.commit(pair.own, p0=at(7))
    pair.repeat()
    member_id = _join_upstream(pair)
    pair.commit(pair.own, p0=at(8))
    with caplog.at_level(logging.INFO):
        assert pair.repeated() == {0: at(7)}
        pair.commit(pair.own, p0=at(9))
        assert pair.repeated() == {0: at(7)}
        assert [each for each in caplog.messages if "has members upstream" in each] == [
            f"group {pair.group} has members upstream: its commits are not repeated "
            "there"
        ]
        _leave_upstream(pair, member_id)
        pair.commit(pair.upstream, p0=at(50))
        assert pair.repeated() == {0: at(50)}, "nothing has changed here"
        pair.commit(pair.own, p0=at(60))
        assert pair.repeated() == {0: at(60)}
    assert f"group {pair.group}: commits are repeated upstream again" in caplog.messages


def test_a_shard_of_another_node_is_not_repeated(pair: Mirrored) -> None:
    pair.commit(pair.own, p0=at(7))
    partition = pair.broker.runtime.shards[pair.broker.shard_of(pair.group)]
    phase, partition.phase = partition.phase, Phase.UNASSIGNED
    try:
        assert pair.repeated() == {}
    finally:
        partition.phase = phase
    assert pair.repeated() == {0: at(7)}


def test_a_failed_pass_is_repeated(pair: Mirrored) -> None:
    pair.commit(pair.own, p0=at(7))
    working = pair.admin
    pair.mirror._admin = AdminClient("127.0.0.1:1", ClientOptions(api_timeout_ms=1))
    pair.repeat()
    # Groups that another test left unrepeated may be counted, too.
    assert pair.mirror._counts["failed"] >= 1
    pair.mirror._admin = working
    assert pair.repeated() == {0: at(7)}


def other_group(pair: Mirrored) -> str:
    """Return the id of another group in the shard of the pair's group."""
    shard_of = pair.broker.shard_of
    names = (f"{pair.group}-{number}" for number in count())
    return next(name for name in names if shard_of(name) == shard_of(pair.group))


@pytest.mark.parametrize("is_partial", [False, True])
def test_a_group_whose_offsets_upstream_are_unknown_waits_alone(
    pair: Mirrored, monkeypatch: pytest.MonkeyPatch, is_partial: bool
) -> None:
    other = other_group(pair)
    pair.commit(pair.own, p0=at(7))
    pair.commit(pair.own, other, p0=at(7))
    pair.commit(pair.upstream, p0=at(9))
    fetch = pair.admin.group_offsets.fetch_many

    async def fetch_without_one(
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
    ) -> Results[GroupId, GroupOffsets]:
        values = dict((await fetch(wanted)).values)
        error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if values.pop(pair.group, None) is None:
            return Results(values)
        if not is_partial:
            return Results(values, {pair.group: error})
        values[pair.group] = GroupOffsets({}, {pair.partition(0): error})
        return Results(values)

    with monkeypatch.context() as patch:
        patch.setattr(pair.admin.group_offsets, "fetch_many", fetch_without_one)
        assert pair.repeated() == {0: at(9)}
    assert pair.committed(pair.upstream, other) == {0: at(7)}
    assert pair.mirror._counts["failed"] == 1
    pair.commit(pair.own, p0=at(10))
    assert pair.repeated() == {0: at(10)}


@pytest.mark.slow
def test_many_groups_are_repeated(pair: Mirrored) -> None:
    groups = [f"{pair.group}-{number}" for number in range(600)]
    for number, group in enumerate(groups):
        pair.commit(pair.own, group, p0=at(number + 1))
    pair.repeat()
    with SyncAdmin(pair.upstream) as admin:
        found = admin.group_offsets.fetch_many(dict.fromkeys(groups)).all()
    assert [
        offset and offset.offset
        for group in groups
        for offset in found[group].offsets.values()
    ] == [number + 1 for number in range(600)]
    with SyncAdmin(pair.own) as admin:
        admin.groups.delete(groups).all()


offsets = st.dictionaries(
    st.sampled_from("ab"),
    st.dictionaries(st.integers(0, 2), st.integers(0, 3), min_size=1),
)


def packed(
    offsets: dict[str, dict[int, int]], at_ms: int
) -> dict[str, dict[int, Packed]]:
    return {
        topic: {
            number: pack(number, CommittedOffset(offset, 0, "", at_ms))
            for number, offset in of_topic.items()
        }
        for topic, of_topic in offsets.items()
    }


@settings(max_examples=50)
@given(offsets, offsets)
def test_the_difference_makes_one_state_of_the_other(
    before: dict[str, dict[int, int]], now: dict[str, dict[int, int]]
) -> None:
    commits, deletions = compare(packed(before, 1), packed(now, 2))
    flat = {
        TopicPartition(topic, number): offset
        for topic, of_topic in before.items()
        for number, offset in of_topic.items()
    }
    assert all(flat.get(each) != offset.offset for each, offset in commits.items())
    for each in deletions:
        del flat[each]
    flat |= {each: offset.offset for each, offset in commits.items()}
    assert flat == {
        TopicPartition(topic, number): offset
        for topic, of_topic in now.items()
        for number, offset in of_topic.items()
    }
