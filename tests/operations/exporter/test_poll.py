"""A poll of a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from coterie.client.admin.groups import GroupState, GroupType
from coterie.client.admin.results import Results
from coterie.client.admin.share_groups import ShareGroupOffsets, ShareOffset
from coterie.errors import ApiError, ConnectionLost
from coterie.operations.exporter.poll import (
    Poll,
    Poller,
    PollOptions,
    TopicFilter,
    error_name,
)
from coterie.operations.selection import Selection
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeLog, group, member

from .exported import NOW_MS, T0, T1, U0, ExportedAdmin, options, small_cluster


def polled(admin: ExportedAdmin, wanted: PollOptions | None = None) -> Poll:
    poller = Poller(admin, wanted or options(), now_ms=lambda: NOW_MS)
    return asyncio.run(poller.poll())


def names(poll: Poll) -> list[str]:
    return [each.lag.group_id for each in poll.groups]


def test_a_poll_has_the_partitions_of_each_group_once_and_sorted() -> None:
    admin = small_cluster()
    admin.known_groups["orders"] = group(
        "orders", member("a", ("t", 1), ("t", 0)), member("b", ("t", 0))
    )
    poll = polled(admin)
    by_group = {each.lag.group_id: each for each in poll.groups}
    assert [each.at for each in by_group["orders"].partitions] == [T0, T1]
    assert [each.lag.lag for each in by_group["orders"].partitions] == [60, None]
    assert poll.log_starts == {T0: 0, T1: 50, U0: 0}
    assert poll.log_ends == {T0: 100, T1: 80, U0: 10}
    assert poll.cluster_name == "cluster-1"


def test_the_number_of_requests_does_not_depend_on_the_number_of_groups() -> None:
    counts = []
    for size in (1, 50):
        admin = small_cluster()
        for number in range(size):
            admin.add(group(f"g{number}"), t=100)
        polled(admin)
        counts.append(len(admin.calls))
    assert counts[0] == counts[1]


def test_topics_filter_partitions_and_groups() -> None:
    poll = polled(small_cluster(), options(topics=TopicFilter(("u*",))))
    assert names(poll) == ["billing"]
    assert poll.log_ends == {U0: 10}
    poll = polled(small_cluster(), options(topics=TopicFilter(excludes=("u*",))))
    assert names(poll) == ["orders"]


def test_groups_are_selected() -> None:
    selection = Selection(globs=("ord*",))
    assert names(polled(small_cluster(), options(selection=selection))) == ["orders"]


def test_the_cluster_has_the_name_of_the_plan() -> None:
    poll = polled(small_cluster(), options(cluster_name="prod"))
    assert poll.cluster_name == "prod"


def test_without_time_lag_nothing_is_queried_for_it() -> None:
    admin = small_cluster()
    poll = polled(admin, options(with_time_lag=False))
    assert {part.time_lag for each in poll.groups for part in each.partitions} == {None}
    assert "first_records" not in admin.calls


def test_items_that_fail_are_counted_and_do_not_hide_others() -> None:
    admin = small_cluster()
    admin.group_errors["billing"] = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    admin.log_errors[T1] = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    admin.node_errors = {2: ConnectionLost("node 2 is down")}
    poll = polled(admin)
    assert poll.failed == {"node": 1, "group": 1, "partition": 1}
    assert names(poll) == ["billing", "orders"]
    assert poll.groups[0].rebalances is None


def test_a_group_that_was_deleted_after_it_was_listed_is_no_failure() -> None:
    admin = small_cluster()
    admin.group_errors["billing"] = ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
    poll = polled(admin)
    assert poll.failed["group"] == 0
    assert names(poll) == ["orders"]


def test_a_poll_in_which_no_node_lists_groups_fails() -> None:
    admin = ExportedAdmin(node_errors={1: ConnectionLost("node 1 is down")})
    with pytest.raises(ConnectionLost):
        polled(admin)


def test_rebalances_between_polls_are_counted() -> None:
    admin = small_cluster()
    poller = Poller(admin, options(), now_ms=lambda: NOW_MS)
    asyncio.run(poller.poll())
    admin.known_groups["orders"] = replace(
        admin.known_groups["orders"], state=GroupState.PREPARING_REBALANCE
    )
    poll = asyncio.run(poller.poll())
    assert [each.rebalances for each in poll.groups] == [0, 1]


def test_an_unavailable_node_does_not_reset_the_counts_of_its_groups() -> None:
    admin = small_cluster()
    poller = Poller(admin, options(), now_ms=lambda: NOW_MS)
    admin.known_groups["orders"] = replace(admin.known_groups["orders"], group_epoch=1)
    asyncio.run(poller.poll())
    hidden = admin.known_groups.pop("orders")
    admin.node_errors = {2: ConnectionLost("node 2 is down")}
    asyncio.run(poller.poll())
    admin.node_errors, admin.known_groups["orders"] = {}, replace(hidden, group_epoch=3)
    poll = asyncio.run(poller.poll())
    assert [each.rebalances for each in poll.groups] == [0, 2]


def test_a_topic_that_was_created_again_between_polls_has_its_own_times() -> None:
    admin = small_cluster()
    admin.topic_ids["t"] = b"1" * 16
    times = iter((100_000, 100_000, 130_000, 130_000))
    poller = Poller(admin, options(), now_ms=lambda: next(times))
    asyncio.run(poller.poll())
    admin.topic_ids["t"] = b"2" * 16
    admin.known_logs[T0] = FakeLog(0, [125_000] * 200)
    poll = asyncio.run(poller.poll())
    part = poll.groups[1].partitions[0]
    assert (part.lag.lag, part.time_lag and part.time_lag.ms) == (160, 5_000)


class SharingAdmin(ExportedAdmin):
    """A cluster with the share group "orders", which has acknowledged some records."""

    async def list_share_groups_offsets(
        self, *_: object, **__: object
    ) -> Results[GroupId, ShareGroupOffsets]:
        return Results({"orders": ShareGroupOffsets({T0: ShareOffset(40, 0, 7)})})


def test_the_lag_of_a_share_group_starts_at_its_start_offset() -> None:
    admin = SharingAdmin(known_logs={T0: FakeLog.of(0, 100)})
    admin.add(group("orders", type=GroupType.SHARE, protocol_type="share"))
    [polled_group] = polled(admin).groups
    [part] = polled_group.partitions
    assert (part.lag.lag, part.time_lag and part.time_lag.ms) == (7, 60_000)


def test_error_names_are_codes_or_classes() -> None:
    assert error_name(ApiError(ErrorCode.NOT_CONTROLLER, "text")) == "NOT_CONTROLLER"
    assert error_name(ConnectionLost("text")) == "ConnectionLost"


def test_a_partition_that_is_not_in_the_filter_is_not_listed() -> None:
    topics = TopicFilter(("a*", "b"), ("ab*",))
    assert [each for each in ("a", "ab", "b", "c") if each in topics] == ["a", "b"]
    assert TopicPartition("a", 0) not in topics
