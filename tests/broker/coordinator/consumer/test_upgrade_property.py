"""Random joins and leaves of both protocols in one group, with upgrades and downgrades.

No partition ever has two owners; after convergence each partition has one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.coordinator.consumer.clients import (
    PARTITIONS,
    NewClient,
    OldClient,
)
from tests.broker.coordinator.consumer.groups import AT_ONCE, GroupDriver

PLACES = 5
ROUNDS_MAX = 60
places = st.integers(0, PLACES - 1)
steps = st.one_of(
    st.tuples(st.just("act"), places),
    st.tuples(st.just("act"), places),
    st.tuples(st.just("act_all"), st.permutations(range(PLACES))),
    st.tuples(st.just("start_old"), places),
    st.tuples(st.just("start_new"), places),
    st.tuples(st.just("leave"), places),
    st.tuples(st.just("bounce"), places),
    st.tuples(st.just("crash"), places),
    st.tuples(st.just("wait"), st.sampled_from((50, 300, 1_000))),
    st.tuples(st.just("restart")),
)


class Clients:
    """The clients of one group, each in a numbered slot."""

    def __init__(
        self, *, eager: bool, static: bool, interval_ms: int, policy: str
    ) -> None:
        self.eager, self.static = eager, static
        self.driver = GroupDriver(
            check_purity=False,
            settings=replace(
                AT_ONCE,
                group_initial_rebalance_delay_ms=100,
                group_consumer_assignment_interval_ms=interval_ms,
                group_consumer_migration_policy=policy,
            ),
        )
        self.at: dict[int, NewClient | OldClient] = {}
        self.born = 0

    def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        getattr(self, f"do_{name}")(*arguments)
        self.check()

    def do_act(self, place: int) -> None:
        if place in self.at:
            self.at[place].act()

    def do_act_all(self, order: list[int]) -> None:
        for place in order:
            self.do_act(place)
            self.check()

    def do_start_old(self, place: int) -> None:
        instance = f"i{place}" if self.static else None
        client = OldClient(self.driver, eager=self.eager, instance=instance)
        self.at.setdefault(place, client)

    def do_start_new(self, place: int) -> None:
        self.born += 1
        instance = f"i{place}" if self.static else None
        client = NewClient(self.driver, f"new{self.born}", instance)
        self.at.setdefault(place, client)

    def do_leave(self, place: int) -> None:
        if (client := self.at.pop(place, None)) is not None:
            client.leave()

    def do_bounce(self, place: int) -> None:
        """Restart a client with the other protocol."""
        is_new = isinstance(self.at.get(place), NewClient)
        self.do_leave(place)
        self.check()
        self.do_start_old(place) if is_new else self.do_start_new(place)
        self.do_act(place)

    def do_crash(self, place: int) -> None:
        self.at.pop(place, None)

    def do_wait(self, ms: int) -> None:
        self.driver.advance(ms)

    def do_restart(self) -> None:
        """Restart the server; clients with a pending request retry."""
        loaded = self.driver.reload()
        self.driver.shard, self.driver.timers = loaded.shard, loaded.timers
        self.driver._due, self.driver._waiting = loaded._due, {}
        for client in self.at.values():
            if isinstance(client, OldClient):
                client.lose_response()

    def check(self) -> None:
        """Assert that no partition is owned by two clients."""
        owned = [client.owned for client in self.at.values()]
        assert sum(map(len, owned)) == len(set().union(*owned)), owned

    def converge(self) -> None:
        """Run all clients until each partition has an owner; sessions of crashed
        clients expire.
        """
        for round_ in range(ROUNDS_MAX):
            if self.is_at_rest() and round_ > 20:
                return
            self.do_act_all(list(self.at))
            self.driver.advance(3_000)
            self.check()
        raise AssertionError([(type(c).__name__, c.owned) for c in self.at.values()])

    def is_at_rest(self) -> bool:
        owned = [client.owned for client in self.at.values()]
        return len(set().union(*owned)) == PARTITIONS and all(owned)


@pytest.mark.slow
@pytest.mark.fact("E20-25", "E20-28", "E5-12", "E5-13")
@settings(max_examples=100, deadline=None)
@given(
    st.lists(steps, min_size=10, max_size=60),
    st.booleans(),
    st.booleans(),
    st.sampled_from((0, 1_000)),
    st.sampled_from(("bidirectional", "upgrade")),
)
def test_each_partition_has_at_most_one_owner_and_one_after_convergence(
    taken: list[tuple[Any, ...]],
    eager: bool,
    static: bool,
    interval_ms: int,
    policy: str,
) -> None:
    clients = Clients(
        eager=eager, static=static, interval_ms=interval_ms, policy=policy
    )
    for step in taken:
        clients.take(step)
    if clients.at:
        clients.converge()
