"""Checks of tables against the truth of a generated log.

A failed check raises AssertionError. Tests run the checks over correct tables and over
tables of mutants.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest

from tests.pipeline.gold.generated_silver import GeneratedSilver, timestamp

Tables = Mapping[str, Any]
"""Arrow tables by name."""
Line = dict[str, Any]
DAY_MS = 86_400_000
RETENTION_MS = 7 * DAY_MS


def check_current_offsets(tables: Tables, story: GeneratedSilver) -> None:
    """Check that each current offset is the last commit, and was not deleted
    afterwards."""
    names = ("group_id", "topic", "partition", "committed_offset", "log_offset")
    rows = tables["current_offsets"].select(names).to_pylist()
    expected = {
        (*key, lines[-1]["offset"], lines[-1]["log_offset"])
        for key, lines in _by_partition(story).items()
        if "offset" in lines[-1]
    }
    assert {tuple(row.values()) for row in rows} == expected
    assert len(rows) == len(expected) > 0


def check_changes(tables: Tables, story: GeneratedSilver) -> None:
    """Check each commit against the previous one."""
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


def check_actors(tables: Tables, story: GeneratedSilver) -> None:
    """Check the actor of each commit, and the owner of its partition."""
    rows = _history(tables)
    for each in story.counted("commits"):
        row = rows[each["log_partition"], each["log_offset"]]
        actual = row["actor"], row["owner_member_id"]
        assert actual == (each["actor"], each["member_id"]), each


def check_causes(tables: Tables, story: GeneratedSilver) -> None:
    """Check the causes of tombstones.

    The cause may be "expired" for an offset that was deleted when it was old enough to
    expire.
    """
    rows = _history(tables)
    causes: Counter[str] = Counter()
    for lines in _by_partition(story).values():
        for before, now in pairwise([{}, *lines]):
            if "offset" in now:
                continue
            actual = rows[now["log_partition"], now["log_offset"]]["tombstone_cause"]
            is_old = now["at_ms"] - before.get("commit_ms", 0) >= RETENTION_MS
            assert actual == now["cause"] or (actual == "expired" and is_old), now
            causes[actual] += 1
    assert causes.keys() >= {"expired", "topic_deleted"}


def check_quality(tables: Tables, story: GeneratedSilver) -> None:
    """Check the number of records of each kind in each log partition."""
    commits = Counter(each["log_partition"] for each in story.counted("commits"))
    written = Counter(each["log_partition"] for each in story.read_lines("commits"))
    rows = {each["log_partition"]: each for each in tables["data_quality"].to_pylist()}
    assert rows.keys() == commits.keys()
    for partition, row in rows.items():
        assert row["commits"] == commits[partition]
        assert row["commits"] + row["aborted"] == written[partition]
        known = ("commits", "aborted", "group_records", "tombstones", "control")
        assert row["records"] == sum(row[name] for name in known)


def check_load(tables: Tables, story: GeneratedSilver) -> None:
    """Check the number of commits, and the group with the most commits."""
    by_group: dict[int, Counter[str]] = defaultdict(Counter)
    for each in story.counted("commits"):
        by_group[each["log_partition"]][each["group_id"]] += 1
    names = ("log_partition", "commits", "top_group_id", "top_group_share")
    rows = tables["coordinator_load"].select(names).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        (partition, of.total(), top, pytest.approx(most / of.total()))
        for partition, of in sorted(by_group.items())
        for top, most in [max(of.items(), key=lambda item: (item[1], item[0]))]
    ]


def check_usage(tables: Tables, story: GeneratedSilver) -> None:
    """Check commits, tombstones, forward and backward offsets, and active minutes."""
    sums: dict[tuple[date, str, str], Counter[str]] = defaultdict(Counter)
    minutes = defaultdict(set)
    for lines in _by_partition(story).values():
        for before, now in pairwise([{}, *lines]):
            at_ms = now["commit_ms"] if "offset" in now else now["at_ms"]
            key = timestamp(at_ms).date(), now["group_id"], now["topic"]
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


def _by_partition(story: GeneratedSilver) -> dict[tuple[str, str, int], list[Line]]:
    """Return the commits and deletions of each partition of a group, in log order."""
    lines = [*story.counted("commits"), *story.counted("deletions")]
    found = defaultdict(list)
    for each in sorted(lines, key=itemgetter("log_offset")):
        if each["topic"] is not None:
            found[each["group_id"], each["topic"], each["partition"]].append(each)
    return found
