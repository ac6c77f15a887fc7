"""The live page over Coterie and over Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.page_client import TOKEN, PageClient, served_page

from .consumer_groups import CLIENT_ID, PROTOCOLS, consuming, make_empty_group

pytestmark = pytest.mark.slow


@pytest.fixture
def page(bootstrap: str, tmp_path: Path) -> Iterator[PageClient]:
    with served_page(bootstrap, tmp_path, allow_changes=True, token=TOKEN) as server:
        client = PageClient(server.port)
        client.log_in()
        yield client


class Events:
    """The messages of a page, merged into rows and rebalances of one group."""

    def __init__(self, page: PageClient, group: str) -> None:
        self._events = page.events()
        self._group = group
        self.row: dict[str, Any] = {}
        self.rebalances: dict[int, dict[str, Any]] = {}

    def until(self, **wanted: object) -> dict[str, Any]:
        """Take messages until the row has these values."""
        while any(self.row.get(name) != value for name, value in wanted.items()):
            self.take()
        return self.row

    def take(self) -> None:
        message = next(self._events)
        for row in message.get("groups", []) + message.get("changed", []):
            if row["id"] == self._group:
                self.row.update(row)
        for each in message.get("rebalances", []):
            if each["group"] == self._group:
                self.rebalances[each["number"]] = each


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_page_shows_a_group_its_owner_and_its_rebalances(
    page: PageClient, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    events = Events(page, group)
    events.take()
    with consuming(bootstrap, group, topic, protocol):
        row = events.until(state="Stable", lag=4, members=1)
        assert (row["type"], row["partitions"]) == (protocol, 2)
        assert row["oldest_ms"] > 0
        details = page.get(f"/api/group?id={group}").content
        (member,) = details["members"]
        assert member["client_id"] == CLIENT_ID
        assert member["owned"] == [{"topic": topic, "partitions": "0-1"}]
        assert {each["owner"] for each in details["partitions"]} == {1}
        request = {"action": "reset", "groups": [group], "to": "earliest"}
        refused = page.post("/api/preview", request).content
        assert refused["preview"] is None
        assert "has members" in refused["errors"][0]["error"]
    events.until(state="Empty", members=0)
    while not any(each["outcome"] == "empty" for each in events.rebalances.values()):
        events.take()
    reasons = [reason for e in events.rebalances.values() for reason in e["reasons"]]
    assert f"member {CLIENT_ID} left" in reasons


def test_a_page_resets_and_undoes(
    page: PageClient, bootstrap: str, group: str, topic: str
) -> None:
    make_empty_group(bootstrap, group, topic, "classic")
    events = Events(page, group)
    events.until(state="Empty", lag=4)
    request = {"action": "reset", "groups": [group], "to": "latest"}
    preview = page.post("/api/preview", request).content
    assert [(row["prior"], row["new"]) for row in preview["rows"]] == [(3, 5), (3, 5)]
    done = page.post("/api/apply", {"preview": preview["preview"]}).content
    assert [each["verdict"] for each in done["results"]] == ["done"]
    events.until(lag=0)
    undo = {"action": "undo", "snapshot": done["snapshot"]}
    preview = page.post("/api/preview", undo).content
    page.post("/api/apply", {"preview": preview["preview"]})
    events.until(lag=4)
