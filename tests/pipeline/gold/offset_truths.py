"""What is held against the truth of a generated log, each table by a check that raises
AssertionError. Tests run them over right tables, and over tables broken on purpose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest

from tests.pipeline.gold.generated import Story, time_of

Tables = Mapping[str, Any]
"""Arrow tables by name."""
Line = dict[str, Any]
DAY_MS = 86_400_000
RETENTION_MS = 7 * DAY_MS


def check_current_offsets(tables: Tables, story: Story) -> None:
    """They are the last commits, where no deletion stands behind them."""
    names = ("group_id", "topic", "partition", "committed_offset", "log_offset")
    rows = tables["current_offsets"].select(names).to_pylist()
    held = {
        (*key, lines[-1]["offset"], lines[-1]["log_offset"])
        for key, lines in _by_partition(story).items()
        if "offset" in lines[-1]
    }
    assert {tuple(row.values()) for row in rows} == held
    assert len(rows) == len(held) > 0


def check_changes(tables: Tables, story: Story) -> None:
    """Each commit beside the one before it."""
    rows = _history(tables)
    for lines in _by_partition(story).values():
        for before, now in pairwise([{}, *lines]):
            row = rows.pop((now["log_partition"], now["log_offset"]))
            prev, offset = before.get("offset"), now.get("offset")
            assert (row["prev_offset"], row["committed_offset"]) == (prev, offset)
            assert row["direction"] == _direction(prev, offset)
    assert not rows


def _direction(prev: int | None, offset: int | None) -> str:
    if offset is None:
        return "tombstone"
    if prev is None:
        return "first"
    return "forward" if offset > prev else "rewind" if offset < prev else "same"


def check_actors(tables: Tables, story: Story) -> None:
    """Who committed, and who owned the partition then."""
    rows = _history(tables)
    for each in story.told("commits"):
        row = rows[each["log_partition"], each["log_offset"]]
        said = row["actor"], row["owner_member_id"]
        assert said == (each["actor"], each["member_id"]), each


def check_causes(tables: Tables, story: Story) -> None:
    """Why offsets went. One that was old enough to expire when somebody deleted it
    looks like one that expired."""
    rows = _history(tables)
    told: Counter[str] = Counter()
    for lines in _by_partition(story).values():
        for before, now in pairwise([{}, *lines]):
            if "offset" in now:
                continue
            said = rows[now["log_partition"], now["log_offset"]]["tombstone_cause"]
            is_old = now["at_ms"] - before.get("commit_ms", 0) >= RETENTION_MS
            assert said == now["cause"] or (said == "expired" and is_old), now
            told[said] += 1
    assert told.keys() >= {"expired", "topic_deleted"}


def check_quality(tables: Tables, story: Story) -> None:
    """The counts are those of the truth."""
    commits = Counter(each["log_partition"] for each in story.told("commits"))
    written = Counter(each["log_partition"] for each in story.written("commits"))
    rows = {each["log_partition"]: each for each in tables["data_quality"].to_pylist()}
    assert rows.keys() == commits.keys()
    for partition, row in rows.items():
        assert row["commits"] == commits[partition]
        assert row["commits"] + row["aborted"] == written[partition]
        known = ("commits", "aborted", "group_records", "tombstones", "control")
        assert row["records"] == sum(row[name] for name in known)


def check_load(tables: Tables, story: Story) -> None:
    """Commits, and who made most of them."""
    by_group: dict[int, Counter[str]] = defaultdict(Counter)
    for each in story.told("commits"):
        by_group[each["log_partition"]][each["group_id"]] += 1
    names = ("log_partition", "commits", "top_group_id", "top_group_share")
    rows = tables["coordinator_load"].select(names).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        (partition, of.total(), top, pytest.approx(most / of.total()))
        for partition, of in sorted(by_group.items())
        for top, most in [max(of.items(), key=lambda item: (item[1], item[0]))]
    ]


def check_usage(tables: Tables, story: Story) -> None:
    """Commits, tombstones, offsets gone forward and back, and minutes of each day."""
    sums: dict[tuple[date, str, str], Counter[str]] = defaultdict(Counter)
    minutes = defaultdict(set)
    for lines in _by_partition(story).values():
        for before, now in pairwise([{}, *lines]):
            at_ms = now["commit_ms"] if "offset" in now else now["at_ms"]
            key = time_of(at_ms).date(), now["group_id"], now["topic"]
            if "offset" not in now:
                sums[key]["tombstones"] += 1
                continue
            minutes[key].add(at_ms // 60_000)
            sums[key]["commits"] += 1
            delta = now["offset"] - before.get("offset", now["offset"])
            sums[key]["offsets_consumed"] += max(0, delta)
            sums[key]["offsets_rewound"] += max(0, -delta)
    names = ("commits", "tombstones", "offsets_consumed", "offsets_rewound")
    keys = ("day", "group_id", "topic")
    found = {
        tuple(row[key] for key in keys): (
            *(row[name] for name in names),
            row["active_minutes"],
        )
        for row in tables["group_usage_daily"].to_pylist()
    }
    assert found == {
        key: (*(of[name] for name in names), len(minutes[key]))
        for key, of in sums.items()
    }


def _history(tables: Tables) -> dict[tuple[int, int], Line]:
    rows = tables["offset_commit_history"].to_pylist()
    return {(row["log_partition"], row["log_offset"]): row for row in rows}


def _by_partition(story: Story) -> dict[tuple[str, str, int], list[Line]]:
    """Of each partition of a group its commits and deletions, in the order of the
    log."""
    lines = [*story.told("commits"), *story.told("deletions")]
    found = defaultdict(list)
    for each in sorted(lines, key=itemgetter("log_offset")):
        if each["topic"] is not None:
            found[each["group_id"], each["topic"], each["partition"]].append(each)
    return found
