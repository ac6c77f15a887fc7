"""The page in Chromium: one browser, with a tab for each test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer

from coterie.testing import Kafka
from coterie.ui.server import PageServer
from tests.support.waiting import eventually

from .browser import Browser, Tab
from .page_client import TOKEN, served_page

pytestmark = pytest.mark.slow

Open: TypeAlias = Callable[..., Tab]
HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
RIGHT_TO_LEFT = "\u202eevil\u202c \u05d0\u05d1\u05d2"
LONG = "x" * 249
WAIT_S = 60.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Open a page; afterwards no script may have failed or been blocked."""
    browser.events.clear()
    with ExitStack() as stack:

        def open_tab(address: str, **options: Any) -> Tab:
            tab = stack.enter_context(browser.open(address, **options))
            tab.until("document.documentElement?.dataset.ready === 'yes'")
            return tab

        yield open_tab
    failures = [
        each
        for each in browser.events
        if each.get("method") == "Runtime.exceptionThrown"
        or each.get("params", {}).get("entry", {}).get("source") == "security"
    ]
    assert failures == []


@pytest.fixture
def address(page_port: int) -> str:
    return f"http://127.0.0.1:{page_port}/#token={TOKEN}"


def row(group: str, expression: str) -> str:
    """Return a script with the value of an expression on a group's row, if shown."""
    rows = "[...document.querySelectorAll('#spacer .row')]"
    return (
        f"(() => {{ const row = {rows}.find((e) => e.groupId === {json.dumps(group)});"
        f" return row ? {expression} : null; }})()"
    )


def find(tab: Tab, group: str) -> None:
    """Filter by a group's name, and open it with the keyboard."""
    tab.until_text("#status-text", "live")
    tab.run("document.getElementById('grid').focus()")
    tab.press("/")
    tab.type(group)
    tab.until(row(group, "true"))
    tab.press("Enter")
    tab.press("Enter")
    tab.until_text("#detail h2", group)
    tab.until_text("#detail .facts", "Coordinator")


def commit(kafka: Kafka, group: str, *offsets: int) -> None:
    kafka.groups[group].commit(
        {("orders", partition): offset for partition, offset in enumerate(offsets)}
    )


def consuming(kafka: Kafka, group: str) -> AbstractContextManager[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "client.id": "reader",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    return closing(consumer)


def test_a_row_moves_when_a_consumer_starts(
    kafka: Kafka, address: str, tabs: Open
) -> None:
    commit(kafka, "starting", 2, 2)
    tab = tabs(address)
    assert tab.run("location.hash") == ""  # the token is no longer in the address
    cells = "[...row.children].slice(1, 6).map((e) => e.innerText).join(' ')"
    assert tab.until(row("starting", cells)) == "Empty classic 0 0 16"
    with consuming(kafka, "starting") as consumer:
        for _ in range(16):
            assert consumer.poll(WAIT_S) is not None
        shown = "row.children[1].innerText === 'Stable'"
        eventually(
            lambda: consumer.poll(0.1) is None and tab.run(row("starting", shown)),
            expected="the row of a stable group",
        )
        consumer.commit(asynchronous=False)
        assert tab.until(row("starting", "row.children[5].innerText === '0'"))
        tab.until_text("#rebalances", "member reader joined")
        find(tab, "starting")
        tab.until_text("#detail .members", "reader")
        assert "orders 0-1" in tab.text("#detail .owned").replace("\n", " ")


def test_a_reset_is_previewed_applied_and_undone(
    kafka: Kafka, address: str, tabs: Open
) -> None:
    commit(kafka, "billing", 4, 6)
    tab = tabs(address, dark=True)
    find(tab, "billing")
    tab.press("r")
    tab.until("document.querySelector('#change select') === document.activeElement")
    tab.click("#change button[type=submit]")
    tab.until_text("#change .summary", "2 offsets of 1 group. Nothing is written yet.")
    assert "orders\t0\t4\t0\t−4\t10" in tab.text("#change tbody")
    tab.press("Enter")  # a second Enter confirms nothing
    assert "Nothing is written yet." in tab.text("#change .summary")
    assert kafka.groups["billing"].lag == 10
    tab.click("#change .buttons .main")
    tab.until_text("#change .summary", "Done: 1 group.")
    assert kafka.groups["billing"].lag == 20
    tab.until(row("billing", "row.children[5].innerText === '20'"))
    tab.click("#change .buttons button")  # Undo…
    tab.until_text("#change tbody", "orders\t0\t0\t4")
    tab.click("#change .buttons .main")
    tab.until_text("#change .summary", "Done: 1 group.")
    assert kafka.groups["billing"].lag == 10
    tab.press("Escape")
    tab.until("!document.querySelector('dialog[open]')")
    tab.press("u")
    tab.until_text("#undo", "coterie ui: reset")


def test_a_group_with_members_is_refused(
    kafka: Kafka, address: str, tabs: Open
) -> None:
    with consuming(kafka, "living") as consumer:
        eventually(
            lambda: consumer.poll(0.1) is None and kafka.groups["living"].members,
            expected="a member",
        )
        tab = tabs(address)
        find(tab, "living")
        for key in ("r", "d"):
            tab.press(key)
            if key == "r":
                tab.click("#change button[type=submit]")
            tab.until_text("#change ul.bad", "the group has members")
            tab.until_text("#change .summary", "Nothing can be written.")
            assert tab.run("document.querySelector('#change .buttons .main')") is None
            tab.press("Escape")
            tab.until("!document.querySelector('dialog[open]')")


def test_hostile_names_stay_text(kafka: Kafka, address: str, tabs: Open) -> None:
    for group in (HOSTILE, RIGHT_TO_LEFT, LONG):
        commit(kafka, group, 0, 0)
    for width in (1280, 390):
        tab = tabs(address, width=width)
        find(tab, HOSTILE)
        assert tab.run(row(HOSTILE, "row.children[0].textContent")) == HOSTILE
        assert tab.text("#detail h2") == HOSTILE
        tab.press("r")
        tab.click("#change button[type=submit]")
        tab.until_text("#change h2", HOSTILE)
        tab.press("Escape")
        # No element of a name exists; the page has one image, its icon.
        assert tab.run("document.images.length") == 1
        assert tab.run("document.title") == "kafka.example:9092 · Coterie"
        tab.press("Escape")
        tab.run("document.getElementById('filter').value = ''")
        tab.run("document.getElementById('filter').dispatchEvent(new Event('input'))")
        override = "row.children[0].textContent"
        assert tab.until(row(RIGHT_TO_LEFT, override)).startswith("\\u202eevil\\u202c")
        assert tab.until(row(LONG, "row.children[0].textContent")) == LONG
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")


def named(number: int, size: int) -> str:
    """Return a name of this many characters, wide ones among them."""
    return f"payments-service-{number:02}-{'WAREHOUSE-of-the-north-' * 6}"[:size]


FAULTS_OF_LAYOUT = """
    [...document.querySelectorAll("#spacer .row")].flatMap((row) => {
      const cut = (node) => node.scrollHeight > node.clientHeight + 1 ||
        node.scrollWidth > node.clientWidth + 1;
      const shown = [...row.children].filter((cell) => cell.clientWidth);
      return [row, ...shown].filter(cut).map((node) => [row.groupId, node.className]);
    }).concat(document.documentElement.scrollWidth > innerWidth ? ["page"] : [])
"""


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A page of a cluster whose groups have names of 40 and of 120 characters."""
    with Kafka() as kafka:
        kafka.topic("orders")
        kafka.produce("orders", [str(number) for number in range(20)])
        for number in range(6):
            for size in (40, 120):
                kafka.groups[named(number, size)].commit({("orders", 0): number})
        with served_page(
            kafka.bootstrap_servers, tmp_path_factory.mktemp("names")
        ) as page:
            yield page


@pytest.mark.parametrize("width", [1440, 1280, 1024, 700, 390])
def test_names_are_whole_at_every_width(
    long_names: PageServer, tabs: Open, width: int
) -> None:
    tab = tabs(long_names.address, width=width)
    group = named(5, 120)
    tab.until(row(named(0, 40), "true"))
    assert tab.run(FAULTS_OF_LAYOUT) == []
    assert tab.run("document.getElementById('side').offsetWidth") == 0  # it is empty
    tab.press("/")
    tab.type(group)
    tab.until(row(group, "true"))
    assert tab.run(FAULTS_OF_LAYOUT) == []
    tab.run(row(group, "row.click()"))
    tab.until_text("#detail .facts", "Coordinator")
    assert tab.run(FAULTS_OF_LAYOUT) == []
    assert tab.run("document.getElementById('feed').offsetWidth") == 0
    tab.until_text("#detail .partitions", "orders")
    partitions = "document.querySelector('#detail .partitions')"
    assert tab.run(f"{partitions}.scrollWidth <= {partitions}.clientWidth")


def test_rebalances_have_their_pane_once_there_are_any(
    kafka: Kafka, address: str, tabs: Open
) -> None:
    group = named(9, 40)
    commit(kafka, group, 2, 2)
    tab = tabs(address)
    tab.until(row(group, "true"))  # or the first measurement may follow the rebalance
    with consuming(kafka, group) as consumer:
        eventually(
            lambda: (
                consumer.poll(0.1) is None
                and tab.run("document.querySelector('#rebalances li') !== null")
            ),
            expected="a rebalance",
        )
        assert tab.run("document.getElementById('side').offsetWidth") > 0
        tab.until(row(group, "true"))
        assert tab.run(FAULTS_OF_LAYOUT) == []


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A page of a cluster with 2,000 groups, read-only."""
    with Kafka() as kafka:
        kafka.topic("orders")
        kafka.produce("orders", [str(number) for number in range(2_000)])
        for number in range(2_000):
            kafka.groups[f"group-{number:04}"].commit({("orders", 0): number})
        with served_page(
            kafka.bootstrap_servers, tmp_path_factory.mktemp("large")
        ) as page:
            yield page


def test_a_table_of_2000_groups_has_few_rows_and_reaches_the_last(
    large: PageServer, tabs: Open
) -> None:
    tab = tabs(large.address)
    tab.until("document.getElementById('grid').ariaRowCount === '2001'")
    assert tab.text("[data-show=all] b") == "2,000"
    assert tab.text("#mode") == "read-only"
    shown = "document.querySelectorAll('#spacer .row').length"
    assert 10 < tab.run(shown) < 60
    tab.until(row("group-0000", "true"))  # the most lag is first
    tab.press("End")
    tab.until(row("group-1999", "row.classList.contains('cursor')"))
    assert tab.run(shown) < 60
    place = row("group-1999", "row.getBoundingClientRect().bottom <= innerHeight")
    assert tab.run(place)
    for share in (0.25, 0.75, 0.5):
        tab.run(
            "{ const e = document.getElementById('viewport');"
            f" e.scrollTop = e.scrollHeight * {share}; }}"
        )
        middle = f"group-{round(2_000 * share):04}"
        tab.until(row(middle, "true"))
        assert tab.run(shown) < 60
    tab.press("s")
    tab.press("s")
    tab.press("Home")
    tab.until(row("group-0000", "row.getAttribute('aria-rowindex') === '2'"))
    tab.press("/")
    tab.type("group-17")
    tab.until("document.getElementById('grid').ariaRowCount === '101'")
    assert "100 groups shown" in tab.until(
        "document.getElementById('announce').innerText"
    )


def test_a_phone_has_cards_and_the_rebalances_behind_a_button(
    large: PageServer, tabs: Open
) -> None:
    tab = tabs(large.address, width=390, height=844)
    tab.until(row("group-0000", "row.getBoundingClientRect().height > 80"))
    display = "getComputedStyle(document.querySelector({!r})).display"
    assert tab.run(display.format(".row.head")) == "none"
    assert tab.run(display.format("#side")) == "none"
    tab.click("#feed-button")
    assert tab.run(display.format("#side")) == "flex"
    tab.press("Escape")
    assert tab.run(display.format("#side")) == "none"
    tab.run(row("group-0000", "row.click()"))
    tab.until_text("#detail", "Read-only")
    assert tab.run("document.documentElement.scrollWidth <= innerWidth")


def test_colours_follow_the_system_until_they_are_chosen(
    large: PageServer, tabs: Open
) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    light, dark = tabs(large.address), tabs(large.address, dark=True)
    assert light.run(back) == "rgb(247, 248, 248)"
    assert dark.run(back) == "rgb(14, 18, 20)"
    dark.press("t")
    assert dark.run(back) == "rgb(247, 248, 248)"


def test_values_of_an_unreachable_cluster_are_marked_stale(
    tabs: Open, tmp_path: Path
) -> None:
    with Kafka() as kafka:
        kafka.topic("orders")
        kafka.groups["billing"].commit({("orders", 0): 0})
        with served_page(kafka.bootstrap_servers, tmp_path) as page:
            tab = tabs(page.address)
            tab.until(row("billing", "true"))
            kafka.kill()
            tab.until_text("#status-text", "stale since")
            tab.until_text("#banner", "The cluster cannot be measured")
            assert tab.run(row("billing", "true"))
            kafka.restart()
            tab.until_text("#status-text", "live")
        tab.until_text("#status-text", "page disconnected")


def test_a_page_without_the_token_asks_for_it(address: str, tabs: Open) -> None:
    tab = tabs(address.partition("#")[0])
    tab.until("document.getElementById('login').open")
    log_in: Callable[[str], None] = partial(_log_in, tab)
    log_in("wrong")
    tab.until_text("#login-error", "this token is wrong")
    log_in(TOKEN)
    tab.until("!document.getElementById('login').open")
    tab.until_text("#status-text", "live")


def _log_in(tab: Tab, token: str) -> None:
    tab.run("document.getElementById('token').focus()")
    tab.type(token)
    tab.click("#login-form button")
    tab.run("document.getElementById('token').value = ''")
