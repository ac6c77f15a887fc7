"""Comparisons of tables with the truth of a recorded broker.

A failed comparison raises AssertionError with all differences.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import dropwhile, groupby, pairwise
from typing import Any, Final

from tests.pipeline.truth.journal import OPEN, REPLACED, Commit, Ownership, Session
from tests.pipeline.truth.recording import Truth

Rows = Sequence[Mapping[str, Any]]
Tables = Mapping[str, Rows]
Check = Callable[[Tables, Truth], None]
CLOCK_S: Final = 0.002
"""Times of the log are in ms; those of the journal have fractions."""
COMMITTED_WITHOUT_ID: Final = {"consumed", "also-expiring", "expiring"}
"""Topics whose only commits are transactional or have a retention time: brokers write
no topic ID with these."""
SAMPLED: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The points of an ownership at which its owner is compared."""


class Nameable:
    """The topics whose names tables can have.

    Assignments of the consumer protocol have IDs only. The name of an ID is known from
    a sample of the topic, or from a commit that has both.
    """

    def __init__(self, tables: Tables, truth: Truth) -> None:
        named = [*tables["partition_end_samples"], *tables["offset_commits"]]
        self.topics = {row["topic"] for row in named if row["topic_id"] is not None}
        self._by_id = truth.journal.groups_by_id

    def has(self, group: str, topic: str) -> bool:
        return topic in self.topics or group not in self._by_id


def check_current_offsets(tables: Tables, truth: Truth) -> None:
    """Check the offsets against those that the broker returns."""
    found = [
        (row["group_id"], row["topic"], row["partition"], row["committed_offset"])
        for row in tables["current_offsets"]
    ]
    _equal(sorted(found), committed_offsets(truth))


def committed_offsets(truth: Truth) -> list[tuple[str, str, int, int]]:
    """Return the committed offsets that the broker has, in order."""
    return sorted(
        (group, *key, offset)
        for group, offsets in truth.offsets.items()
        for key, offset in offsets.items()
    )


def check_commits(tables: Tables, truth: Truth) -> None:
    """Check every commit and deletion of each partition, in order."""
    history = _by_partition(tables["offset_commit_history"])
    wrong: list[Any] = []
    expected = truth.journal.commits_of()
    assert history.keys() == expected.keys()
    for key, commits in expected.items():
        rows = history[key]
        if len(rows) != len(commits):
            wrong.append((key, rows, commits))
            continue
        wrong += [
            (key, dict(row), each)
            for row, each in zip(rows, commits, strict=True)
            if not _is_commit(row, each)
            or not _is_cause(row["tombstone_cause"], each, is_hidden=True)
        ]
    _none(wrong)


def _is_commit(row: Mapping[str, Any], each: Commit) -> bool:
    found = row["committed_offset"], row["metadata"] or "", row["is_transactional"]
    return found == (each.offset, each.metadata, each.transactional) and _is_within(
        row["commit_ts"], *each.span
    )


def _is_cause(found: str | None, each: Commit, is_hidden: bool) -> bool:
    """Return whether a deletion has its cause. That a topic was deleted may be hidden:
    the log alone does not always show it."""
    may_be_unknown = is_hidden and each.cause == "topic_deleted"
    return found == each.cause or (may_be_unknown and found == "unknown")


def check_deletions(tables: Tables, truth: Truth) -> None:
    """Check why each offset was deleted, by what the last run knows: a topic that the
    cluster listed, and no longer lists, was deleted."""
    listed = {
        row["topic"]
        for row in tables["partition_end_samples"]
        if row["round_trip_ms"] is not None
    }
    found = _by_partition(tables["deleted_offsets"])
    expected = {
        key: [each for each in commits if each.offset is None]
        for key, commits in truth.journal.commits_of().items()
    }
    _equal(
        {key: len(rows) for key, rows in found.items()},
        {key: len(deleted) for key, deleted in expected.items() if deleted},
    )
    _none(
        [
            (key, row["cause"], each.cause)
            for key, rows in found.items()
            for row, each in zip(rows, expected[key], strict=True)
            if not _is_cause(row["cause"], each, each.topic not in listed)
        ]
    )


def check_directions(tables: Tables, truth: Truth) -> None:
    """Check each commit against the previous one of its partition."""
    history = _by_partition(tables["offset_commit_history"])
    wrong: list[Any] = []
    for key, commits in truth.journal.commits_of().items():
        offsets = [None, *(each.offset for each in commits)]
        for row, (before, offset) in zip(history[key], pairwise(offsets), strict=True):
            delta = None
            if before is not None and offset is not None:
                delta = offset - before
            expected = (before, delta, _direction(before, offset))
            found = (row["prev_offset"], row["delta"], row["direction"])
            if found != expected:
                wrong.append((key, found, expected))
    _none(wrong)


def _direction(before: int | None, offset: int | None) -> str:
    if offset is None:
        return "tombstone"
    if before is None:
        return "first"
    return "forward" if offset > before else "rewind" if offset < before else "same"


def check_actors(tables: Tables, truth: Truth) -> None:
    """Check which member or admin made each commit."""
    history = _by_partition(tables["offset_commit_history"])
    had_members = {each.group for each in truth.journal.sessions}
    nameable = Nameable(tables, truth)
    wrong: list[Any] = []
    for key, commits in truth.journal.commits_of().items():
        if not nameable.has(*key[:2]):
            continue
        for row, each in zip(history[key], commits, strict=True):
            expected = (_actor(each, had_members), each.client_id)
            found = (row["actor"], row["owner_client_id"])
            if each.offset is not None and found != expected:
                wrong.append((key, each.offset, found, expected))
    _none(wrong)


def _actor(commit: Commit, had_members: set[str]) -> str:
    if commit.client_id is not None:
        return "owner"
    return "admin" if commit.group in had_members else "simple"


def check_owners(tables: Tables, truth: Truth) -> None:
    """Check the owner of each partition at sampled times of each ownership."""
    history = _by_partition(tables["partition_ownership_history"])
    wrong: list[Any] = []
    points = 0
    nameable = Nameable(tables, truth)
    for each in truth.journal.all_ownerships():
        if not nameable.has(each.group, each.topic):
            continue
        rows = history.get((each.group, each.topic, each.partition), [])
        for at_s in _points(each, truth.end_s):
            points += 1
            owners = [row["client_id"] for row in rows if _covers(row, at_s)]
            if owners != [each.client_id]:
                wrong.append((each, at_s, owners))
    _none(wrong)
    assert points > 0


def _points(each: Ownership, end_s: float) -> Iterator[float]:
    until_s = (end_s if each.until_s is None else each.until_s) - CLOCK_S
    for share in SAMPLED:
        yield each.from_s + share * max(0.0, until_s - each.from_s)


def _covers(row: Mapping[str, Any], at_s: float) -> bool:
    to = row["valid_to"]
    return _seconds(row["valid_from"]) <= at_s and (to is None or at_s < _seconds(to))


def check_sequence_of_owners(tables: Tables, truth: Truth) -> None:
    """Check that each partition had these owners, in this order, and no others."""
    history = _by_partition(tables["partition_ownership_history"])
    expected: dict[Any, list[tuple[str, bool]]] = defaultdict(list)
    nameable = Nameable(tables, truth)
    for each in sorted(truth.journal.all_ownerships(), key=lambda one: one.from_s):
        if not nameable.has(each.group, each.topic):
            continue
        key = each.group, each.topic, each.partition
        expected[key].append((each.client_id, each.until_s is None))
    named = set(truth.topic_ids)
    found = {
        key: [(row["client_id"], row["valid_to"] is None) for row in rows]
        for key, rows in history.items()
        if key[1] in named and nameable.has(key[0], key[1])
    }
    wrong = [
        (key, owners, _merged(expected[key]))
        for key, owners in found.items()
        if _merged(owners) != _merged(expected[key])
    ]
    _none(wrong)
    assert found.keys() == expected.keys()
    unnamed = {key[0] for key in history if key[1] not in named}
    assert all(_has_unnamed(group, nameable, truth) for group in unnamed), unnamed


def _has_unnamed(group: str, nameable: Nameable, truth: Truth) -> bool:
    """Return whether a group owned topics whose names the tables cannot have."""
    owned = {
        each.topic for each in truth.journal.all_ownerships() if each.group == group
    }
    return any(not nameable.has(group, topic) for topic in owned)


def _merged(owners: Iterable[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return each run of one owner once, with its last flag."""
    return [list(run)[-1] for _, run in groupby(owners, key=lambda one: one[0])]


def check_sessions(tables: Tables, truth: Truth) -> None:
    """Check who joined and left each group, and when."""
    expected: dict[Any, list[Session]] = defaultdict(list)
    for each in sorted(truth.journal.sessions, key=lambda one: one.began):
        expected[each.group, each.client_id].append(each)
    found: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(tables["member_sessions"], key=lambda one: one["joined_ts"]):
        found[row["group_id"], row["client_id"]].append(row)
    _equal(
        {key: len(each) for key, each in found.items()},
        {key: len(each) for key, each in expected.items()},
    )
    pairs = [
        (row, each)
        for key, rows in found.items()
        for row, each in zip(rows, expected[key], strict=True)
    ]
    _none([(each, dict(row)) for row, each in pairs if not _is_session(row, each)])


def _is_session(row: Mapping[str, Any], each: Session) -> bool:
    if row["instance_id"] != each.instance_id:
        return False
    if not _is_within(row["joined_ts"], *each.began):
        return False
    if each.ended is None:
        return row["left_ts"] is None and row["end_reason"] == OPEN
    end = REPLACED if each.end == REPLACED else "left"
    return row["end_reason"] == end and _seconds(row["left_ts"]) >= (
        each.ended.from_s - CLOCK_S
    )


def check_rebalances(tables: Tables, truth: Truth) -> None:
    """Check the causes of all rebalances of each group, in order; of those without a
    known cause the number."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in sorted(tables["rebalance_timeline"], key=_log_order):
        found[row["group_id"]].append(row["cause"])
    expected = truth.journal.rebalances
    _equal(
        {group: _in_order(causes) for group, causes in found.items()},
        {group: _in_order(causes) for group, causes in expected.items()},
    )


def _in_order(causes: Sequence[str]) -> tuple[list[str], int]:
    unknown = causes.count("unknown")
    known = [each for each in causes if each != "unknown"]
    # Members that revoke partitions at different moments join again in separate
    # rebalances, instead of in one.
    known = [
        each
        for before, each in pairwise(["", *known])
        if not each == before == "follow_up"
    ]
    # Kafka deletes an empty group without offsets at each check of retention, even
    # while its first member joins.
    return list(dropwhile(lambda each: each == "deleted", known)), unknown


def check_current_groups(tables: Tables, truth: Truth) -> None:
    """Check which groups exist, and their type, state and members."""
    had_members = {each.group for each in truth.journal.sessions}
    found = {
        row["group_id"]: (row["group_type"], row["state"], row["member_count"])
        for row in tables["current_groups"]
    }
    expected = {
        name: (
            each.group_type if name in had_members else "simple",
            each.state,
            len(each.members),
        )
        for name, each in truth.groups.items()
    }
    assert len(tables["current_groups"]) == len(found)
    _equal(found, expected)
    assert not found.keys() & truth.journal.deleted_groups
    members = {(row["group_id"], row["member_id"]) for row in tables["current_members"]}
    described = {
        (name, member) for name, each in truth.groups.items() for member in each.members
    }
    _equal(members, described)


def check_counts_of_topics(tables: Tables, truth: Truth) -> None:
    """Check the topics and partitions that each group has an offset or owner of."""
    keys: dict[str, set[tuple[str, int]]] = {
        name: set(offsets) for name, offsets in truth.offsets.items()
    }
    owned: Counter[str] = Counter()
    for each in truth.journal.all_ownerships():
        if each.until_s is None:
            keys[each.group].add((each.topic, each.partition))
            owned[each.group] += 1
    found = {
        row["group_id"]: (
            row["topic_count"],
            row["partition_count"],
            row["owned_partition_count"],
        )
        for row in tables["current_groups"]
    }
    nameable = Nameable(tables, truth)
    expected = {
        name: (len({topic for topic, _ in each}), len(each), owned[name])
        for name, each in keys.items()
        if not _has_unnamed(name, nameable, truth)
    }
    _equal({name: found[name] for name in expected}, expected)


def check_topic_names(tables: Tables, truth: Truth) -> None:
    """Check that topics have their names, and IDs that are the broker's or unknown."""
    nameable = Nameable(tables, truth)
    assert nameable.topics >= truth.topic_ids.keys() - COMMITTED_WITHOUT_ID
    names = {topic_id: topic for topic, topic_id in truth.topic_ids.items()}
    rows = [
        (row["group_id"], row["topic_id"], row["topic"])
        for table in ("partition_ownership_history", "current_offsets")
        for row in tables[table]
    ]
    rows += [
        (row["group_id"], each["topic_id"], each["topic"])
        for row in tables["current_members"]
        for each in row["assigned"] or ()
    ]
    wrong = []
    for group, topic_id, topic in rows:
        if topic is None:
            is_right = not nameable.has(group, names[topic_id])
        else:
            is_right = topic_id in {None, truth.topic_ids[topic]}
        if not is_right:
            wrong.append((group, topic_id, topic))
    _none(wrong)


def check_usage(tables: Tables, truth: Truth) -> None:
    """Check commits, deletions and consumed offsets of each group and topic."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for key, commits in truth.journal.commits_of().items():
        counts = sums[key[:2]]
        for before, each in pairwise([None, *commits]):
            if each is None or each.offset is None:
                counts["tombstones"] += 1
                continue
            counts["commits"] += 1
            if before is not None and before.offset is not None:
                counts["offsets_consumed"] += max(0, each.offset - before.offset)
                counts["offsets_rewound"] += max(0, before.offset - each.offset)
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    names = ("commits", "tombstones", "offsets_consumed", "offsets_rewound")
    days: set[date] = set()
    for row in tables["group_usage_daily"]:
        days.add(row["day"])
        counts = found[row["group_id"], row["topic"]]
        counts.update({name: row[name] for name in names})
    _equal({key: +each for key, each in found.items()}, dict(sums))
    assert days <= {_time(each.span.until_s).date() for each in truth.journal.commits}


def check_lag(tables: Tables, truth: Truth) -> None:
    """Check the newest lag of each committed partition against the broker's."""
    newest: dict[Any, Mapping[str, Any]] = {}
    for row in sorted(tables["lag_history"], key=lambda one: one["sample_ts"]):
        newest[row["group_id"], row["topic"], row["partition"]] = row
    expected = {
        (group, *key): truth.ends[key] - offset
        for group, offsets in truth.offsets.items()
        for key, offset in offsets.items()
    }
    found = {key: newest[key]["lag"] for key in expected if key in newest}
    _equal(found, expected)


def check_verdicts(tables: Tables, truth: Truth) -> None:
    """Check that no caught up group is in trouble."""
    newest: dict[str, str] = {}
    for row in sorted(tables["group_status"], key=lambda one: one["window_end_ts"]):
        if row["topic"] is None:
            newest[row["group_id"]] = row["verdict"]
    caught_up = {
        group
        for group, offsets in truth.offsets.items()
        if all(truth.ends[key] == offset for key, offset in offsets.items())
    }
    _none([(group, newest.get(group)) for group in caught_up if newest[group] != "OK"])


def check_expiry(tables: Tables, truth: Truth) -> None:
    """Check that each committed offset has a forecast, and no deleted one has."""
    found = [
        (row["group_id"], row["topic"], row["partition"])
        for row in tables["expiry_forecast"]
    ]
    expected = [
        (group, *key) for group, offsets in truth.offsets.items() for key in offsets
    ]
    _equal(sorted(found), sorted(expected))
    live = {group for group, each in truth.groups.items() if each.members}
    forecast = {row["group_id"] for row in tables["stale_group_candidates"]}
    assert forecast == truth.groups.keys()
    deletable = {
        row["group_id"]
        for row in tables["stale_group_candidates"]
        if row["plan_item_id"] is not None
    }
    assert not deletable & live


def check_quality(tables: Tables, truth: Truth) -> None:
    """Check that no record is missing, unknown or counted twice."""
    commits = [each for each in truth.journal.commits if each.offset is not None]
    rows = tables["data_quality"]
    assert sum(row["commits"] for row in rows) == len(commits)
    for name in ("quarantined", "gaps", "missing_offsets", "held_back"):
        assert not [row for row in rows if row[name]], name
    assert all(row["next_offset"] == row["end_offset"] for row in rows)
    records = Counter(row["log_partition"] for row in tables["records"])
    assert records == {row["log_partition"]: row["records"] for row in rows}


def _equal(found: Any, expected: Any) -> None:
    """Check that two sorted lists, sets or mappings are equal."""
    if isinstance(found, dict):
        found, expected = found.items(), expected.items()
    missing = [each for each in expected if each not in found]
    extra = [each for each in found if each not in expected]
    assert found == expected, f"missing {missing}\nextra {extra}\nof {len(expected)}"


def _none(wrong: Sequence[Any]) -> None:
    assert not wrong, f"{len(wrong)} differ\n" + _lines(map(str, wrong[:12]))


def _lines(texts: Iterable[str]) -> str:
    return "\n".join(texts)


def _by_partition(rows: Rows) -> dict[tuple[str, str, int], list[Mapping[str, Any]]]:
    """Return the rows of each group, topic and partition in log order."""
    found: dict[tuple[str, str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(rows, key=_log_order):
        found[row["group_id"], row["topic"], row["partition"]].append(row)
    return found


def _log_order(row: Mapping[str, Any]) -> tuple[int, int]:
    offset = row["log_offset"] if "log_offset" in row else row["from_log_offset"]
    return row["log_partition"], offset


def _is_within(time: datetime, from_s: float, until_s: float) -> bool:
    return from_s - CLOCK_S <= _seconds(time) <= until_s + CLOCK_S


def _seconds(time: datetime) -> float:
    return time.timestamp()


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


ALL: Final[tuple[Check, ...]] = (
    check_current_offsets,
    check_commits,
    check_deletions,
    check_directions,
    check_actors,
    check_owners,
    check_sequence_of_owners,
    check_sessions,
    check_rebalances,
    check_current_groups,
    check_counts_of_topics,
    check_topic_names,
    check_usage,
    check_lag,
    check_verdicts,
    check_expiry,
    check_quality,
)
_NEEDS_ENDS: Final = {check_lag, check_verdicts}
"""Comparisons of tables that are empty without the ends of topics."""


def checks_of(source: str) -> list[Check]:
    """Return the comparisons for a kind of source; segments have no ends of topics."""
    return [each for each in ALL if source != "segments" or each not in _NEEDS_ENDS]
