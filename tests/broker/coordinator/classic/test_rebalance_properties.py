"""Invariants of a classic group after each of many random requests, and at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState, Member
from coterie.settings import Settings
from coterie.wire import messages as m
from sim.invariants import check_classic_group
from tests.broker.coordinator.classic.members import (
    REBALANCE_MS,
    SESSION_MS,
    join_request,
    protocols,
    sync,
)
from tests.broker.coordinator.driver import Driver

OFFERS = (
    protocols(range=b"r"),
    protocols(range=b"r2", sticky=b"s"),
    protocols(sticky=b"s", range=b"r"),
)
WHO = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(
        st.just("join_new"), st.sampled_from([3, 4, 8, 9]), st.sampled_from(range(3))
    ),
    st.tuples(st.just("join static"), st.integers(0, 2), st.sampled_from(range(3))),
    st.tuples(st.just("rejoin"), WHO, st.sampled_from(range(3))),
    st.tuples(st.just("sync"), WHO),
    st.tuples(st.just("rejoin all"), st.sampled_from(range(3))),
    st.tuples(st.just("sync all")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("heartbeat all")),
    st.tuples(st.just("heartbeat"), WHO, st.integers(0, 3)),
    st.tuples(st.just("leave"), WHO, st.booleans()),
    st.tuples(
        st.just("wait"), st.sampled_from([1, 3_000, 5_000, SESSION_MS, REBALANCE_MS])
    ),
)


class Life:
    """A classic group under random requests, and all member ids that it returned."""

    def __init__(self, group_max_size: int) -> None:
        self.driver = Driver(settings=Settings(group_max_size=group_max_size))
        self.ids: list[tuple[str, str | None]] = []
        self.generation = 0

    def take(self, step: tuple[object, ...]) -> None:
        name = str(step[0]).replace(" ", "_")
        getattr(self, name)(*step[1:])
        self.check_invariants()

    def join_new(self, version: int, offer: int) -> None:
        self._join("", None, offer, version)

    def join_static(self, instance: int, offer: int) -> None:
        self._join("", f"i{instance}", offer, 9)

    def rejoin(self, who: int, offer: int) -> None:
        if self.ids:
            member_id, instance_id = self.ids[-1 - who % len(self.ids)]
            self._join(member_id, instance_id, offer, 9)

    def _join(
        self, member_id: str, instance_id: str | None, offer: int, version: int
    ) -> None:
        request = join_request(
            member_id, group_instance_id=instance_id, protocols=OFFERS[offer]
        )
        sent = self.driver.send(request, version=version)
        if not sent.parked and sent.error in (0, 79):
            self._meet(sent.response.member_id, instance_id)
        for known, member in self._members().items():
            self._meet(known, member.group_instance_id)

    def _members(self) -> Mapping[str, Member]:
        group = self.driver.groups.get("g")
        return dict(group.members) if group else {}

    def _meet(self, member_id: str, instance_id: str | None) -> None:
        if member_id not in [known for known, _ in self.ids]:
            self.ids.append((member_id, instance_id))

    def sync(self, who: int) -> None:
        if self.ids:
            member_id, _ = self.ids[-1 - who % len(self.ids)]
            given = dict.fromkeys(self._members(), b"a")
            sync(self.driver, member_id, self.generation, assignments=given)

    def sync_all(self) -> None:
        for member_id in self._members():
            sync(self.driver, member_id, self.generation)

    def rejoin_all(self, offer: int) -> None:
        for member_id, member in self._members().items():
            self._join(member_id, member.group_instance_id, offer, 9)

    def settle(self) -> None:
        """Send the requests of correct members until the group is stable."""
        if not self._members():
            self.join_new(3, 0)
        self.wait(6_000)
        self.heartbeat_all()
        self.rejoin_all(1)
        self.check_invariants()
        self.sync_all()

    def heartbeat_all(self) -> None:
        for member_id in self._members():
            self._heartbeat(member_id, None, self.generation)

    def heartbeat(self, who: int, back: int) -> None:
        if self.ids:
            member_id, instance_id = self.ids[-1 - who % len(self.ids)]
            self._heartbeat(member_id, instance_id, self.generation - back)

    def _heartbeat(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> None:
        request = m.HeartbeatRequest(
            group_id="g",
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        self.driver.send(request)

    def leave(self, who: int, two: bool) -> None:
        if self.ids:
            chosen = [self.ids[-1 - who % len(self.ids)], *self.ids[: int(two)]]
            identities = [
                m.MemberIdentity(member_id=one, group_instance_id=i)
                for one, i in chosen
            ]
            self.driver.send(m.LeaveGroupRequest(group_id="g", members=identities))

    def wait(self, ms: int) -> None:
        self.driver.advance(ms)

    def check_invariants(self) -> None:
        """Assert the invariants after each step."""
        group = self.driver.groups.get("g")
        if group is None:
            return
        check_classic_group(group)
        assert group.generation >= self.generation
        self.generation = group.generation
        tickets = {*group.joins.values(), *group.syncs.values()}
        assert {sent.ticket for sent in self.driver.parked} == tickets
        self._look_at_timers(group)
        if group.state in (GroupState.EMPTY, GroupState.STABLE):
            assert durable(self.driver.reload().groups["g"]) == durable(group)

    def _look_at_timers(self, group: ClassicGroup) -> None:
        timers = self.driver.timers
        watched = {key[2] for key in timers if key[0] == "session"}
        silent = group.members.keys() - group.joins.keys() - group.syncs.keys()
        assert silent | group.pending_members.keys() <= watched
        assert watched <= group.members.keys() | group.pending_members.keys()
        preparing = group.state is GroupState.PREPARING_REBALANCE
        assert preparing == (("join", "g") in timers)
        if group.unsynced:
            assert ("sync", "g") in timers


def durable(group: ClassicGroup) -> object:
    """Return the durable state of a group that is not rebalancing."""
    members = {
        member_id: (replace(member, protocols=()), member.metadata(group.protocol_name))
        for member_id, member in group.members.items()
    }
    return (
        group.state,
        group.state_timestamp_ms,
        group.protocol_type,
        group.protocol_name,
        group.generation,
        group.leader_id,
        members,
        dict(group.static_members),
    )


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(STEPS, max_size=30), st.sampled_from([2, 100]))
def test_invariants_hold_and_a_group_without_requests_becomes_empty(
    steps: list[tuple[object, ...]], group_max_size: int
) -> None:
    life = Life(group_max_size)
    for step in steps:
        life.take(step)
    for _ in range(20):  # five minutes each, without requests
        life.wait(300_000)
        life.check_invariants()
    assert not life.driver.parked
    assert not life.driver.timers
    for group in life.driver.groups.values():
        assert group.state is GroupState.EMPTY
    for kept in range(len(life.driver.log)):
        log = life.driver.log[: kept + 1]
        assert life.driver.reload(log=log).groups == (
            life.driver.reload(log=log[-1:]).groups
        )
