"""The replay of a generated log against what really happened.

Groups of both protocols, cooperative ones, and one that changes the protocol while its
members go on are in it.

What the log cannot know: a crash looks like leaving; a classic member is seen to be
gone when the next generation comes, and a static one when another takes its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from coterie.pipeline.gold.groups.fold import Folded
from tests.pipeline.generator.reading import truth_of
from tests.pipeline.gold.groups.coordinators import coordinators, owned
from tests.pipeline.gold.groups.replaying import Row, folded

Found: TypeAlias = Mapping[str, Folded]
_LATE_IN_CLASSIC = frozenset({"left", "crashed", "replaced"})


def _rows(found: Found, kind: str) -> list[Row]:
    return [
        {**row, "group_id": group_id}
        for group_id, told in found.items()
        for row in getattr(told, kind)
    ]


def _ms(at_us: int | None) -> int | None:
    return None if at_us is None else at_us // 1000


def _is_as_true(seen: int | None, true: int | None, *, may_be_late: bool) -> bool:
    if may_be_late and seen is not None and true is not None:
        return seen >= true
    return seen == true


def test_sessions_are_those_that_truth_has(made: Path, found: Found) -> None:
    ends = {"left": "left", "crashed": "left", "replaced": "replaced", "open": "open"}
    told = {
        (row["group_id"], row["member_id"]): row for row in _rows(found, "sessions")
    }
    truth = truth_of(made, "sessions")
    assert told.keys() == {(each["group_id"], each["member_id"]) for each in truth}
    for each in truth:
        row = told[each["group_id"], each["member_id"]]
        for name in ("instance_id", "client_id", "client_host", "protocol"):
            assert row[name] == each[name]
        assert _ms(row["joined_ts"]) == each["joined_ms"]
        assert row["end_reason"] == ends[each["end"]]
        late = each["protocol"] == "classic" and each["end"] in _LATE_IN_CLASSIC
        assert _is_as_true(_ms(row["left_ts"]), each["left_ms"], may_be_late=late)
        assert not row["is_lower_bound"]


_SEEN = ("group_type", "state", "epoch", "member_count")


@pytest.mark.slow
def test_groups_and_members_are_as_the_coordinator_has_them(
    made: Path, found: Found
) -> None:
    groups, members = coordinators(made)
    assert {
        group_id: tuple(told.group[name] for name in _SEEN)
        for group_id, told in found.items()
        if told.group["group_type"] is not None
    } == {name: about for name, about in groups.items() if about[0] != "simple"}
    assert {
        (row["group_id"], row["member_id"]): owned(row["assigned"])
        for row in _rows(found, "members")
    } == members


def _by_owner(rows: list[Any], since: str) -> dict[tuple[Any, ...], list[Any]]:
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row[since])):
        key = row["group_id"], row["topic"], row["partition"], row["member_id"]
        found[key].append(row)
    return found


@pytest.mark.slow
def test_owners_are_those_that_truth_has(made: Path, found: Found) -> None:
    ends = {
        "revoked": {"moved"},
        "left": {"member_left", "group_empty"},
        "crashed": {"member_left", "group_empty"},
        "replaced": {"member_left"},
        "open": {"open"},
    }
    told = _by_owner(_rows(found, "ownership"), "valid_from")
    truth = _by_owner(truth_of(made, "ownership"), "from_ms")
    assert told.keys() == truth.keys()
    for key, spans in truth.items():
        for row, each in zip(told[key], spans, strict=True):
            assert _ms(row["valid_from"]) == each["from_ms"]
            assert row["end_reason"] in ends[each["end"]]
            assert row["topic_id"] in {each["topic_id"], None}
            late = row["source"] == "classic" and each["end"] in _LATE_IN_CLASSIC
            assert _is_as_true(_ms(row["valid_to"]), each["to_ms"], may_be_late=late)
            assert not row["is_lower_bound"]


_CAUSES = {
    "join": {"first", "joined", "restarted", "upgraded", "downgraded"},
    "leave": {"left", "became_empty"},
    "crash": {"left", "became_empty"},
    "subscription_change": {"subscription_changed"},
    "metadata_change": {"metadata_changed"},
}


def _epochs(found: Found) -> dict[tuple[Any, ...], list[Row]]:
    rows = defaultdict(list)
    for row in _rows(found, "rebalances"):
        rows[row["group_id"], row["protocol"]].append(row)
    return rows


def _of(epochs: Mapping[tuple[Any, ...], list[Row]], each: Row) -> list[Row]:
    """The epochs that one cause made."""
    return [
        row
        for row in epochs[each["group_id"], each["protocol"]]
        if each["epoch_before"] < row["epoch"] <= each["epoch_after"]
        and each["start_ms"] <= row["start_ts"] // 1000 <= each["end_ms"]
    ]


@pytest.mark.fact("K-05")
def test_rebalances_are_those_that_truth_has(made: Path, found: Found) -> None:
    """A static member that comes back makes none; one cause may make many epochs."""
    epochs = _epochs(found)
    seen = set()
    for each in truth_of(made, "rebalances"):
        rows = _of(epochs, each)
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
        for row in _rows(found, "rebalances")
        if (row["group_id"], row["log_offset"]) not in seen
    }
    assert others == {"deleted", "downgraded"}
    causes = {row["cause"] for row in _rows(found, "rebalances")}
    assert {"restarted", "follow_up", "upgraded"} <= causes


@pytest.mark.parametrize("variant", [".", "compacted"])
@pytest.mark.slow
def test_nobody_owns_what_another_one_owns(made: Path, variant: str) -> None:
    spans: dict[tuple[Any, ...], list[tuple[int, float]]] = defaultdict(list)
    for row in _rows(folded(made / variant, made), "ownership"):
        key = row["group_id"], row["topic_id"], row["topic"], row["partition"]
        until = row["to_log_offset"]
        last = float("inf") if until is None else until
        spans[key].append((row["from_log_offset"], last))
    assert spans
    for some in spans.values():
        assert all(one[1] <= other[0] for one, other in pairwise(sorted(some)))


@pytest.mark.slow
def test_what_compaction_left_says_who_is_there_now(made: Path, found: Found) -> None:
    """Its histories are shorter, and say so."""
    compacted = folded(made / "compacted", made)
    assert compacted.keys() <= found.keys()
    for name, whole in found.items():
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
        for row in _rows(found, "ownership")
        if row["end_reason"] == "open"
    }
    for row in rows:
        key = row["group_id"], row["topic"], row["partition"], row["member_id"]
        if row["end_reason"] == "open":
            whole_row = began[key]
            assert row["valid_from"] >= whole_row["valid_from"]
            is_shorter = row["valid_from"] > whole_row["valid_from"]
            assert row["is_lower_bound"] or not is_shorter
