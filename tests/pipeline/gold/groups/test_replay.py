"""The replay compared with the truth of a generated log, and changes of the protocol.

The log has groups of both protocols, cooperative groups, and one group that changes its
protocol while it has members.

The log does not record everything. A crash and a leave write the same records. A
classic member that left is missing only in the next generation, and a static member
that left only after it is replaced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from coterie.pipeline.gold.groups.replay import GroupHistory
from tests.pipeline.gold.groups.coordinator_state import (
    assigned_partitions,
    coordinator_state,
)
from tests.pipeline.gold.groups.generated_log import Row, replayed_folder
from tests.pipeline.gold.groups.group_log import (
    ID,
    GroupLog,
    current,
    epoch,
    generation,
    group_tombstones,
    member,
    member_tombstones,
    ownership_spans,
    target,
    tombstone,
)
from tests.testing.log_generator.generated_log import read_truth

Histories: TypeAlias = Mapping[str, GroupHistory]
_LATE_IN_CLASSIC = frozenset({"left", "crashed", "replaced"})


def _rows(histories: Histories, kind: str) -> list[Row]:
    return [
        {**row, "group_id": group_id}
        for group_id, history in histories.items()
        for row in getattr(history, kind)
    ]


def _ms(at_us: int | None) -> int | None:
    return None if at_us is None else at_us // 1000


def _matches(actual: int | None, true: int | None, *, may_be_late: bool) -> bool:
    if may_be_late and actual is not None and true is not None:
        return actual >= true
    return actual == true


def test_sessions_match_the_generated_truth(folder: Path, histories: Histories) -> None:
    ends = {"left": "left", "crashed": "left", "replaced": "replaced", "open": "open"}
    history = {
        (row["group_id"], row["member_id"]): row for row in _rows(histories, "sessions")
    }
    truth = read_truth(folder, "sessions")
    assert history.keys() == {(each["group_id"], each["member_id"]) for each in truth}
    for each in truth:
        row = history[each["group_id"], each["member_id"]]
        for name in ("instance_id", "client_id", "client_host", "protocol"):
            assert row[name] == each[name]
        assert _ms(row["joined_ts"]) == each["joined_ms"]
        assert row["end_reason"] == ends[each["end"]]
        late = each["protocol"] == "classic" and each["end"] in _LATE_IN_CLASSIC
        assert _matches(_ms(row["left_ts"]), each["left_ms"], may_be_late=late)
        assert not row["is_lower_bound"]


_GROUP_COLUMNS = ("group_type", "state", "epoch", "member_count")


@pytest.mark.slow
def test_groups_and_members_match_the_coordinator(
    folder: Path, histories: Histories
) -> None:
    groups, members = coordinator_state(folder)
    assert {
        group_id: tuple(history.group[name] for name in _GROUP_COLUMNS)
        for group_id, history in histories.items()
        if history.group["group_type"] is not None
    } == {name: about for name, about in groups.items() if about[0] != "simple"}
    assert {
        (row["group_id"], row["member_id"]): assigned_partitions(row["assigned"])
        for row in _rows(histories, "members")
    } == members


def _by_owner(rows: list[Any], since: str) -> dict[tuple[Any, ...], list[Any]]:
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row[since])):
        key = row["group_id"], row["topic"], row["partition"], row["member_id"]
        found[key].append(row)
    return found


@pytest.mark.slow
def test_ownership_matches_the_generated_truth(
    folder: Path, histories: Histories
) -> None:
    ends = {
        "revoked": {"moved"},
        "left": {"member_left", "group_empty"},
        "crashed": {"member_left", "group_empty"},
        "replaced": {"member_left"},
        "open": {"open"},
    }
    history = _by_owner(_rows(histories, "ownership"), "valid_from")
    truth = _by_owner(read_truth(folder, "ownership"), "from_ms")
    assert history.keys() == truth.keys()
    for key, spans in truth.items():
        for row, each in zip(history[key], spans, strict=True):
            assert _ms(row["valid_from"]) == each["from_ms"]
            assert row["end_reason"] in ends[each["end"]]
            assert row["topic_id"] in {each["topic_id"], None}
            late = row["source"] == "classic" and each["end"] in _LATE_IN_CLASSIC
            assert _matches(_ms(row["valid_to"]), each["to_ms"], may_be_late=late)
            assert not row["is_lower_bound"]


_CAUSES = {
    "join": {"first", "joined", "restarted", "upgraded", "downgraded"},
    "leave": {"left", "became_empty"},
    "crash": {"left", "became_empty"},
    "subscription_change": {"subscription_changed"},
    "metadata_change": {"metadata_changed"},
}


def _epochs(histories: Histories) -> dict[tuple[Any, ...], list[Row]]:
    rows = defaultdict(list)
    for row in _rows(histories, "rebalances"):
        rows[row["group_id"], row["protocol"]].append(row)
    return rows


def _epochs_of_cause(
    epochs: Mapping[tuple[Any, ...], list[Row]], each: Row
) -> list[Row]:
    """Return the epochs with one cause in the truth."""
    return [
        row
        for row in epochs[each["group_id"], each["protocol"]]
        if each["epoch_before"] < row["epoch"] <= each["epoch_after"]
        and each["start_ms"] <= row["start_ts"] // 1000 <= each["end_ms"]
    ]


@pytest.mark.fact("K-05")
def test_rebalances_match_the_generated_truth(
    folder: Path, histories: Histories
) -> None:
    """Expect no rebalance for a returning static member; one cause may bump several
    epochs."""
    epochs = _epochs(histories)
    seen = set()
    for each in read_truth(folder, "rebalances"):
        rows = _epochs_of_cause(epochs, each)
        if each["cause"] == "static_restart":
            assert not rows
            continue
        seen |= {(row["group_id"], row["log_offset"]) for row in rows}
        assert _ms(rows[-1]["end_ts"]) == each["end_ms"]
        assert rows[-1]["members_after"] == each["members_after"]
        if each["protocol"] == "consumer":
            assert _ms(rows[0]["start_ts"]) == each["start_ms"]
        if len(rows) == 1:
            [row] = rows
            assert row["cause"] in _CAUSES[each["cause"]]
            assert row["partitions_moved"] == each["moves"]
        if each["storm"]:
            assert all(row["storm_size"] >= 12 for row in rows)
    others = {
        row["cause"]
        for row in _rows(histories, "rebalances")
        if (row["group_id"], row["log_offset"]) not in seen
    }
    assert others == {"deleted", "downgraded"}
    causes = {row["cause"] for row in _rows(histories, "rebalances")}
    assert {"restarted", "follow_up", "upgraded"} <= causes


@pytest.mark.parametrize("variant", [".", "compacted"])
@pytest.mark.slow
def test_ownership_intervals_of_a_partition_do_not_overlap(
    folder: Path, variant: str
) -> None:
    spans: dict[tuple[Any, ...], list[tuple[int, float]]] = defaultdict(list)
    for row in _rows(replayed_folder(folder / variant, folder), "ownership"):
        key = row["group_id"], row["topic_id"], row["topic"], row["partition"]
        until = row["to_log_offset"]
        last = float("inf") if until is None else until
        spans[key].append((row["from_log_offset"], last))
    assert spans
    for some in spans.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(some)))


@pytest.mark.slow
def test_a_compacted_log_has_the_same_current_state(
    folder: Path, histories: Histories
) -> None:
    """Expect shorter histories that are marked as lower bounds."""
    compacted = replayed_folder(folder / "compacted", folder)
    assert compacted.keys() <= histories.keys()
    for name, whole in histories.items():
        left = compacted.get(name)
        if whole.group["group_type"] is None:
            assert left is None or left.group["group_type"] is None
            continue
        assert left is not None
        for column in ("group_type", "state", "epoch", "member_count", "assignor"):
            assert left.group[column] == whole.group[column]
        now = {row["member_id"]: row["assigned"] for row in whole.members}
        assert {row["member_id"]: row["assigned"] for row in left.members} == now
    rows = _rows(compacted, "ownership")
    assert any(row["is_lower_bound"] for row in rows)
    began = {
        (row["group_id"], row["topic"], row["partition"], row["member_id"]): row
        for row in _rows(histories, "ownership")
        if row["end_reason"] == "open"
    }
    for row in rows:
        key = row["group_id"], row["topic"], row["partition"], row["member_id"]
        if row["end_reason"] == "open":
            whole_row = began[key]
            assert row["valid_from"] >= whole_row["valid_from"]
            is_shorter = row["valid_from"] > whole_row["valid_from"]
            assert row["is_lower_bound"] or not is_shorter


# Changes of the protocol, in hand-written records.


def _upgraded() -> GroupLog:
    """Return a log in which `a` and `b` use the classic protocol and the group is
    upgraded when `c` joins."""
    log = GroupLog().batch(generation(4, {"a": [0], "b": [1]}))
    return log.batch(
        tombstone(2),
        member("a", is_classic_member=True),
        member("b", is_classic_member=True),
        epoch(4),
        target(4),
        current("a", 4, (0,), before=4),
        current("b", 4, (1,), before=4),
        member("c"),
        epoch(5),
        target(5),
        current("c", 5, state=2),
    )


@pytest.mark.fact("K-07c")
def test_a_type_2_tombstone_and_a_type_5_record_in_one_batch_are_an_upgrade() -> None:
    """Expect sessions and ownership to continue, and partitions to get topic IDs."""
    history = _upgraded().replay()
    causes = [(row["cause"], row["epoch"]) for row in history.rebalances]
    assert causes == [("first", 4), ("upgraded", 4), ("joined", 5)]
    assert ownership_spans(history) == [("a", 0, 1, None), ("b", 1, 1, None)]
    assert {row["topic_id"] for row in history.ownership} == {ID}
    assert {row["source"] for row in history.ownership} == {"classic"}
    protocols = [(row["member_id"], row["protocol"]) for row in history.members]
    assert protocols == [("a", "classic"), ("b", "classic"), ("c", "consumer")]
    assert [row["end_reason"] for row in history.sessions] == ["open"] * 3
    assert history.group["group_type"] == "consumer"


@pytest.mark.fact("K-07c")
def test_a_type_5_record_in_a_later_batch_creates_a_new_group() -> None:
    log = GroupLog().batch(generation(4, {"a": [0]})).batch(tombstone(2))
    log.batch(member("a"), epoch(1), target(1), current("a", 1, (0,)))
    history = log.replay()
    assert [row["cause"] for row in history.rebalances] == ["first", "deleted", "first"]
    assert [row["end_reason"] for row in history.sessions] == ["group_deleted", "open"]


@pytest.mark.fact("K-07d")
def test_consumer_tombstones_and_a_type_2_record_in_one_batch_are_a_downgrade() -> None:
    log = _upgraded().batch(
        current("a", 5, (0,), before=4), current("b", 5, (), before=4)
    )
    log.batch(current("c", 5, (1,), before=5))
    log.batch(*group_tombstones("a", "b", "c"), generation(5, {"a": [0], "b": []}))
    history = log.replay()
    row = history.rebalances[-1]
    assert (row["cause"], row["protocol"], row["epoch"]) == ("downgraded", "classic", 5)
    assert (row["left"], row["joined"]) == (["c"], [])
    assert history.group["group_type"] == "classic"
    assert ownership_spans(history) == [
        ("a", 0, 1, None),
        ("b", 1, 1, 3),
        ("c", 1, 4, 5),
    ]
    assert {row["topic_id"] for row in history.ownership} == {ID}
    after = log.batch(generation(6, {"a": [0], "b": [1]})).replay()
    assert after.rebalances[-1]["cause"] == "follow_up"
    assert after.ownership[-1]["gap_before_ms"] == 1_000
    assert after.rebalances[-1]["partitions_moved"] == 1


@pytest.mark.fact("K-07b")
def test_a_group_with_type_2_records_only_is_classic() -> None:
    history = GroupLog().batch(generation(1, {"a": [0]})).replay()
    assert history.group["group_type"] == "classic"
    assert (history.group["epoch"], history.group["assignment_epoch"]) == (1, None)
    assert history.group["leader_member_id"] == "a"


def test_an_empty_classic_group_is_upgraded_by_its_first_consumer_member() -> None:
    log = GroupLog().batch(generation(3, {"a": [0]})).batch(generation(4, {}))
    log.batch(tombstone(2), member("b"), epoch(1), target(1), current("b", 1, (0,)))
    row = log.replay().rebalances[-1]
    assert (row["cause"], row["joined"], row["epoch_gap"]) == ("upgraded", ["b"], 0)


def test_a_protocol_change_in_a_log_gap_keeps_members_with_later_records() -> None:
    log = GroupLog().batch(generation(3, {"a": [0], "b": [1]})).gap()
    log.batch(member("a"), epoch(9), target(9), current("a", 9, (0,), before=9))
    history = log.replay()
    assert [row["member_id"] for row in history.members] == ["a"]
    assert ownership_spans(history) == [("a", 0, 1, None), ("b", 1, 1, 2)]
    assert history.rebalances[-1]["cause"] == "unknown"
    log = (
        GroupLog().batch(member("a"), epoch(1), target(1), current("a", 1, (0,))).gap()
    )
    history = log.batch(generation(9, {"b": [0]})).replay()
    assert ownership_spans(history) == [("a", 0, 1, 2), ("b", 0, 2, None)]


def test_a_member_that_leaves_right_after_an_upgrade_is_removed() -> None:
    history = _upgraded().batch(*member_tombstones("b"), epoch(6)).replay()
    assert [row["member_id"] for row in history.members] == ["a", "c"]
