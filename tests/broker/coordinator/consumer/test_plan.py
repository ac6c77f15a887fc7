"""Targets from a group's plan equal those computed from all members."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.consumer.draft import PlanSet
from coterie.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import ConsumerGroupTargetAssignmentMetadataKey
from coterie.broker.coordinator.result import Context, Record, Result
from coterie.settings import Settings
from coterie.wire import messages as m
from tests.broker.coordinator.consumer.groups import (
    AT_ONCE,
    GroupDriver,
    Unread,
    topic_id,
)

members = st.sampled_from("abcdefgh")
common_steps = [
    st.tuples(st.just("join"), members),
    st.tuples(st.just("join_several"), st.sets(members)),
    st.tuples(st.just("leave"), members),
    st.tuples(st.just("leave_several"), st.sets(members, max_size=3)),
    st.tuples(st.just("beat")),
    st.tuples(st.just("wait"), st.sampled_from((500, 1_000))),
]
rare_steps = [
    st.tuples(st.just("join_to"), members, st.sampled_from((("foo",), ("bar", "x")))),
    st.tuples(st.just("join_by_regex"), members, st.sampled_from(("foo|bar", "f.*"))),
    st.tuples(st.just("join_with_range"), members),
    st.tuples(st.just("join_in_rack"), members),
    st.tuples(st.just("restart"), st.sampled_from("st"), members),
    st.tuples(st.just("resize"), st.sampled_from(("foo", "bar")), st.integers(1, 12)),
    st.tuples(st.just("delete"), st.sampled_from(("foo", "bar", "x"))),
    st.tuples(st.just("wait"), st.just(50_000)),
    st.tuples(st.just("reload")),
]
mostly_common = st.lists(st.one_of(common_steps), min_size=4, max_size=15)
some_rare = st.lists(st.one_of(*common_steps, *rare_steps), max_size=15)
steps = st.lists(st.one_of(mostly_common, some_rare), max_size=4).map(
    lambda parts: [step for part in parts for step in part]
)


class TwiceDriver(GroupDriver):
    """A driver that handles each request with the group's plan and without it."""

    planned = 0
    """The number of target assignments that were due with a plan."""

    def _decide(self, request: Any, context: Context) -> Result:
        decided = super()._decide(request, context)
        group = self.state.consumer_groups.get(self.group_id)
        if group is None or group.plan is None:
            return decided
        plan, group.plan = group.plan, None
        try:
            full = self.shard.handle(request, context)
        finally:
            group.plan = plan
        assert as_set(decided.records) == as_set(full.records)
        assert decided.response == full.response
        assert sizes(decided) == sizes(full)
        self.planned += any(map(is_target, decided.records))
        return decided

    def take(self, name: str, *arguments: Any) -> None:
        getattr(self, f"do_{name}")(*arguments)

    def do_join(self, member_id: str) -> None:
        self.join(member_id, ("foo", "bar"))

    def do_join_several(self, member_ids: set[str]) -> None:
        for member_id in sorted(member_ids):
            self.do_join(member_id)

    def do_join_to(self, member_id: str, topics: tuple[str, ...]) -> None:
        self.join(member_id, topics)

    def do_join_by_regex(self, member_id: str, regex: str) -> None:
        self.join(member_id, (), subscribed_topic_regex=regex)

    def do_join_with_range(self, member_id: str) -> None:
        self.join(member_id, ("foo", "bar"), server_assignor="range")

    def do_join_in_rack(self, member_id: str) -> None:
        self.join(member_id, ("foo", "bar"), rack_id="r")

    def do_restart(self, instance_id: str, member_id: str) -> None:
        """Let a static member leave temporarily and join with another member id."""
        group = self.state.consumer_groups.get(self.group_id)
        before = None if group is None else group.static_members.get(instance_id)
        if before is not None:
            self.heartbeat(before, -2, instance_id=instance_id)
        new_id = f"{instance_id}{member_id}"
        self.join(new_id, ("foo", "bar"), instance_id=instance_id)

    def do_leave(self, member_id: str) -> None:
        self.heartbeat(member_id, -1)

    def do_leave_several(self, member_ids: set[str]) -> None:
        for member_id in sorted(member_ids):
            self.do_leave(member_id)

    def do_resize(self, topic: str, count: int) -> None:
        self.topics.counts[topic] = count
        self._change(topic)

    def do_delete(self, topic: str) -> None:
        self.topics.counts.pop(topic, None)
        self._change(topic)

    def _change(self, topic: str) -> None:
        self.topics.version += 1
        self.fire(TopicsChanged([topic], [topic]))

    def do_beat(self) -> None:
        group = self.state.consumer_groups.get(self.group_id)
        for member in [] if group is None else [*group.members.values()]:
            owned = {
                topic.rstrip(b"\0").decode(): list(held)
                for topic, held in member.assigned.items()
            }
            self.heartbeat(
                member.member_id,
                max(member.epoch, 0),
                owned=owned,
                instance_id=member.instance_id,
            )

    def do_wait(self, ms: int) -> None:
        self.advance(ms)

    def do_reload(self) -> None:
        if not self.state.consumer_groups:
            return
        group = self.group
        loaded = self.reloaded()
        assert loaded.state.consumer_groups[self.group_id].plan is None
        plan, group.plan = group.plan, None
        assert loaded.state.consumer_groups[self.group_id].targets == group.targets
        group.plan = plan


def as_set(records: tuple[Record, ...]) -> list[tuple[bytes, bytes]]:
    """Return the sorted bytes of the records: the order of members may differ."""
    encoded = (encode_record(record) for record in records)
    return sorted((key, value or b"") for key, value in encoded)


def sizes(result: Result) -> list[Any]:
    return [each.plan.sizes for each in result.changes if isinstance(each, PlanSet)]


def is_target(record: Record) -> bool:
    return isinstance(record.key, ConsumerGroupTargetAssignmentMetadataKey)


@pytest.mark.slow
@pytest.mark.fact("E11-41")
@settings(max_examples=300)
@given(steps, st.sampled_from((0, 1_000)))
def test_targets_from_a_plan_equal_full_ones(
    taken: list[tuple[Any, ...]], interval_ms: int
) -> None:
    driver = TwiceDriver(
        settings=Settings(group_consumer_assignment_interval_ms=interval_ms)
    )
    for step in taken:
        driver.take(*step)


def planned_group(*members: str) -> GroupDriver:
    """Return a stable group with a plan; its members subscribe to topic foo."""
    driver = GroupDriver(settings=AT_ONCE)
    for member_id in members:
        driver.join(member_id)
    driver.settled(*members)
    assert driver.group.plan is not None
    return driver


@pytest.mark.parametrize("epoch", [JOIN_EPOCH, LEAVE_EPOCH])
def test_a_join_or_leave_reads_and_writes_only_members_with_another_target(
    epoch: int,
) -> None:
    driver = planned_group("a", "b", "c")
    if epoch == LEAVE_EPOCH:
        driver.heartbeat("c", epoch)
        request: Any = m.ConsumerGroupHeartbeatRequest(
            group_id=driver.group_id, member_id="a", member_epoch=driver.group.epoch - 1
        )
    else:
        driver.join("d")
        request = driver.last_sent
        driver = planned_group("a", "b", "c")
    group = driver.group
    group.members, group.targets = Unread(group.members), Unread(group.targets)
    driver.check_purity = False
    result = driver._decide(request, driver._context(99, 1, "", ""))
    types = [type(record.key).__name__ for record in result.records]
    assert types.count("ConsumerGroupTargetAssignmentMemberKey") == 2
    assert "ConsumerGroupTargetAssignmentMetadataKey" in types


def test_a_loaded_group_has_no_plan_until_its_next_target() -> None:
    driver = planned_group("a", "b")
    loaded = driver.reloaded().state.consumer_groups[driver.group_id]
    assert loaded.plan is None
    assert loaded.targets == driver.group.targets


def test_another_assignor_discards_the_plan() -> None:
    driver = planned_group("a", "b")
    driver.join("c", server_assignor="range")
    driver.join("d", server_assignor="range")
    driver.join("e", server_assignor="range")
    assert driver.group.plan is None


def test_a_returning_static_member_keeps_its_target() -> None:
    driver = planned_group("a", "b")
    driver.join("c", instance_id="i")
    assert driver.group.plan is not None
    target = driver.group.targets["c"]
    driver.heartbeat("c", STATIC_LEAVE_EPOCH, instance_id="i")
    driver.join("d", instance_id="i")
    assert driver.group.targets["d"] == target
    assert driver.group.plan is None


def test_a_changed_subscription_needs_a_full_target() -> None:
    driver = planned_group("a", "b")
    driver.heartbeat("a", driver.member("a").epoch, subscribed_topic_names=["bar"])
    assert driver.group.plan is None
    assert [*driver.group.targets["a"]] == [topic_id("bar")]
