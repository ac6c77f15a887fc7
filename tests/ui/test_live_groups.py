"""Measurements that pages share: differences, slow pages, and brokers that are down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

import pytest

from coterie.client.admin.groups import ClusterDescription, GroupListings, GroupState
from coterie.errors import ClientError
from coterie.types import TopicPartition
from coterie.ui.live_groups import (
    HISTORY_MAX,
    PAGES_MAX,
    QUEUE_MAX,
    LiveGroups,
    TooManyPages,
)
from coterie.ui.rebalances import Rebalances
from tests.operations.fake_admin import NODE, FakeAdmin, FakeLog, group, member

T0 = TopicPartition("t", 0)
NEVER_S = 1e6
NOW_MS = 1_000_000


class Cluster(FakeAdmin):
    """A fake cluster with a few groups."""

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("cluster", 1, (NODE,))

    async def list_groups(self, **filters: Any) -> GroupListings:
        listed = await super().list_groups(**filters)
        return (
            listed
            if not self.node_errors
            else GroupListings(listed.groups[:1], self.node_errors)
        )


def cluster(*names: str) -> Cluster:
    admin = Cluster(known_logs={T0: FakeLog.of(0, 100)})
    for name in names:
        admin.add(group(name, state=GroupState.EMPTY), t=90)
    return admin


def live(admin: Cluster) -> LiveGroups:
    return LiveGroups(admin, Rebalances(), NEVER_S, lambda: NOW_MS)


async def take(messages: AsyncGenerator[bytes, None]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await anext(messages))
    return found


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_a_second_page_starts_no_second_measurement() -> None:
    async def test() -> None:
        admin = cluster("a", "b")
        groups = live(admin)
        first, second = groups.messages(), groups.messages()
        assert (await take(first))["groups"] == []
        assert [each["id"] for each in (await take(first))["changed"]] == ["a", "b"]
        snapshot = await take(second)
        assert [each["id"] for each in snapshot["groups"]] == ["a", "b"]
        assert admin.calls.count("list_groups") == 1
        await groups.close()

    run(test)


def test_a_row_has_the_time_of_the_oldest_unread_record() -> None:
    async def test() -> None:
        admin = cluster("a")
        groups = live(admin)
        await groups.measure()
        details = groups.details("a")
        assert details is not None
        assert (details["lag"], details["oldest_ms"]) == (10, 90_000)
        assert details["partitions"][0]["method"] == "exact"
        admin.commits["a"][T0] = 100
        await groups.measure()
        details = groups.details("a")
        assert details is not None
        assert (details["lag"], details["oldest_ms"]) == (0, None)
        assert details["history"] == [10, 0]

    run(test)


def test_a_group_that_stands_still_sends_nothing() -> None:
    async def test() -> None:
        groups = live(cluster("a", "b"))
        messages = groups.messages()
        await take(messages)
        await take(messages)
        await groups.measure()
        message = await take(messages)
        assert (message["changed"], message["gone"]) == ([], [])
        await groups.close()

    run(test)


def test_a_page_that_does_not_read_gets_a_snapshot_instead() -> None:
    async def test() -> None:
        admin = cluster("a")
        groups = live(admin)
        messages = groups.messages()
        await take(messages)
        await take(messages)
        for number in range(QUEUE_MAX + 5):
            admin.commits["a"][T0] = number
            await groups.measure()
        message = await take(messages)
        assert message["kind"] == "snapshot"
        assert message["groups"][0]["lag"] == 100 - QUEUE_MAX - 4
        await groups.measure()
        assert (await take(messages))["kind"] == "delta"
        await groups.close()

    run(test)


def test_groups_of_a_broker_that_is_down_stay_with_an_error() -> None:
    async def test() -> None:
        admin = cluster("a", "b")
        groups = live(admin)
        await groups.measure()
        admin.node_errors = {2: ClientError("broker 2 is down")}
        admin.group_errors["a"] = ClientError("no coordinator")
        await groups.measure()
        for name, text in (("a", "no coordinator"), ("b", "values are old")):
            details = groups.details(name)
            assert details is not None
            assert (details["lag"], details["state"]) == (10, "Empty")
            row = await _row(groups, name)
            assert text in row["error"]
        await groups.close()

    run(test)


async def _row(groups: LiveGroups, name: str) -> dict[str, Any]:
    messages = groups.messages()
    snapshot = await take(messages)
    await messages.aclose()
    (row,) = [each for each in snapshot["groups"] if each["id"] == name]
    return dict(row)


def test_a_snapshot_has_the_history_of_groups_that_moved() -> None:
    async def test() -> None:
        admin = cluster("moving", "still")
        groups = live(admin)
        for number in range(HISTORY_MAX + 3):
            admin.commits["moving"][T0] = number % 100
            await groups.measure()
        messages = groups.messages()
        histories = (await take(messages))["histories"]
        assert histories.keys() == {"moving"}
        assert len(histories["moving"]) == HISTORY_MAX
        await groups.close()

    run(test)


def test_rebalances_are_part_of_the_differences() -> None:
    async def test() -> None:
        admin = cluster("a")
        groups = live(admin)
        await groups.measure()
        messages = groups.messages()
        await take(messages)
        await take(messages)
        admin.known_groups["a"] = group("a", member("reader", ("t", 0)))
        await groups.measure()
        (entry,) = (await take(messages))["rebalances"]
        assert entry["reasons"] == ["member reader joined"]
        await groups.close()

    run(test)


def test_pages_are_bounded() -> None:
    async def test() -> None:
        groups = live(cluster("a"))
        pages = [groups.messages() for _ in range(PAGES_MAX + 1)]
        for page in pages[:-1]:
            await take(page)
        assert len(groups._pages) == PAGES_MAX
        with pytest.raises(TooManyPages):
            await take(pages[-1])
        for page in pages[:-1]:
            await page.aclose()
        await asyncio.sleep(0)
        assert (len(groups._pages), groups.is_running) == (0, False)

    run(test)


def test_a_page_that_is_reloaded_is_measured_again() -> None:
    async def test() -> None:
        groups = live(cluster("a"))
        for _ in range(3):
            messages = groups.messages()
            await take(messages)
            assert (await take(messages))["kind"] == "delta"
            await messages.aclose()  # no turn of the loop before the next page
        await groups.close()

    run(test)
