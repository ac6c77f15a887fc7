"""The comparison of a lake's rows with the state of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.errors import ApiError
from coterie.pipeline.jobs.check import (
    CheckResult,
    ClusterState,
    Counts,
    Difference,
    ExpectedDifferences,
    LakeRows,
    Verdict,
    compare,
)
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

ID = "ab" * 16
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP: dict[str, Any] = {
    "group_id": "g",
    "group_type": "consumer",
    "protocol_type": "consumer",
    "assignor": None,
    "state": "Stable",
    "epoch": 5,
    "assignment_epoch": 5,
}
MEMBER: dict[str, Any] = {
    "group_id": "g",
    "member_id": "m",
    "instance_id": None,
    "client_id": "c",
    "client_host": "/127.0.0.1",
    "member_epoch": 5,
    "assigned": [
        {"topic_id": ID, "topic": None, "partition": 1},
        {"topic_id": ID, "topic": None, "partition": 0},
        {"topic_id": "00" * 16, "topic": None, "partition": 0},
    ],
}
OFFSET: dict[str, Any] = {
    "group_id": "g",
    "topic": "t",
    "partition": 0,
    "committed_offset": 42,
    "leader_epoch": 3,
    "metadata": None,
}
MEMBER_NOW = MemberDescription("m", "c", "/127.0.0.1", (T0, T1), epoch=5)
GROUP_NOW = GroupDescription(
    group_id="g",
    type=GroupType.CONSUMER,
    state=GroupState.STABLE,
    protocol_type="consumer",
    assignor="uniform",
    coordinator=Node(1, "broker", 9092),
    members=(MEMBER_NOW,),
    group_epoch=5,
    assignment_epoch=5,
)
CLASSIC = {**GROUP, "group_type": "classic", "assignor": "range"}
CLASSIC_NOW = replace(
    GROUP_NOW, type=GroupType.CLASSIC, assignor="range", generation_id=5
)
OFFSETS_NOW = GroupOffsets({T0: CommittedOffset(42, 3, ""), T1: None})


def check(
    group: Mapping[str, Any] | None = GROUP,
    member: Mapping[str, Any] | None = MEMBER,
    offset: Mapping[str, Any] | None = OFFSET,
    *,
    now: GroupDescription | None = GROUP_NOW,
    offsets_now: GroupOffsets | None = OFFSETS_NOW,
    expected: ExpectedDifferences = ExpectedDifferences(),  # noqa: B008 - immutable
) -> CheckResult:
    """Compare one group of the lake and of the cluster."""
    rows = LakeRows(
        groups=[group] if group else [],
        members=[member] if member else [],
        offsets=[offset] if offset else [],
    )
    cluster = ClusterState(
        groups={"g": now} if now else {},
        offsets={"g": offsets_now} if offsets_now else {},
        topic_names={ID: "t"},
    )
    return compare(rows, cluster, expected)


def test_equal_states_have_no_differences() -> None:
    assert check() == CheckResult((), Counts(1, 1, 2))
    assert check().is_clean


def test_a_negative_offset_is_no_committed_offset() -> None:
    none_now = GroupOffsets({T0: None})
    assert check(
        offset={**OFFSET, "committed_offset": None}, offsets_now=none_now
    ).is_clean


def test_a_classic_group_is_compared_by_the_fields_its_brokers_report() -> None:
    named = [{"topic_id": None, "topic": "t", "partition": n} for n in (0, 1)]
    member = {**MEMBER, "assigned": named, "member_epoch": 5}
    now = replace(CLASSIC_NOW, members=(replace(MEMBER_NOW, epoch=None),))
    assert check(CLASSIC, member, now=now).is_clean
    without_generation = replace(now, generation_id=None)
    assert check({**CLASSIC, "epoch": 4}, member, now=without_generation).is_clean
    assert not check({**CLASSIC, "epoch": 4}, member, now=now).is_clean


def test_a_simple_group_has_offsets_only() -> None:
    simple = {**GROUP, "group_type": "simple", "protocol_type": None, "state": "Empty"}
    now = replace(
        GROUP_NOW,
        type=GroupType.CLASSIC,
        state=GroupState.EMPTY,
        protocol_type="",
        assignor="",
        members=(),
        generation_id=0,
    )
    assert check({**simple, "epoch": None}, None, now=now).is_clean


@pytest.mark.parametrize(
    ("make", "about", "what", "lake", "brokers"),
    [
        (lambda: check(None, None, None, offsets_now=None), "group", "group_type",
         None, "consumer"),
        (lambda: check(now=None, offsets_now=None, offset=None), "group",
         "group_type", "consumer", None),
        (lambda: check({**GROUP, "state": "Empty"}), "group", "state", "Empty",
         "Stable"),
        (lambda: check({**GROUP, "epoch": 4}), "group", "epoch", 4, 5),
        (lambda: check({**GROUP, "assignment_epoch": 4}), "group",
         "assignment_epoch", 4, 5),
        (lambda: check(member=None), "member", "client_host", None, "/127.0.0.1"),
        (lambda: check(now=replace(GROUP_NOW, members=())), "member", "client_host",
         "/127.0.0.1", None),
        (lambda: check(member={**MEMBER, "instance_id": "i"}), "member",
         "instance_id", "i", None),
        (lambda: check(member={**MEMBER, "assigned": None}), "member", "assigned", [],
         ["t-0", "t-1"]),
        (lambda: check(member={**MEMBER, "member_epoch": 4}), "member",
         "member_epoch", 4, 5),
        (lambda: check(offset=None), "offset", "committed_offset", None, 42),
        (lambda: check(offsets_now=None), "offset", "committed_offset", 42, None),
        (lambda: check(offset={**OFFSET, "committed_offset": 41}), "offset",
         "committed_offset", 41, 42),
        (lambda: check(offset={**OFFSET, "metadata": "x"}), "offset", "metadata", "x",
         ""),
        (lambda: check(offset={**OFFSET, "leader_epoch": None}), "offset",
         "leader_epoch", None, 3),
    ],
)  # fmt: skip
def test_each_difference_names_its_column(
    make: Callable[[], CheckResult], about: str, what: str, lake: Any, brokers: Any
) -> None:
    checked = make()
    of = {"group": "", "member": "m", "offset": "t-0"}[about]
    assert checked.differences == (
        Difference(Verdict.DIFFERS, "g", about, of, what, lake, brokers),
    )
    assert not checked.is_clean


@pytest.mark.parametrize(
    ("expected", "now", "verdict"),
    [
        (ExpectedDifferences(changed=frozenset({"g"})), GROUP_NOW, Verdict.CHANGED),
        (ExpectedDifferences(changed=frozenset({"h"})), GROUP_NOW, Verdict.DIFFERS),
        (
            ExpectedDifferences(held_back=frozenset({3}), partition_of=lambda _: 3),
            GROUP_NOW,
            Verdict.HELD_BACK,
        ),
        (
            ExpectedDifferences(held_back=frozenset({3}), partition_of=lambda _: 4),
            GROUP_NOW,
            Verdict.DIFFERS,
        ),
        (
            ExpectedDifferences(),
            replace(CLASSIC_NOW, state=GroupState.COMPLETING_REBALANCE),
            Verdict.REBALANCING,
        ),
    ],
)
def test_an_expected_difference_has_a_separate_verdict(
    expected: ExpectedDifferences, now: GroupDescription, verdict: Verdict
) -> None:
    checked = check({**CLASSIC, "state": "Empty"}, now=now, expected=expected)
    assert {each.verdict for each in checked.differences} == {verdict}
    assert checked.is_clean == (verdict is not Verdict.DIFFERS)


def test_groups_whose_request_failed_are_not_compared() -> None:
    error = ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert check(offsets_now=GroupOffsets({}, {T0: error})).is_clean
    rows = LakeRows(groups=[GROUP], members=[MEMBER], offsets=[OFFSET])
    cluster = ClusterState(groups={}, offsets={}, skipped=frozenset({"g"}))
    assert compare(rows, cluster, ExpectedDifferences()) == CheckResult(
        (), Counts(0, 0, 0)
    )
